//! Cases that run an engine on the store: each has to notice the mutants that `engine.txt` names with it. They are not
//! in the full matrix, because an engine on most broken stores only runs out of patience.
//!
//! `MUTANT_ENGINE=ReversesHistory,RestampsEvents cargo test -p duroxide-validation --test it every_case_with_an_engine`
//! lets all of these cases meet these mutants, and writes down who noticed whom; `MUTANT_ENGINE=all` takes every one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use duroxide_validation::{Case, Verdict, cases, run_case};
use futures::StreamExt as _;

use super::Flaw;
use super::factory::Flawed;

/// Engines that run at once.
const AT_ONCE: usize = 6;

/// For each case the mutants that it notices.
type Noticed = BTreeMap<String, BTreeSet<String>>;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/mutants/engine.txt")
}

fn read() -> Noticed {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let row = |line: &str| {
        let (case, mutants) = line.split_once(':')?;
        let mutants = mutants.split_whitespace().map(str::to_owned).collect();
        Some((case.to_owned(), mutants))
    };
    text.lines().filter_map(row).collect()
}

fn write(noticed: &Noticed) {
    let mut text = String::new();
    for (case, mutants) in noticed {
        let mutants: Vec<&str> = mutants.iter().map(String::as_str).collect();
        text.push_str(&format!("{case}: {}\n", mutants.join(" ")));
    }
    std::fs::write(file(), text).expect("the folder of the tests can be written");
}

fn engine_cases() -> Vec<Case> {
    let on_engine = |case: &Case| case.module == "race_replay";
    cases().into_iter().filter(on_engine).collect()
}

/// Which of these pairs are noticed.
async fn meet(pairs: Vec<(Case, Flaw)>) -> Vec<(Case, Flaw)> {
    let meetings = pairs.into_iter().map(|(case, flaw)| async move {
        let outcome = run_case(case, Arc::new(Flawed::with(flaw))).await;
        matches!(outcome.verdict, Verdict::Failed(_)).then_some((case, flaw))
    });
    let meetings = futures::stream::iter(meetings).buffer_unordered(AT_ONCE);
    meetings.filter_map(std::future::ready).collect().await
}

fn flaws_of(names: &str) -> Vec<Flaw> {
    let wanted = |flaw: &&Flaw| {
        let name = format!("{flaw:?}");
        names == "all" || names.split(',').any(|wish| wish == name)
    };
    Flaw::ALL.iter().filter(wanted).copied().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_with_an_engine_notices_the_mutants_named_for_it() {
    std::panic::set_hook(Box::new(|_| {}));
    if let Ok(wish) = std::env::var("MUTANT_ENGINE") {
        let pairs = flaws_of(&wish).into_iter();
        let pairs = pairs.flat_map(|flaw| engine_cases().into_iter().map(move |case| (case, flaw)));
        // What notices a mutant only by chance is not named.
        let twice = meet(meet(pairs.collect()).await).await;
        let mut noticed = read();
        for (case, flaw) in twice {
            let mutants = noticed.entry(case.name.to_owned()).or_default();
            mutants.insert(format!("{flaw:?}"));
        }
        write(&noticed);
    }
    let noticed = read();
    let mut pairs = Vec::new();
    for case in engine_cases() {
        let named = noticed.get(case.name).cloned().unwrap_or_default();
        let named: Vec<String> = named.into_iter().collect();
        let flaws = flaws_of(&named.join(","));
        assert!(!flaws.is_empty(), "{} notices no mutant", case.name);
        assert_eq!(flaws.len(), named.len(), "{named:?} are mutants");
        pairs.extend(flaws.into_iter().map(|flaw| (case, flaw)));
    }
    let name = |(case, flaw): &(Case, Flaw)| format!("{} and {flaw:?}", case.name);
    let named: BTreeSet<String> = pairs.iter().map(name).collect();
    let seen: BTreeSet<String> = meet(pairs).await.iter().map(name).collect();
    let _ = std::panic::take_hook();
    let missed: Vec<_> = named.difference(&seen).collect();
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}
