//! Which case catches which mutant: written to `docs/provider-mutants.md`, and checked against it.
//!
//! `MUTANT_MATRIX=write cargo test -p duroxide-validation --test it matrix` runs every case against every mutant and
//! writes the table and the full matrix, which takes a while; `MUTANT_MATRIX=missing` runs only the mutants that the matrix
//! does not have. Without it, each mutant meets exactly the cases the table names, and each of them must fail.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use duroxide_validation::{Case, Report, cases, run_cases};
use futures::StreamExt as _;
use futures::future::join_all;

use super::Flaw;
use super::excused::{BITELESS, TWINS};
use super::factory::Flawed;

/// Cases named per mutant, most telling first.
const NAMED_MAX: usize = 5;

/// More cases than this, and a mutant breaks nearly everything.
const BROAD: usize = 40;

/// All pairs of mutant and case, as the full run found them: a mutant per line, then the cases that catch it.
const FULL: &str = "tests/it/mutants/matrix.txt";

fn full() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FULL)
}

fn document() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("docs/provider-mutants.md")
}

async fn meet(flaw: Flaw, cases: Vec<Case>) -> Report {
    run_cases(Arc::new(Flawed::with(flaw)), cases, |_| {}).await
}

fn caught_by(report: &Report) -> Vec<String> {
    report.failed().map(|outcome| outcome.case.path()).collect()
}

/// Panics of cases are the point here; their texts would drown the result.
fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Cases that talk to the store alone; an engine on a broken store would only run out of patience.
fn store_cases() -> Vec<Case> {
    let on_store = |case: &Case| case.module != "race_replay";
    cases().into_iter().filter(on_store).collect()
}

fn named_cases(paths: &[String]) -> Vec<Case> {
    let named = |case: &Case| paths.contains(&case.path());
    cases().into_iter().filter(named).collect()
}

/// Mutants that meet the cases at once. They wait most of the time.
const AT_ONCE: usize = 24;

/// Every mutant with the cases that caught it.
async fn matrix_of(mutants: Vec<Flaw>) -> Vec<(Flaw, Vec<String>)> {
    let meetings = mutants.into_iter().map(|flaw| async move {
        let mut caught = caught_by(&meet(flaw, store_cases()).await);
        // What catches a mutant only by chance is not named.
        for _ in 0..3 {
            caught = caught_by(&meet(flaw, named_cases(&caught)).await);
        }
        println!("{flaw:?} is caught by {} cases", caught.len());
        (flaw, caught)
    });
    let mut matrix: Vec<(Flaw, Vec<String>)> = futures::stream::iter(meetings)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    matrix.sort_by_key(|(flaw, _)| Flaw::ALL.iter().position(|known| known == flaw));
    matrix
}

/// The cases that tell most: those that few other mutants fail.
fn most_telling(matrix: &[(Flaw, Vec<String>)]) -> BTreeMap<String, Vec<String>> {
    let mut kills: HashMap<&str, usize> = HashMap::new();
    for case in matrix.iter().flat_map(|(_, cases)| cases) {
        *kills.entry(case).or_default() += 1;
    }
    let name = |(flaw, cases): &(Flaw, Vec<String>)| {
        let mut cases = cases.clone();
        // A mutant that breaks nearly everything is told best by the cases about leases.
        let broad = cases.len() > BROAD;
        let off_topic = |case: &String| broad && !case.starts_with("instance_locking");
        cases.sort_by_key(|case| (off_topic(case), kills[case.as_str()], case.clone()));
        cases.truncate(NAMED_MAX);
        (format!("{flaw:?}"), cases)
    };
    matrix.iter().map(name).collect()
}

fn render(named: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = String::from(
        "# Mutants: proof that the kit bites\n\n\
         Each row is a provider that is right in everything but one promise. The cases named with it fail on it; the\n\
         test `every_mutant_is_caught_by_the_cases_named_for_it` runs exactly these pairs. The unmutated reference\n\
         store passes every case.\n\n\
         Written by `MUTANT_MATRIX=write cargo test -p duroxide-validation --test it matrix`.\n\n\
         | mutant | what it does wrong | caught, among others, by |\n|---|---|---|\n",
    );
    for flaw in Flaw::ALL {
        let cases = &named[&format!("{flaw:?}")];
        let cases: Vec<String> = cases.iter().map(|case| format!("`{case}`")).collect();
        let _ = writeln!(
            text,
            "| {flaw:?} | {} | {} |",
            flaw.story(),
            cases.join("<br>")
        );
    }
    text
}

