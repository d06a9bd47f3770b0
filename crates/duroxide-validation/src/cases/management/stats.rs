//! Sizes of one instance.

use duroxide_core::SystemStats;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

async fn stats<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) -> SystemStats {
    let answer = bench.store.get_instance_stats(instance).await;
    answer.expect("sizes").expect("the instance exists")
}

/// An unknown instance has no sizes.
pub async fn test_get_instance_stats_nonexistent<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let answer = bench.store.get_instance_stats("nobody").await;
    assert_eq!(answer.expect("no error"), None);
}

/// Events are counted and measured.
pub async fn test_get_instance_stats_history<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("sized", Commit::first().and(kinds::activity_scheduled("A")))
        .await;
    let stats = stats(&bench, "sized").await;
    assert_eq!(stats.history_event_count, 2);
    assert!(stats.history_size_bytes > 0);
    assert_eq!(stats.queue_pending_count, 0);
    assert_eq!(stats.kv_user_key_count, 0);
    assert_eq!(stats.kv_total_value_bytes, 0);
}

/// Keys of a completed execution are counted.
pub async fn test_get_instance_stats_kv<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let commit = Commit::first()
        .and(kinds::kv_set("a", "1234"))
        .and(kinds::kv_set("b", "5678"))
        .completed("ok");
    bench.create_with("keyed", commit).await;
    let stats = stats(&bench, "keyed").await;
    assert_eq!(
        (stats.kv_user_key_count, stats.kv_total_value_bytes),
        (2, 8)
    );
}

/// Messages carried into the current execution are counted.
pub async fn test_get_instance_stats_carry_forward<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("carried", Commit::first().continued("next"))
        .await;
    let carried = [("q", "1"), ("q", "2"), ("r", "3")];
    let second = Commit::to(2).event(1, kinds::started_carrying(&carried));
    bench.next_execution("carried", second).await;
    assert_eq!(stats(&bench, "carried").await.queue_pending_count, 3);
}

/// Keys of the running execution are counted.
pub async fn test_get_instance_stats_kv_delta_only<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let commit = Commit::first()
        .and(kinds::kv_set("a", "1234"))
        .and(kinds::kv_set("b", "56789"));
    bench.create_with("running", commit).await;
    let stats = stats(&bench, "running").await;
    assert_eq!(
        (stats.kv_user_key_count, stats.kv_total_value_bytes),
        (2, 9)
    );
}

/// An overwritten key counts once, with its latest value.
pub async fn test_get_instance_stats_kv_merged<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let commit = Commit::first()
        .and(kinds::kv_set("a", "1234567890"))
        .and(kinds::kv_set("b", "1234"))
        .continued("next");
    bench.create_with("merged", commit).await;
    let second = Commit::first_of(2).and(kinds::kv_set("a", "ä3"));
    bench.next_execution("merged", second).await;
    bench.send(items::signal("merged", "end")).await;
    let end = Commit::to(2).event(3, kinds::completed("ok"));
    bench
        .advance("merged", end.status("Completed", Some("ok")))
        .await;
    let stats = stats(&bench, "merged").await;
    assert_eq!(
        (stats.kv_user_key_count, stats.kv_total_value_bytes),
        (2, 7)
    );
}
