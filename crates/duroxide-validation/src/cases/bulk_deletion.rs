//! Cleaning up many finished instances at once.

use std::time::Duration;

use duroxide_core::provider::InstanceFilter;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit};

fn only(names: &[&str]) -> InstanceFilter {
    InstanceFilter {
        instance_ids: Some(names.iter().map(|n| (*n).to_owned()).collect()),
        ..InstanceFilter::default()
    }
}

async fn delete<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, filter: InstanceFilter) -> u64 {
    let deleted = bench.admin().delete_instance_bulk(filter).await;
    deleted.expect("a result").instances_deleted
}

async fn left<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Vec<String> {
    let mut listed = bench.admin().list_instances().await.expect("a listing");
    listed.sort();
    listed
}

/// By ids, by unknown ids, by an empty list, and without a filter.
pub async fn test_delete_instance_bulk_filter_combinations<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for instance in ["a", "b", "c", "d"] {
        bench
            .create_with(instance, Commit::first().completed("ok"))
            .await;
    }
    assert_eq!(delete(&bench, only(&["a", "b"])).await, 2);
    assert_eq!(delete(&bench, only(&["nobody"])).await, 0);
    assert_eq!(
        delete(&bench, only(&[])).await,
        0,
        "an empty list selects nothing"
    );
    assert_eq!(left(&bench).await, ["c", "d"]);
    assert_eq!(delete(&bench, InstanceFilter::default()).await, 2);
    assert!(left(&bench).await.is_empty());
}

/// A limit leaves the newest, so that a cleanup in steps comes to an end.
pub async fn bulk_deletion_takes_the_oldest_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["b-first", "c-second", "a-third"] {
        bench
            .create_with(instance, Commit::first().completed("ok"))
            .await;
        bench.pass(Duration::from_millis(5)).await;
    }
    let one = || InstanceFilter {
        limit: Some(1),
        ..InstanceFilter::default()
    };
    assert_eq!(delete(&bench, one()).await, 1);
    assert_eq!(left(&bench).await, ["a-third", "c-second"]);
    assert_eq!(delete(&bench, one()).await, 1);
    assert_eq!(left(&bench).await, ["a-third"]);
}

/// The limit counts roots: a tree goes as a whole, however many it has.
pub async fn a_limit_counts_roots<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for root in ["first", "second"] {
        bench
            .create_with(root, Commit::first().completed("ok"))
            .await;
        for n in 0..2 {
            let child = Commit::first().completed("ok");
            bench
                .create_child(&format!("{root}-{n}"), root, child)
                .await;
        }
        bench.pass(Duration::from_millis(5)).await;
    }
    let one = InstanceFilter {
        limit: Some(1),
        ..InstanceFilter::default()
    };
    assert_eq!(delete(&bench, one).await, 3, "a root and its children");
    assert_eq!(left(&bench).await, ["second", "second-0", "second-1"]);
}

/// What runs is skipped, and the limit holds.
pub async fn test_delete_instance_bulk_safety_and_limits<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    for n in 0..4 {
        let instance = format!("done-{n}");
        bench
            .create_with(&instance, Commit::first().completed("ok"))
            .await;
    }
    let two = InstanceFilter {
        limit: Some(2),
        ..InstanceFilter::default()
    };
    for expected in [2, 2, 0] {
        assert_eq!(delete(&bench, two.clone()).await, expected);
    }
    assert_eq!(left(&bench).await, ["busy"]);
    assert_eq!(delete(&bench, only(&["busy"])).await, 0);
}

/// Only what ended before the given time is deleted.
pub async fn test_delete_instance_bulk_completed_before_filter<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let before = bench.now_ms();
    bench.pass(Duration::from_millis(10)).await;
    for instance in ["a", "b"] {
        bench
            .create_with(instance, Commit::first().completed("ok"))
            .await;
    }
    bench.pass(Duration::from_millis(10)).await;
    let after = bench.now_ms();
    let ended_before = |time| InstanceFilter {
        completed_before: Some(time),
        ..InstanceFilter::default()
    };
    assert_eq!(delete(&bench, ended_before(before)).await, 0);
    assert_eq!(left(&bench).await, ["a", "b"]);
    assert_eq!(delete(&bench, ended_before(after)).await, 2);
}

/// Children go with their roots and are counted.
pub async fn test_delete_instance_bulk_cascades_to_children<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for root in ["a", "b", "c"] {
        bench
            .create_with(root, Commit::first().completed("ok"))
            .await;
    }
    for (child, parent) in [("a1", "a"), ("a2", "a"), ("a11", "a1"), ("b1", "b")] {
        bench
            .create_child(child, parent, Commit::first().completed("ok"))
            .await;
    }
    assert_eq!(delete(&bench, only(&["a1"])).await, 0, "a child is no root");
    assert_eq!(delete(&bench, only(&["a", "b", "c"])).await, 7);
    assert!(left(&bench).await.is_empty());
}
