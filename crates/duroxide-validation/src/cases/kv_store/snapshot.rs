//! What a turn is given: the key-values as the previous executions left them.

use super::{pairs, snapshot};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// A new instance has an empty snapshot.
pub async fn test_kv_snapshot_empty<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("kv").await;
    let turn = bench.turn_of("kv").await;
    assert!(turn.item.kv_snapshot.is_empty());
}

/// Values of an execution that ended are in the snapshot, with the time they were set.
pub async fn test_kv_snapshot_in_fetch<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("a", "1"))
        .and(kinds::kv_set("b", "2"))
        .completed("ok");
    bench.create_with("kv", first).await;
    bench.send(items::signal("kv", "look")).await;
    let turn = bench.turn_of("kv").await;
    assert_eq!(turn.item.kv_snapshot.len(), 2);
    let a = &turn.item.kv_snapshot["a"];
    assert_eq!(
        (a.value.as_str(), a.last_updated_at_ms),
        ("1", kinds::KV_STAMP_MS)
    );
}

/// A cleared key is not in the snapshot.
pub async fn test_kv_snapshot_after_clear_single<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("a", "1"))
        .and(kinds::kv_set("b", "2"))
        .and(kinds::kv_clear("a"))
        .completed("ok");
    bench.create_with("kv", first).await;
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("b", "2")]));
}

/// After clearing everything the snapshot is empty.
pub async fn test_kv_snapshot_after_clear_all<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("a", "1"))
        .continued("next");
    bench.create_with("kv", first).await;
    let second = Commit::first_of(2)
        .and(kinds::kv_clear_all())
        .completed("ok");
    bench.next_execution("kv", second).await;
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[]));
}

/// The snapshot has the first execution's key and not the running second's.
pub async fn test_kv_snapshot_cross_execution<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("one", "1"))
        .continued("next");
    bench.create_with("kv", first).await;
    let second = Commit::first_of(2).and(kinds::kv_set("two", "2"));
    bench.next_execution("kv", second).await;
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("one", "1")]));
}
