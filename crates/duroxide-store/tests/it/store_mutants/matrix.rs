//! Every case against every mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use duroxide_store::conformance as cases;

use super::Bench;
use super::flaws::Flaw;

type Run = fn(Bench) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! all_cases {
    (: $($case:ident,)*) => {
        /// Every case by its name.
        const CASES: &[(&str, Run)] = &[$((
            stringify!($case),
            |bench| Box::pin(async move { cases::$case(&bench).await }),
        ),)*];
    };
}
duroxide_store::for_each_store_case!(all_cases,);

/// More than any case needs; the time is virtual.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Whether a case passes on a mutant.
async fn passes(flaw: Flaw, run: Run) -> bool {
    // A task of its own, so that a panic is a result.
    let case = tokio::spawn(run(Bench::of(flaw)));
    let ended = tokio::time::timeout(LIMIT, case).await;
    matches!(ended, Ok(Ok(())))
}

async fn caught_by(flaw: Flaw) -> BTreeSet<&'static str> {
    let mut caught = BTreeSet::new();
    for (case, run) in CASES {
        if !passes(flaw, *run).await {
            caught.insert(*case);
        }
    }
    caught
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_flaw_passes_every_case() {
    assert_eq!(caught_by(Flaw::None).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn every_mutant_fails_a_case_and_every_case_catches_a_mutant() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut matrix = BTreeMap::new();
    for flaw in Flaw::ALL {
        matrix.insert(*flaw, caught_by(*flaw).await);
    }
    let _ = std::panic::take_hook();
    let missed: Vec<_> = matrix.iter().filter(|(_, by)| by.is_empty()).collect();
    assert!(missed.is_empty(), "no case notices: {missed:?}");
    let caught: BTreeSet<_> = matrix.into_values().flatten().collect();
    let idle: Vec<_> = CASES
        .iter()
        .map(|(case, _)| case)
        .filter(|case| !caught.contains(*case))
        .collect();
    assert!(idle.is_empty(), "cases that catch nothing: {idle:#?}");
}
