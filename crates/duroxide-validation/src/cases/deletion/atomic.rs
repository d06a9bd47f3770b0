//! Several instances together or not at all.

use super::{gone, grow_tree, present};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit};

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

/// Three instances go in one step.
pub async fn test_delete_instances_atomic<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["a", "b", "c"] {
        bench
            .create_with(instance, Commit::first().completed("ok"))
            .await;
    }
    let admin = bench.admin();
    let deleted = admin
        .delete_instances_atomic(&ids(&["a", "b", "c"]), false)
        .await;
    let deleted = deleted.expect("all completed");
    assert_eq!(deleted.instances_deleted, 3);
    assert_eq!(deleted.executions_deleted, 3);
    for instance in ["a", "b", "c"] {
        gone(&bench, instance).await;
    }
}

/// One running member keeps all of them, unless forced.
pub async fn test_delete_instances_atomic_force<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("done", Commit::first().completed("ok"))
        .await;
    bench.create("busy").await;
    let both = ids(&["done", "busy"]);
    let error = bench.admin().delete_instances_atomic(&both, false).await;
    let error = error.expect_err("one runs");
    assert!(error.message.to_lowercase().contains("running"), "{error}");
    present(&bench, "done").await;
    present(&bench, "busy").await;

    let deleted = bench.admin().delete_instances_atomic(&both, true).await;
    assert_eq!(deleted.expect("forced").instances_deleted, 2);
    gone(&bench, "done").await;
    gone(&bench, "busy").await;
}

/// A parent is not deleted without its children.
pub async fn test_delete_instances_atomic_orphan_detection<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    grow_tree(&bench).await;
    let error = bench
        .admin()
        .delete_instances_atomic(&ids(&["root", "left", "right"]), true)
        .await;
    let text = error
        .expect_err("leaf would be left behind")
        .message
        .to_lowercase();
    assert!(
        ["child", "orphan", "tree"].iter().any(|w| text.contains(w)),
        "the message names the cause: {text}"
    );
    for instance in ["root", "left", "right", "leaf"] {
        present(&bench, instance).await;
    }
    let whole = ids(&["root", "left", "right", "leaf"]);
    let deleted = bench.admin().delete_instances_atomic(&whole, false).await;
    assert_eq!(deleted.expect("all completed").instances_deleted, 4);
}
