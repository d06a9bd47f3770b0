//! One instance.

use super::{gone, present};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Completed, failed and cancelled instances can be deleted without force.
pub async fn test_delete_terminal_instances<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("completed", Commit::first().completed("ok"))
        .await;
    bench
        .create_with("failed", Commit::first().failed("no"))
        .await;
    bench
        .create_with("cancelled", Commit::first().failed("canceled: asked"))
        .await;
    for instance in ["completed", "failed", "cancelled"] {
        let deleted = bench.admin().delete_instance(instance, false).await;
        let deleted = deleted.expect("it does not run");
        assert_eq!(deleted.instances_deleted, 1);
        assert_eq!(deleted.executions_deleted, 1);
        assert_eq!(deleted.events_deleted, 2);
        gone(&bench, instance).await;
    }
}

/// A running instance is deleted only by force.
pub async fn test_delete_running_rejected_force_succeeds<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    let error = bench.admin().delete_instance("busy", false).await;
    let error = error.expect_err("it runs");
    assert!(error.message.to_lowercase().contains("running"), "{error}");
    assert!(!error.is_retryable(), "{error}");
    present(&bench, "busy").await;

    let deleted = bench.admin().delete_instance("busy", true).await;
    assert_eq!(deleted.expect("forced").instances_deleted, 1);
    gone(&bench, "busy").await;
}

/// A deletion that is refused takes nothing with it: the messages and activities of the instance are there.
pub async fn a_refused_deletion_takes_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::activity_scheduled("a"))
        .work(items::activity("busy", 2));
    bench.create_with("busy", first).await;
    bench.send(items::signal("busy", "go")).await;
    let refused = bench.admin().delete_instance("busy", false).await;
    refused.expect_err("it runs");
    present(&bench, "busy").await;
    let turn = bench.turn_of("busy").await;
    assert_eq!(turn.item.messages, [items::signal("busy", "go")]);
    assert_eq!(bench.work().await.id(), 2);
}

/// What does not exist cannot be deleted.
pub async fn test_delete_nonexistent_instance<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let error = bench.admin().delete_instance("nobody", false).await;
    let error = error.expect_err("there is no such instance");
    assert!(error.message.contains("not found"), "{error}");
    assert!(!error.is_retryable(), "{error}");
}

/// Queued messages and leases go with the instance, and its id can be used again.
pub async fn test_delete_cleans_queues_and_locks<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().work(items::activity("again", 2));
    bench.create_with("again", first).await;
    bench.send(items::signal("again", "go")).await;
    bench.turn_of("again").await;
    bench.send(items::signal("again", "more")).await;

    let deleted = bench.admin().delete_instance("again", true).await;
    assert_eq!(deleted.expect("forced").queue_messages_deleted, 3);
    bench.no_work("its activity is gone").await;
    bench.idle("its messages are gone").await;

    bench
        .send(items::start_of("again", "Other", Some("9.0.0")))
        .await;
    let turn = bench.turn_of("again").await;
    assert_eq!(turn.item.orchestration_name, "Other");
    assert_eq!(turn.item.messages.len(), 1);
    assert!(turn.item.history.is_empty());
    let first = Commit::to(1).event(1, kinds::started_as("Other", "9.0.0"));
    bench.commit(&turn, first.named("Other", "9.0.0")).await;
    let info = bench
        .admin()
        .get_instance_info("again")
        .await
        .expect("details");
    assert_eq!(info.orchestration_version, "9.0.0");
}

/// The commit of a turn whose instance was deleted fails; the instance does not come back.
pub async fn test_force_delete_prevents_ack_recreation<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("doomed").await;
    bench.send(items::signal("doomed", "go")).await;
    let turn = bench.turn_of("doomed").await;
    bench
        .admin()
        .delete_instance("doomed", true)
        .await
        .expect("forced");

    let late = Commit::first().event(2, kinds::completed("late"));
    assert!(bench.try_commit(&turn, late).await.is_err());
    gone(&bench, "doomed").await;
    bench.idle("nothing is left of it").await;
}

/// The result of an activity claimed before its instance was deleted and created again is dropped.
pub async fn test_stale_activity_after_delete_recreate<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().work(items::activity("reborn", 2));
    bench.create_with("reborn", first).await;
    let stale = bench.work().await;
    bench
        .admin()
        .delete_instance("reborn", true)
        .await
        .expect("forced");
    bench.create("reborn").await;

    let done = items::activity_done("reborn", 2);
    assert!(bench.try_finish(&stale, Some(done)).await.is_err());
    bench.idle("the new instance hears nothing of it").await;
}
