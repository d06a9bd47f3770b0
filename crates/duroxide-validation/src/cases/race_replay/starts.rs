//! Starts that come twice, too early, or for a handler that is not there.

use std::time::Duration;

use duroxide_core::provider::ProviderAdmin;
use duroxide_core::{EventKind, WorkItem};
use duroxide_runtime::{OrchestrationStatus, RuntimeOptions};

use super::engine::{Engine, LOOK_EVERY, arrived, ended_in_continue_as_new, quick, waits_for};
use super::{handlers, recorded};
use crate::ProviderFactory;
use crate::fixture::{Bench, claim_from, items};

/// A second start, of the same or of another handler, changes nothing about a running instance.
pub async fn test_duplicate_start_preserves_pinned_handler<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    for duplicate in ["Pinned", "Other"] {
        let store = factory.create_provider().await;
        let engine = Engine::start(factory, &store, handlers::two_versions(), quick()).await;
        let started = engine
            .client
            .start_orchestration_versioned("pinned", "Pinned", "1.0.0", "first")
            .await;
        started.expect("a start can be enqueued");
        let before = engine.until("pinned", "its wait", waits_for("go")).await;

        engine.begin("pinned", duplicate, "second").await;
        engine.stop().await;
        let engine = Engine::start(factory, &store, handlers::two_versions(), quick()).await;
        engine.signal("pinned", "go", "").await;
        assert_eq!(
            engine.output("pinned").await,
            "1.0.0:first",
            "after a second `{duplicate}`"
        );
        let after = store.read("pinned").await.expect("readable");
        assert_eq!(after[..before.len()], before[..]);
        engine.stop().await;
    }
}

/// Waits until a program has claimed what is queued for the instance, and has stepped back from it. A store that knows
/// who has which code passes it over; one that cannot tell what is queued leaves nothing to be seen.
async fn met(engine: &Engine, instance: &str) {
    let began = std::time::Instant::now();
    while began.elapsed() < engine.patience {
        let Some(admin) = engine.store.as_management_capability() else {
            return;
        };
        let by_name = admin.list_ready_work(1).await;
        if by_name.expect("ready work can be read").is_some() {
            return;
        }
        let pending = admin.pending_work(instance).await;
        let Some(pending) = pending.expect("pending work can be read") else {
            return;
        };
        let queued = &pending.messages;
        if !queued.is_empty() && queued.iter().all(|message| message.attempts > 0) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    panic!("nobody claims what is queued for `{instance}`");
}

/// Waits until everything that was sent to the instance is consumed, and no turn of it is under way.
async fn all_is_consumed(admin: &dyn ProviderAdmin, instance: &str, patience: Duration) {
    let began = std::time::Instant::now();
    loop {
        let depths = admin.get_queue_depths().await.expect("depths can be read");
        let pending = admin.pending_work(instance).await;
        let pending = pending.expect("pending work can be read");
        // A message that is claimed counts as no depth.
        let is_idle =
            pending.is_none_or(|it| it.messages.is_empty() && it.turn_leased_until_ms.is_none());
        if depths.orchestrator_queue == 0 && is_idle {
            return;
        }
        assert!(began.elapsed() < patience, "never consumed: {depths:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A successor whose handler is missing here waits, and so does what is sent to it, for a program that has it.
pub async fn test_continue_as_new_unregistered_backoff<F: ProviderFactory + ?Sized>(factory: &F) {
    let store = factory.create_provider().await;
    let old = Engine::start(factory, &store, handlers::first_link_only(), quick()).await;
    old.begin("chain", "Chain", "").await;
    old.until("chain", "its wait", waits_for("go")).await;
    old.post("chain", "inbox", "carried").await;
    old.until("chain", "the message", arrived(1)).await;
    old.signal("chain", "go", "").await;
    old.until("chain", "its end", ended_in_continue_as_new)
        .await;
    old.post("chain", "inbox", "late").await;
    met(&old, "chain").await;
    old.stop().await;

    let new = Engine::start(factory, &store, handlers::both_links(), quick()).await;
    assert_eq!(new.output("chain").await, "carried,late");
    new.stop().await;
}

/// A successor that cannot be started fails as an execution of its own; the first one keeps its end.
pub async fn test_continue_as_new_poisoned_successor_is_own_execution<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let options = RuntimeOptions {
        max_attempts: 1,
        ..quick()
    };
    let engine = Engine::start(factory, &bench.store, handlers::first_link_only(), options).await;
    engine.begin("chain", "Chain", "").await;
    engine.until("chain", "its wait", waits_for("go")).await;
    engine.signal("chain", "go", "").await;
    let status = engine.outcome("chain").await;
    assert!(
        matches!(status, OrchestrationStatus::Failed { .. }),
        "{status:?}"
    );

    let first = bench.read_execution("chain", 1).await;
    assert!(ended_in_continue_as_new(&first), "{first:?}");
    let second = bench.read_execution("chain", 2).await;
    assert!(second[0].started_handler().is_some(), "{second:?}");
    let last = second.last().map(|e| &e.kind);
    assert!(
        matches!(last, Some(EventKind::OrchestrationFailed { .. })),
        "{second:?}"
    );

    engine.post("chain", "inbox", "late").await;
    all_is_consumed(bench.admin(), "chain", engine.patience).await;
    engine.stop().await;
    bench
        .idle("what is sent to a failed instance is consumed")
        .await;
}

/// A second start that stands before the successor's start neither replaces it nor changes a history.
pub async fn test_continue_as_new_duplicate_start<F: ProviderFactory + ?Sized>(factory: &F) {
    for stamp in ["0.1.30", "0.1.31"] {
        let store = factory.create_provider().await;
        let history = recorded::continued("taken", "next", stamp);
        recorded::put(&store, &history).await;
        let mut duplicate = items::start("taken");
        if let WorkItem::StartOrchestration { input, .. } = &mut duplicate {
            "duplicate".clone_into(input);
        }
        for message in [duplicate, items::next_execution("taken")] {
            let sent = store.enqueue_for_orchestrator(message, None).await;
            sent.expect("a start can be enqueued");
        }

        let engine = Engine::start(factory, &store, handlers::colliding(), quick()).await;
        assert_eq!(engine.output("taken").await, "next", "stamp {stamp}");
        let first = store
            .read_with_execution("taken", 1)
            .await
            .expect("readable");
        assert_eq!(first, history, "stamp {stamp}");

        engine.begin("parent", "Parent", "taken").await;
        let told = engine.output("parent").await;
        assert!(
            told.contains("already exists"),
            "the parent was told: {told}"
        );
        engine.stop().await;
        let left = claim_from(&*store, Duration::from_secs(5), None).await;
        assert!(left.is_none(), "every start was consumed");
    }
}
