//! Where the pinned version comes from.

use super::{ready, versions};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// Whether the waiting instance is offered to a dispatcher of this major version; gives it back if so.
async fn offered<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, major: u64) -> bool {
    let filter = versions(&format!("{major}.0.0"), &format!("{major}.9.9"));
    match bench.claim_matching(&filter).await {
        Some(turn) => {
            bench.abandon_uncounted(&turn).await;
            true
        }
        None => false,
    }
}

/// The version that a commit names decides.
pub async fn test_pinned_version_stored_via_ack_metadata<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    ready(&bench, "pinned", "3.1.4").await;
    assert!(offered(&bench, 3).await);
    assert!(!offered(&bench, 2).await);
}

/// A later commit without a version leaves it.
pub async fn test_pinned_version_immutable_across_ack_cycles<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    ready(&bench, "pinned", "1.0.0").await;
    bench.advance("pinned", Commit::to(1)).await;
    bench.send(items::signal("pinned", "again")).await;
    assert!(offered(&bench, 1).await);
    assert!(!offered(&bench, 2).await);
}

/// A new execution has a version of its own.
pub async fn test_continue_as_new_execution_gets_own_pinned_version<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().pinned("1.0.0").continued("next");
    bench.create_with("moved", first).await;
    bench
        .next_execution("moved", Commit::first_of(2).pinned("2.0.0"))
        .await;
    bench.send(items::signal("moved", "go")).await;
    assert!(offered(&bench, 2).await);
    assert!(!offered(&bench, 1).await);
}

/// A version can be added by a later commit.
pub async fn test_ack_stores_pinned_version_via_metadata_update<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("open").await;
    bench.nudge("open", Commit::to(1).pinned("2.0.0")).await;
    bench.send(items::signal("open", "go")).await;
    assert!(offered(&bench, 2).await);
    assert!(!offered(&bench, 1).await);
}

/// A later commit that names another version overwrites it.
pub async fn test_provider_updates_pinned_version_when_told<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moved", Commit::first().pinned("1.0.0"))
        .await;
    bench.nudge("moved", Commit::to(1).pinned("2.0.0")).await;
    bench.send(items::signal("moved", "go")).await;
    assert!(offered(&bench, 2).await);
    assert!(!offered(&bench, 1).await);
}
