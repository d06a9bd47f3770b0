//! Key-values live as long as their instance: pruning spares them, deletion takes them.

use duroxide_core::provider::PruneOptions;

use super::{get, pairs, snapshot};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// `kv` with one execution per value of key `k`; the last one completed.
async fn overwritten<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, values: &[&str]) {
    let last = values.len() as u64;
    for (n, value) in (1..).zip(values) {
        let commit = Commit::first_of(n).and(kinds::kv_set("k", value));
        let commit = if n == last {
            commit.completed("ok")
        } else {
            commit.continued("next")
        };
        match n {
            1 => bench.create_with("kv", commit).await,
            _ => bench.next_execution("kv", commit).await,
        }
    }
}

async fn prune<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) -> u64 {
    let pruned = bench
        .admin()
        .prune_executions(instance, PruneOptions::default())
        .await;
    pruned.expect("known").executions_deleted
}

async fn delete<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) {
    let deleted = bench.admin().delete_instance(instance, true).await;
    deleted.expect("forced");
}

/// A key overwritten by the second execution survives the pruning of the first.
pub async fn test_kv_execution_id_tracking<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    overwritten(&bench, &["1", "2"]).await;
    assert_eq!(prune(&bench, "kv").await, 1);
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("2"));
}

/// A key overwritten by each of three executions keeps its last value in client view and snapshot.
pub async fn test_kv_prune_preserves_overwritten<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    overwritten(&bench, &["1", "2", "3"]).await;
    assert_eq!(prune(&bench, "kv").await, 2);
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("3"));
    assert_eq!(snapshot(&bench, "kv").await, pairs(&[("k", "3")]));
}

/// A key that only a pruned execution wrote survives.
pub async fn test_kv_prune_preserves_all_keys<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("early", "1"))
        .continued("next");
    bench.create_with("kv", first).await;
    let second = Commit::first_of(2)
        .and(kinds::kv_set("late", "2"))
        .completed("ok");
    bench.next_execution("kv", second).await;
    assert_eq!(prune(&bench, "kv").await, 1);
    assert_eq!(get(&bench, "kv", "early").await.as_deref(), Some("1"));
    assert_eq!(get(&bench, "kv", "late").await.as_deref(), Some("2"));
}

/// Pruning an instance with one execution takes nothing.
pub async fn test_kv_prune_current_execution_protected<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    overwritten(&bench, &["1"]).await;
    assert_eq!(prune(&bench, "kv").await, 0);
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("1"));
}

/// Keys go with their instance.
pub async fn test_kv_delete_instance_cascades<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    overwritten(&bench, &["1"]).await;
    delete(&bench, "kv").await;
    assert_eq!(get(&bench, "kv", "k").await, None);
    bench.start("kv").await;
    let turn = bench.turn_of("kv").await;
    assert!(
        turn.item.kv_snapshot.is_empty(),
        "a new instance of that id starts empty"
    );
}

/// Keys of children go with the root.
pub async fn test_kv_delete_instance_with_children<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    overwritten(&bench, &["1"]).await;
    let child = Commit::first()
        .and(kinds::kv_set("k", "child"))
        .completed("ok");
    bench.create_child("kv-child", "kv", child).await;
    delete(&bench, "kv").await;
    assert_eq!(get(&bench, "kv", "k").await, None);
    assert_eq!(get(&bench, "kv-child", "k").await, None);
}

/// Keys of a running execution go with their instance.
pub async fn test_kv_delta_delete_instance_cascades<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", "v")))
        .await;
    delete(&bench, "kv").await;
    assert_eq!(get(&bench, "kv", "k").await, None);

    bench.create("kv").await;
    assert_eq!(
        get(&bench, "kv", "k").await,
        None,
        "a new instance of that id starts empty"
    );
    bench.send(items::signal("kv", "end")).await;
    bench
        .advance(
            "kv",
            Commit::to(1)
                .event(2, kinds::completed("ok"))
                .status("Completed", None),
        )
        .await;
    assert_eq!(get(&bench, "kv", "k").await, None);
}

/// Keys of two pruned executions remain in client view and snapshot.
pub async fn test_kv_delta_prune_untouched_key_survives<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("one", "1"))
        .continued("2");
    bench.create_with("kv", first).await;
    let second = Commit::first_of(2)
        .and(kinds::kv_set("two", "2"))
        .continued("3");
    bench.next_execution("kv", second).await;
    bench.next_execution("kv", Commit::first_of(3)).await;
    assert_eq!(prune(&bench, "kv").await, 2);
    assert_eq!(get(&bench, "kv", "one").await.as_deref(), Some("1"));
    assert_eq!(get(&bench, "kv", "two").await.as_deref(), Some("2"));
    assert_eq!(
        snapshot(&bench, "kv").await,
        pairs(&[("one", "1"), ("two", "2")])
    );
}
