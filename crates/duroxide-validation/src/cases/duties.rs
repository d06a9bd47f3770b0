//! Duties: what one node at a time does.

use std::time::Duration;

use crate::ProviderFactory;
use crate::fixture::Bench;

const HOUR: Duration = Duration::from_secs(3_600);

async fn hold<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    duty: &str,
    holder: &str,
    time: Duration,
) -> bool {
    let held = bench.admin().hold_duty(duty, holder, time).await;
    held.expect("an answer").expect("the store knows duties")
}

/// The first to ask has it and keeps it; another duty is free.
pub async fn one_node_holds_a_duty<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert!(hold(&bench, "sweep", "a", HOUR).await);
    assert!(!hold(&bench, "sweep", "b", HOUR).await);
    assert!(hold(&bench, "sweep", "a", HOUR).await, "it keeps it");
    assert!(hold(&bench, "other", "b", HOUR).await);
}

/// A holder that is silent for longer than it said loses it to the next that asks.
pub async fn a_duty_passes_on_when_its_holder_is_silent<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert!(hold(&bench, "sweep", "a", bench.lock).await);
    assert!(!hold(&bench, "sweep", "b", HOUR).await);
    bench.outlive(bench.lock).await;
    assert!(hold(&bench, "sweep", "b", HOUR).await);
    assert!(!hold(&bench, "sweep", "a", HOUR).await);
}

/// Who gives it back has it no more, and who does not have it gives nothing back.
pub async fn a_duty_that_is_given_back_is_free<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert!(hold(&bench, "sweep", "a", HOUR).await);
    assert!(!hold(&bench, "sweep", "b", Duration::ZERO).await);
    assert!(!hold(&bench, "sweep", "b", HOUR).await, "a still has it");
    assert!(!hold(&bench, "sweep", "a", Duration::ZERO).await);
    assert!(hold(&bench, "sweep", "b", HOUR).await);
}
