//! Deletion and pruning, at their edges.

use std::time::Duration;

use duroxide_core::provider::{InstanceFilter, PruneOptions};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

async fn bulk_delete<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> u64 {
    let all = InstanceFilter::default();
    let deleted = bench.admin().delete_instance_bulk(all).await;
    deleted.expect("a result").instances_deleted
}

/// Ids that do not exist are not counted.
pub async fn deleting_a_stranger_counts_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("known", Commit::first().completed("ok"))
        .await;
    let ids = ["nobody".to_owned(), "known".to_owned()];
    let deleted = bench.admin().delete_instances_atomic(&ids, false).await;
    assert_eq!(deleted.expect("a result").instances_deleted, 1);
    let nothing = bench.admin().delete_instances_atomic(&[], false).await;
    assert_eq!(nothing.expect("a result").instances_deleted, 0);
}

/// A finished root whose child still runs is spared.
pub async fn bulk_delete_spares_a_tree_in_which_a_child_runs<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("root", Commit::first().completed("ok"))
        .await;
    bench
        .create_child("child", "root", Commit::first().completed("ok"))
        .await;
    bench
        .create_child("grandchild", "child", Commit::first())
        .await;
    assert_eq!(bulk_delete(&bench).await, 0);
    bench
        .nudge(
            "grandchild",
            Commit::to(1)
                .event(2, kinds::completed("ok"))
                .status("Completed", Some("ok")),
        )
        .await;
    assert_eq!(bulk_delete(&bench).await, 3);
}

/// An instance between two executions is alive.
pub async fn bulk_delete_spares_an_instance_between_two_executions<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .continued("next")
        .message(items::next_execution("moving"));
    bench.create_with("moving", first).await;
    assert_eq!(bulk_delete(&bench).await, 0);
    bench
        .advance("moving", Commit::first_of(2).completed("ok"))
        .await;
    assert_eq!(bulk_delete(&bench).await, 1);
}

/// A root that waits for its start to be claimed is not there yet, and nothing of it is deleted.
pub async fn bulk_delete_spares_queued_starts<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("queued").await;
    assert_eq!(bulk_delete(&bench).await, 0);
    bench.turn_of("queued").await;
}

/// A child that appeared after the tree was read is not orphaned.
pub async fn a_late_child_stops_the_deletion<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("root", Commit::first().completed("ok"))
        .await;
    let tree = bench
        .admin()
        .get_instance_tree("root")
        .await
        .expect("a tree");
    bench.create_child("late", "root", Commit::first()).await;
    let deleted = bench
        .admin()
        .delete_instances_atomic(&tree.all_ids, true)
        .await;
    assert!(deleted.is_err(), "the child would be left behind");
    assert!(bench.admin().get_instance_info("root").await.is_ok());
}

/// Executions that continued as new ended too, and are pruned by their time.
pub async fn pruning_by_time_takes_continued_executions<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("old", Commit::first().continued("2"))
        .await;
    bench.pass(Duration::from_millis(20)).await;
    let cutoff = bench.now_ms();
    bench.pass(Duration::from_millis(20)).await;
    bench
        .next_execution("old", Commit::first_of(2).continued("3"))
        .await;
    bench.next_execution("old", Commit::first_of(3)).await;

    let options = PruneOptions {
        keep_last: None,
        completed_before: Some(cutoff),
    };
    let pruned = bench.admin().prune_executions("old", options).await;
    assert_eq!(pruned.expect("known").executions_deleted, 1);
    let left = bench
        .admin()
        .list_executions("old")
        .await
        .expect("a listing");
    assert_eq!(left, [2, 3]);
}

/// Both criteria of pruning must hold.
pub async fn pruning_combines_its_criteria<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("old", Commit::first().continued("2"))
        .await;
    bench
        .next_execution("old", Commit::first_of(2).continued("3"))
        .await;
    bench
        .next_execution("old", Commit::first_of(3).completed("ok"))
        .await;
    bench.pass(Duration::from_millis(20)).await;
    let options = PruneOptions {
        keep_last: Some(2),
        completed_before: Some(bench.now_ms()),
    };
    let pruned = bench.admin().prune_executions("old", options).await;
    assert_eq!(pruned.expect("known").executions_deleted, 1);
    let left = bench
        .admin()
        .list_executions("old")
        .await
        .expect("a listing");
    assert_eq!(left, [2, 3]);
}

/// A deleted id begins again without status, keys, history or messages.
pub async fn a_deleted_id_begins_from_scratch<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "v"))
        .and(kinds::custom_status(Some("busy")))
        .pinned("9.0.0")
        .continued("next")
        .message(items::next_execution("again"));
    bench.create_with("again", first).await;
    bench
        .admin()
        .delete_instance("again", true)
        .await
        .expect("forced");
    assert_eq!(bench.store.get_custom_status("again", 0).await, Ok(None));
    assert_eq!(bench.store.get_instance_stats("again").await, Ok(None));

    bench.start("again").await;
    let turn = bench.turn_of("again").await;
    assert_eq!(turn.item.messages, [items::start("again")]);
    assert_eq!((turn.item.execution_id, turn.item.history.len()), (1, 0));
    assert!(turn.item.kv_snapshot.is_empty());
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(bench.store.get_kv_value("again", "k").await, Ok(None));
    assert_eq!(bench.store.get_custom_status("again", 0).await, Ok(None));
    assert_eq!(
        bench
            .admin()
            .list_executions("again")
            .await
            .expect("a listing"),
        [1]
    );
}
