//! Key-values across executions.

use super::get;
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// The second execution's value wins.
pub async fn test_kv_cross_execution_overwrite<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "1"))
        .continued("next");
    bench.create_with("kv", first).await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("1"));
    let second = Commit::first_of(2)
        .and(kinds::kv_set("k", "2"))
        .completed("ok");
    bench.next_execution("kv", second).await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("2"));
}

/// Set, cleared and set again by three executions.
pub async fn test_kv_cross_execution_remove_readd<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().and(kinds::kv_set("k", "1")).continued("2");
    bench.create_with("kv", first).await;
    let second = Commit::first_of(2).and(kinds::kv_clear("k")).continued("3");
    bench.next_execution("kv", second).await;
    assert_eq!(get(&bench, "kv", "k").await, None);
    bench.send(items::next_execution("kv")).await;
    let turn = bench.turn_of("kv").await;
    assert!(!turn.item.kv_snapshot.contains_key("k"), "it was cleared");
    let third = Commit::first_of(3).and(kinds::kv_set("k", "3"));
    bench.commit(&turn, third).await;
    bench.send(items::signal("kv", "look")).await;
    let turn = bench.turn_of("kv").await;
    assert!(!turn.item.kv_snapshot.contains_key("k"), "it began without");
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("3"));
}
