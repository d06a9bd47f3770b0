//! The running execution's changes: seen by clients at once, by turns only after it ended.

use super::{get, pairs, snapshot};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, kinds};

/// `kv` with keys `a` = 1 and `b` = 2 from execution 1, and these events in running execution 2.
async fn on_top<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    changes: Vec<duroxide_core::EventKind>,
) {
    let first = Commit::first()
        .and(kinds::kv_set("a", "1"))
        .and(kinds::kv_set("b", "2"))
        .continued("next");
    bench.create_with("kv", first).await;
    let second = changes.into_iter().fold(Commit::first_of(2), Commit::and);
    bench.next_execution("kv", second).await;
}

/// A value of the running execution is read by clients and not in the snapshot.
pub async fn test_kv_delta_snapshot_excludes_current_execution<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", "v")))
        .await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("v"));
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[]));
}

/// After continue-as-new it is in the snapshot.
pub async fn test_kv_delta_snapshot_includes_completed_execution<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "v"))
        .continued("next");
    bench.create_with("kv", first).await;
    bench.next_execution("kv", Commit::first_of(2)).await;
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("k", "v")]));
}

/// Clients see both, the running execution's changes first.
pub async fn test_kv_delta_client_reads_merged<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    on_top(
        &bench,
        vec![kinds::kv_set("a", "new"), kinds::kv_set("c", "3")],
    )
    .await;
    assert_eq!(get(&bench, "kv", "a").await.as_deref(), Some("new"));
    assert_eq!(get(&bench, "kv", "b").await.as_deref(), Some("2"));
    assert_eq!(get(&bench, "kv", "c").await.as_deref(), Some("3"));
    assert_eq!(
        snapshot(&bench, "kv").await,
        pairs(&[("a", "1"), ("b", "2")])
    );
}

/// A key cleared by the running execution is hidden from clients.
pub async fn test_kv_delta_tombstone_overrides_store<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    on_top(&bench, vec![kinds::kv_clear("a")]).await;
    assert_eq!(get(&bench, "kv", "a").await, None);
    assert_eq!(get(&bench, "kv", "b").await.as_deref(), Some("2"));
}

/// Clearing everything hides all earlier keys; a later set is seen.
pub async fn test_kv_delta_clear_all_tombstones_store<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    on_top(&bench, vec![kinds::kv_clear_all(), kinds::kv_set("c", "3")]).await;
    assert_eq!(get(&bench, "kv", "a").await, None);
    assert_eq!(get(&bench, "kv", "b").await, None);
    assert_eq!(get(&bench, "kv", "c").await.as_deref(), Some("3"));
    let end = Commit::to(2).event(4, kinds::completed("ok"));
    bench.nudge("kv", end.status("Completed", Some("ok"))).await;
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("c", "3")]));
}

/// A value survives the completion of its execution.
pub async fn test_kv_delta_merged_on_completion<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", "v")))
        .await;
    let end = Commit::to(1).event(3, kinds::completed("ok"));
    bench.nudge("kv", end.status("Completed", Some("ok"))).await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("v"));
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("k", "v")]));
}

/// The second execution's snapshot has the first one's last values.
pub async fn test_kv_delta_merged_on_can<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", "early")))
        .await;
    let end = Commit::to(1)
        .event(3, kinds::kv_set("k", "late"))
        .and(kinds::kv_set("gone", "x"))
        .and(kinds::kv_clear("gone"))
        .continued("next");
    bench.nudge("kv", end).await;
    bench.next_execution("kv", Commit::first_of(2)).await;
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("k", "late")]));
}
