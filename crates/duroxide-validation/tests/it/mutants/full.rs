//! The full matrix as a file: which cases were run, and for each mutant those that catch it. In: a run of all pairs.
//! Out: what tests in every build go by.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::Flaw;

/// What the line begins with that lists the cases.
const CASES: &str = "cases";

/// Everything that a full run found.
#[derive(Debug, Default)]
pub(super) struct Full {
    /// The cases that were run.
    pub(super) cases: BTreeSet<String>,
    /// For each mutant the cases that catch it.
    pub(super) rows: BTreeMap<String, BTreeSet<String>>,
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/mutants/matrix.txt")
}

fn line(name: &str, cases: &BTreeSet<String>) -> String {
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    format!("{name}: {}\n", cases.join(" "))
}

impl Full {
    /// As it was written last; empty if it never was.
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        let mut full = Self::default();
        for line in text.lines() {
            let (name, cases) = line.split_once(':').expect("a name and its cases");
            let cases = cases.split_whitespace().map(str::to_owned).collect();
            match name {
                CASES => full.cases = cases,
                mutant => drop(full.rows.insert(mutant.to_owned(), cases)),
            }
        }
        full
    }

    pub(super) fn write(&self) {
        let mut text = line(CASES, &self.cases);
        text.extend(self.rows.iter().map(|(mutant, by)| line(mutant, by)));
        std::fs::write(file(), text).expect("the folder of the tests can be written");
    }

    /// What is known of runs with exactly these cases.
    pub(super) fn if_about(&self, cases: BTreeSet<String>) -> Self {
        let rows = if self.cases == cases {
            self.rows.clone()
        } else {
            BTreeMap::new()
        };
        Self { cases, rows }
    }

    /// The cases that catch a mutant, if it was run.
    pub(super) fn caught_by(&self, mutant: Flaw) -> Option<&BTreeSet<String>> {
        self.rows.get(&format!("{mutant:?}"))
    }
}