/// The cases that the document names for each mutant.
fn parse(text: &str) -> BTreeMap<String, Vec<String>> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, flaw, _, cases, _] = cells[..] else {
            return None;
        };
        let cases = cases.split('`').filter(|part| part.contains("::"));
        Some((flaw.to_owned(), cases.map(str::to_owned).collect()))
    };
    let table = text.lines().skip_while(|line| *line != "|---|---|---|");
    table.skip(1).filter_map(row).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mutant_is_caught_by_the_cases_named_for_it() {
    silence_panics();
    if let Ok(wish) = std::env::var("MUTANT_MATRIX") {
        let known = match wish.as_str() {
            "missing" => read_full(),
            _ => BTreeMap::new(),
        };
        let mutants = Flaw::ALL.iter().copied();
        let new = mutants.filter(|flaw| !known.contains_key(&format!("{flaw:?}")));
        let mut matrix = matrix_of(new.collect()).await;
        for flaw in Flaw::ALL {
            if let Some(cases) = known.get(&format!("{flaw:?}")) {
                matrix.push((*flaw, cases.iter().cloned().collect()));
            }
        }
        matrix.sort_by_key(|(flaw, _)| Flaw::ALL.iter().position(|known| known == flaw));
        std::fs::write(document(), render(&most_telling(&matrix))).unwrap();
        let lines: String = matrix
            .iter()
            .map(|(flaw, cases)| format!("{flaw:?}: {}\n", cases.join(" ")))
            .collect();
        std::fs::write(full(), lines).unwrap();
    }
    let text = std::fs::read_to_string(document()).unwrap();
    let named = parse(&text);
    let named = &named;
    let checks = Flaw::ALL.iter().map(|flaw| async move {
        let wanted = named.get(&format!("{flaw:?}")).cloned().unwrap_or_default();
        let caught = caught_by(&meet(*flaw, named_cases(&wanted)).await);
        let missed = wanted.iter().filter(|case| !caught.contains(case));
        match missed.collect::<Vec<_>>()[..] {
            [] if !wanted.is_empty() => None,
            [] => Some(format!("{flaw:?} is caught by no case")),
            ref missed => Some(format!("{flaw:?} is not caught by {missed:?}")),
        }
    });
    let trouble: Vec<String> = join_all(checks).await.into_iter().flatten().collect();
    let _ = std::panic::take_hook();
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

#[test]
fn the_document_says_what_the_mutants_say() {
    let text = std::fs::read_to_string(document()).unwrap();
    assert_eq!(render(&parse(&text)), text, "write the document again");
}

/// The full matrix as it was written.
fn read_full() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(full()).unwrap_or_default();
    let row = |line: &str| {
        let (flaw, cases) = line.split_once(':').expect("a mutant and its cases");
        let cases = cases.split_whitespace().map(str::to_owned).collect();
        (flaw.to_owned(), cases)
    };
    text.lines().map(row).collect()
}

#[test]
#[ignore = "the full matrix is still to be written: MUTANT_MATRIX=write, half an hour on a quiet machine"]
fn the_full_matrix_is_about_these_mutants_and_cases() {
    let matrix = read_full();
    let mutants: BTreeSet<String> = Flaw::ALL.iter().map(|flaw| format!("{flaw:?}")).collect();
    assert_eq!(matrix.keys().cloned().collect::<BTreeSet<_>>(), mutants);
    let known: BTreeSet<String> = cases().iter().map(Case::path).collect();
    let named: BTreeSet<String> = matrix.values().flatten().cloned().collect();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "write the matrix again: {unknown:?}");
}

#[test]
#[ignore = "the full matrix is still to be written: MUTANT_MATRIX=write, half an hour on a quiet machine"]
fn every_case_catches_a_mutant() {
    let caught: BTreeSet<String> = read_full().into_values().flatten().collect();
    let idle: BTreeSet<String> = store_cases()
        .iter()
        .map(Case::path)
        .filter(|case| !caught.contains(case))
        .collect();
    let excused: BTreeSet<String> = BITELESS
        .iter()
        .map(|(case, _)| (*case).to_owned())
        .collect();
    let new: Vec<_> = idle.difference(&excused).collect();
    assert!(new.is_empty(), "these cases catch nothing: {new:#?}");
    let cured: Vec<_> = excused.difference(&idle).collect();
    assert!(cured.is_empty(), "these cases bite by now: {cured:#?}");
}

#[test]
#[ignore = "the full matrix is still to be written: MUTANT_MATRIX=write, half an hour on a quiet machine"]
fn no_two_mutants_are_the_same() {
    let mut by_cases: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for (mutant, cases) in read_full() {
        by_cases.entry(cases).or_default().push(mutant);
    }
    let twins: Vec<Vec<String>> = by_cases.into_values().filter(|m| m.len() > 1).collect();
    let allowed: Vec<Vec<String>> = TWINS
        .iter()
        .map(|(twins, _)| twins.iter().map(|twin| (*twin).to_owned()).collect())
        .collect();
    assert_eq!(twins, allowed, "mutants that the kit cannot tell apart");
}
