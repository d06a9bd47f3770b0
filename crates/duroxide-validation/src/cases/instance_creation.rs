//! When an instance comes into being: by its first commit, never by a message.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, items, kinds};

/// A start can be fetched before it is committed; afterwards the committed version counts, not the message's.
pub async fn test_instance_creation_via_metadata<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("created").await;

    let turn = bench.turn_of("created").await;
    assert_eq!(turn.item.orchestration_name, NAME);
    assert_eq!(turn.item.execution_id, 1);
    assert!(turn.item.history.is_empty(), "nothing was committed yet");
    let first = Commit::to(1).event(1, kinds::started_as(NAME, "1.0.0"));
    bench.commit(&turn, first.named(NAME, "2.0.0")).await;

    bench.send(items::signal("created", "go")).await;
    let turn = bench.turn_of("created").await;
    assert_eq!(turn.item.version, "2.0.0");
    assert_eq!(turn.item.history.len(), 1);
}

/// A queued start makes no instance, and can be committed all the same.
pub async fn test_no_instance_creation_on_enqueue<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("queued").await;
    if let Some(admin) = bench.store.as_management_capability() {
        let listed = admin.list_instances().await.expect("a listing");
        assert!(listed.is_empty(), "a queued start is not an instance");
        assert!(admin.get_instance_info("queued").await.is_err());
    }
    assert_eq!(bench.read("queued").await, Vec::new());

    let turn = bench.turn_of("queued").await;
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(bench.read("queued").await.len(), 1);
}

/// A start without a version is fetched as `unknown`; the commit decides the version.
pub async fn test_null_version_handling<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.send(items::start_of("open", NAME, None)).await;

    let turn = bench.turn_of("open").await;
    assert_eq!(turn.item.version, "unknown");
    let first = Commit::to(1).event(1, kinds::started_as(NAME, "3.1.0"));
    bench.commit(&turn, first.named(NAME, "3.1.0")).await;

    bench.send(items::signal("open", "go")).await;
    assert_eq!(bench.turn_of("open").await.item.version, "3.1.0");
}

/// A child's start is fetched under its own name; its version is its own and a later start does not reset it.
pub async fn test_sub_orchestration_instance_creation<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let schedule = items::child_start("parent::sub::2", "ChildOrch", "parent");
    bench
        .create_with("parent", Commit::first().message(schedule.clone()))
        .await;

    let turn = bench.turn_of("parent::sub::2").await;
    assert_eq!(turn.item.orchestration_name, "ChildOrch");
    let first = Commit::to(1).event(1, kinds::started_as("ChildOrch", "4.0.0"));
    bench
        .commit(&turn, first.named("ChildOrch", "4.0.0").child_of("parent"))
        .await;

    bench.send(schedule).await;
    let again = bench.turn_of("parent::sub::2").await;
    assert_eq!(again.item.orchestration_name, "ChildOrch");
    assert_eq!(
        again.item.version, "4.0.0",
        "a start does not change what was committed"
    );
}
