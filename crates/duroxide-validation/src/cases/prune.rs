//! Old executions go, the current one stays.

use duroxide_core::provider::{InstanceFilter, PruneOptions};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit};

/// An instance whose last of `executions` executions is committed by `last`.
async fn grow<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    instance: &str,
    executions: u64,
    last: impl Fn(Commit) -> Commit,
) {
    let commit = |n: u64| {
        let first = Commit::first_of(n);
        if n == executions {
            last(first)
        } else {
            first.continued("next")
        }
    };
    bench.create_with(instance, commit(1)).await;
    for n in 2..=executions {
        bench.next_execution(instance, commit(n)).await;
    }
}

async fn executions<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) -> Vec<u64> {
    let listed = bench.admin().list_executions(instance).await;
    listed.expect("a listing")
}

fn keep(count: Option<u32>) -> PruneOptions {
    PruneOptions {
        keep_last: count,
        completed_before: None,
    }
}

/// The newest so many stay; without a number only the current one does.
pub async fn test_prune_options_combinations<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    grow(&bench, "old", 4, |c| c.completed("ok")).await;

    let pruned = bench.admin().prune_executions("old", keep(Some(2))).await;
    let pruned = pruned.expect("known");
    assert_eq!(pruned.instances_processed, 1);
    assert_eq!(pruned.executions_deleted, 2);
    assert_eq!(pruned.events_deleted, 4);
    assert_eq!(executions(&bench, "old").await, [3, 4]);
    assert_eq!(bench.read_execution("old", 1).await, Vec::new());

    let pruned = bench
        .admin()
        .prune_executions("old", PruneOptions::default())
        .await;
    assert_eq!(pruned.expect("known").executions_deleted, 1);
    assert_eq!(executions(&bench, "old").await, [4]);
    assert_eq!(bench.read("old").await.len(), 2);
}

/// The current execution survives every option; a stranger is an error.
pub async fn test_prune_safety<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (n, count) in [None, Some(0), Some(1)].into_iter().enumerate() {
        let instance = format!("safe-{n}");
        grow(&bench, &instance, 2, |c| c.completed("ok")).await;
        let pruned = bench.admin().prune_executions(&instance, keep(count)).await;
        assert_eq!(pruned.expect("known").executions_deleted, 1, "{count:?}");
        assert_eq!(executions(&bench, &instance).await, [2], "{count:?}");
    }
    let error = bench.admin().prune_executions("nobody", keep(None)).await;
    let error = error.expect_err("there is no such instance");
    assert!(error.message.contains("not found"), "{error}");
}

/// Only the listed instances are pruned.
pub async fn test_prune_bulk<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["a", "b", "c"] {
        grow(&bench, instance, 3, |c| c.completed("ok")).await;
    }
    let listed = InstanceFilter {
        instance_ids: Some(vec!["a".into(), "b".into()]),
        ..InstanceFilter::default()
    };
    let pruned = bench
        .admin()
        .prune_executions_bulk(listed, keep(Some(1)))
        .await;
    let pruned = pruned.expect("a result");
    assert_eq!(pruned.instances_processed, 2);
    assert_eq!(pruned.executions_deleted, 4);
    assert_eq!(executions(&bench, "a").await, [3]);
    assert_eq!(executions(&bench, "b").await, [3]);
    assert_eq!(executions(&bench, "c").await, [1, 2, 3]);
}

/// A limit takes the oldest instances first.
pub async fn bulk_pruning_takes_the_oldest_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["b-first", "c-second", "a-third"] {
        grow(&bench, instance, 2, |c| c.completed("ok")).await;
        bench.pass(std::time::Duration::from_millis(5)).await;
    }
    let one = InstanceFilter {
        limit: Some(1),
        ..InstanceFilter::default()
    };
    let pruned = bench.admin().prune_executions_bulk(one, keep(Some(1)));
    assert_eq!(pruned.await.expect("a result").executions_deleted, 1);
    assert_eq!(executions(&bench, "b-first").await, [2]);
    assert_eq!(executions(&bench, "c-second").await, [1, 2]);
    assert_eq!(executions(&bench, "a-third").await, [1, 2]);
}

/// A running instance loses its old executions too, and runs on.
pub async fn test_prune_bulk_includes_running_instances<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    grow(&bench, "busy", 3, |c| c).await;
    let all = InstanceFilter::default();
    let pruned = bench
        .admin()
        .prune_executions_bulk(all, keep(Some(1)))
        .await;
    assert_eq!(pruned.expect("a result").executions_deleted, 2);
    assert_eq!(executions(&bench, "busy").await, [3]);
    let info = bench
        .admin()
        .get_instance_info("busy")
        .await
        .expect("details");
    assert_eq!(info.status, "Running");
    assert_eq!(bench.read("busy").await.len(), 1);
}
