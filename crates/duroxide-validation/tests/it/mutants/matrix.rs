//! Which case catches which mutant: written to `docs/provider-mutants.md`, and checked against it.
//!
//! `MUTANT_MATRIX=write cargo test -p duroxide-validation --test it matrix` runs every case against every mutant and
//! writes the table and the full matrix, which takes a while; `MUTANT_MATRIX=missing` runs only the mutants and the
//! cases that the matrix does not have. Without it, each mutant meets exactly the cases the table names, and each of
//! them must fail.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use duroxide_validation::{Case, Report, cases, run_cases};
use futures::StreamExt as _;
use futures::future::join_all;

use super::Flaw;
use super::excused::{BITELESS, TWINS};
use super::factory::Flawed;
use super::full::Full;

/// Cases named per mutant, most telling first.
const NAMED_MAX: usize = 5;

/// More cases than this, and a mutant breaks nearly everything.
const BROAD: usize = 40;

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

/// Every mutant with the cases that caught it, of those that it has not met. Written to its file as it goes: a run that
/// is stopped goes on with `MUTANT_MATRIX=missing`.
async fn matrix_of(known: &Full) -> Full {
    let so_far = &Mutex::new(known.if_about(store_cases().iter().map(Case::path).collect()));
    let meetings = Flaw::ALL.iter().map(|flaw| async move {
        let before = known.caught_by(*flaw);
        let has_met = |case: &Case| before.is_some() && known.cases.contains(&case.path());
        let new = store_cases().into_iter().filter(|case| !has_met(case));
        let mut caught = caught_by(&meet(*flaw, new.collect()).await);
        // What catches a mutant only by chance is not named.
        for _ in 0..3 {
            caught = caught_by(&meet(*flaw, named_cases(&caught)).await);
        }
        let all: BTreeSet<String> = before
            .into_iter()
            .flatten()
            .cloned()
            .chain(caught)
            .collect();
        println!("{flaw:?} is caught by {} cases", all.len());
        let mut so_far = so_far.lock().expect("no meeting panics with it");
        so_far.rows.insert(format!("{flaw:?}"), all);
        so_far.write();
    });
    futures::stream::iter(meetings)
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
    std::mem::take(&mut so_far.lock().expect("no meeting panics with it"))
}

/// The cases that tell most: those that few other mutants fail.
fn most_telling(matrix: &Full) -> BTreeMap<String, Vec<String>> {
    let mut kills: HashMap<&str, usize> = HashMap::new();
    for case in matrix.rows.values().flatten() {
        *kills.entry(case).or_default() += 1;
    }
    let name = |(flaw, cases): (&String, &BTreeSet<String>)| {
        let mut cases: Vec<String> = cases.iter().cloned().collect();
        // A mutant that breaks nearly everything is told best by the cases about leases.
        let broad = cases.len() > BROAD;
        let off_topic = |case: &String| broad && !case.starts_with("instance_locking");
        cases.sort_by_key(|case| (off_topic(case), kills[case.as_str()], case.clone()));
        cases.truncate(NAMED_MAX);
        (flaw.clone(), cases)
    };
    matrix.rows.iter().map(name).collect()
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
            "missing" => Full::read(),
            _ => Full::default(),
        };
        let matrix = matrix_of(&known).await;
        std::fs::write(document(), render(&most_telling(&matrix))).unwrap();
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

#[test]
fn the_full_matrix_is_about_these_mutants_and_cases() {
    let matrix = Full::read();
    let mutants: BTreeSet<String> = Flaw::ALL.iter().map(|flaw| format!("{flaw:?}")).collect();
    let met: BTreeSet<String> = matrix.rows.keys().cloned().collect();
    assert_eq!(
        met, mutants,
        "MUTANT_MATRIX=missing runs those that it lacks"
    );
    let known: BTreeSet<String> = store_cases().iter().map(Case::path).collect();
    assert_eq!(
        matrix.cases, known,
        "MUTANT_MATRIX=missing runs those that it lacks"
    );
    let named: BTreeSet<String> = matrix.rows.values().flatten().cloned().collect();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "write the matrix again: {unknown:?}");
}

#[test]
fn every_mutant_is_caught() {
    let rows = Full::read().rows;
    let free: Vec<_> = rows.iter().filter(|(_, by)| by.is_empty()).collect();
    assert!(!rows.is_empty() && free.is_empty(), "{free:?}");
}

#[test]
fn every_case_catches_a_mutant() {
    let caught: BTreeSet<String> = Full::read().rows.into_values().flatten().collect();
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
fn no_two_mutants_are_the_same() {
    let mut by_cases: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for (mutant, cases) in Full::read().rows {
        by_cases.entry(cases).or_default().push(mutant);
    }
    let twins: BTreeSet<Vec<String>> = by_cases.into_values().filter(|m| m.len() > 1).collect();
    let allowed: BTreeSet<Vec<String>> = TWINS
        .iter()
        .map(|(twins, _)| twins.iter().map(|twin| (*twin).to_owned()).collect())
        .collect();
    assert_eq!(twins, allowed, "mutants that the kit cannot tell apart");
}
