//! Deleting instances: whole trees, nothing that runs unless forced, and for good.

mod atomic;
mod single;
mod tree;

pub use atomic::*;
pub use single::*;
pub use tree::*;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, kinds};

/// `root` with children `left` and `right`, and `leaf` below `left`; all completed.
async fn grow_tree<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) {
    bench
        .create_with("root", Commit::first().completed("ok"))
        .await;
    for (child, parent) in [("left", "root"), ("right", "root"), ("leaf", "left")] {
        let first = Commit::to(1)
            .event(1, kinds::started_as("ChildOrch", "1.0.0"))
            .named("ChildOrch", "1.0.0")
            .completed("ok");
        bench.create_child(child, parent, first).await;
    }
}

async fn gone<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) {
    let info = bench.admin().get_instance_info(instance).await;
    assert!(info.is_err(), "`{instance}` is gone");
    assert_eq!(
        bench.read(instance).await,
        Vec::new(),
        "history of `{instance}`"
    );
    let values = bench.store.get_kv_all_values(instance).await;
    assert!(
        values.expect("readable").is_empty(),
        "values of `{instance}`"
    );
    let status = bench.store.get_custom_status(instance, 0).await;
    assert_eq!(status, Ok(None), "status of `{instance}`");
    let outcome = bench.store.read_outcome(instance).await;
    assert_eq!(outcome, Ok(None), "outcome of `{instance}`");
    let listed = bench.admin().list_instances().await.expect("a listing");
    assert!(
        !listed.iter().any(|id| id == instance),
        "`{instance}` is listed"
    );
    let children = bench.admin().list_children(instance).await;
    assert_eq!(children, Ok(Vec::new()), "children of `{instance}`");
    let pending = bench.admin().pending_work(instance).await;
    if let Some(pending) = pending.expect("readable") {
        assert_eq!(pending.turn_leased_until_ms, None, "lease of `{instance}`");
        assert_eq!(pending.messages, [], "messages of `{instance}`");
        assert_eq!(pending.activities, [], "activities of `{instance}`");
    }
}

async fn present<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) {
    let info = bench.admin().get_instance_info(instance).await;
    assert!(info.is_ok(), "`{instance}` is still there");
    assert!(!bench.read(instance).await.is_empty(), "with its history");
}
