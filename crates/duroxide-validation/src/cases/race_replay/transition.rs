//! What arrives between two executions, before the successor's start can be seen.

use std::sync::Arc;

use duroxide_core::provider::Provider;
use duroxide_core::{Event, EventKind, WorkItem};
use duroxide_runtime::OrchestrationStatus;

use super::engine::{Engine, quick, waits_for};
use super::{handlers, recorded};
use crate::ProviderFactory;
use crate::fixture::items;

/// The first execution is over; the successor's start is delayed, the inputs are not. The successor gets its shape from
/// its start.
async fn between<F: ProviderFactory + ?Sized>(
    factory: &F,
    stamp: &str,
    shape: &str,
    inputs: Vec<WorkItem>,
) -> Engine {
    let store: Arc<dyn Provider> = factory.create_provider().await;
    recorded::put(&store, &recorded::continued("moving", shape, stamp)).await;
    let mut successor = items::next_execution("moving");
    if let WorkItem::ContinueAsNew { input, .. } = &mut successor {
        shape.clone_into(input);
    }
    // Long enough for an engine to begin and to look, and seldom longer than the way to the store takes.
    let late = factory.wake_latency() * 8;
    let sent = store.enqueue_for_orchestrator(successor, Some(late)).await;
    sent.expect("a start can be enqueued");
    for input in inputs {
        let sent = store.enqueue_for_orchestrator(input, None).await;
        sent.expect("a message can be enqueued");
    }
    Engine::start(factory, &store, handlers::successors(), quick()).await
}

async fn second_execution(engine: &Engine) -> Vec<Event> {
    let history = engine.store.read_with_execution("moving", 2).await;
    history.expect("readable")
}

fn count(history: &[Event], matches: impl Fn(&EventKind) -> bool) -> usize {
    history.iter().filter(|e| matches(&e.kind)).count()
}

fn two_messages() -> Vec<WorkItem> {
    vec![
        items::queue_message("moving", "a"),
        items::queue_message("moving", "b"),
    ]
}

/// Seven kinds of input arrive before the successor's start: none is lost, doubled or out of order, none fails the
/// instance.
pub async fn test_continue_as_new_transition_delivery<F: ProviderFactory + ?Sized>(
    factory: &F,
    stamp: &str,
) {
    messages_are_read_in_order(factory, stamp).await;
    stale_results_disturb_nothing(factory, stamp).await;
    a_signal_is_on_record_once(factory, stamp).await;
    a_cancel_reaches_the_successor(factory, stamp).await;
    a_result_from_the_future_is_harmless(factory, stamp).await;
}

async fn messages_are_read_in_order<F: ProviderFactory + ?Sized>(factory: &F, stamp: &str) {
    for shape in ["queue", "race"] {
        let engine = between(factory, stamp, shape, two_messages()).await;
        assert_eq!(engine.output("moving").await, "a,b", "{shape}");
        let delivered = |kind: &EventKind| matches!(kind, EventKind::QueueEventDelivered { .. });
        assert_eq!(
            count(&second_execution(&engine).await, delivered),
            2,
            "{shape}"
        );
        engine.stop().await;
    }
}

async fn stale_results_disturb_nothing<F: ProviderFactory + ?Sized>(factory: &F, stamp: &str) {
    let stale = || items::activity_done("moving", 2);
    let mixed = vec![stale(), items::queue_message("moving", "a"), stale()];
    let engine = between(factory, stamp, "mixed-stale", mixed).await;
    assert_eq!(engine.output("moving").await, "a");
    engine.stop().await;

    let engine = between(factory, stamp, "stale-only", vec![stale()]).await;
    assert_eq!(engine.output("moving").await, "fresh");
    engine.stop().await;
}

/// A signal that is claimed together with the start comes before its wait and is only recorded; claimed after it, it is
/// delivered. It is on record once, and the record decides which signal the code got.
async fn a_signal_is_on_record_once<F: ProviderFactory + ?Sized>(factory: &F, stamp: &str) {
    let is_early = |kind: &EventKind| matches!(kind, EventKind::ExternalEvent { data, .. } if data == "signal data");
    let early = vec![items::signal("moving", "go")];
    let engine = between(factory, stamp, "signal", early).await;
    let on_record = |history: &[Event]| count(history, is_early) > 0;
    engine.until("moving", "the signal", on_record).await;
    engine.until("moving", "its wait", waits_for("go")).await;
    engine.signal("moving", "go", "in time").await;
    let output = engine.output("moving").await;
    let history = second_execution(&engine).await;
    assert_eq!(count(&history, is_early), 1);
    let place = |wanted: &dyn Fn(&EventKind) -> bool| history.iter().position(|e| wanted(&e.kind));
    let wait = place(&|kind| matches!(kind, EventKind::ExternalSubscribed { .. }));
    let expected = if place(&is_early) < wait {
        "in time"
    } else {
        "signal data"
    };
    assert_eq!(output, expected, "{history:?}");
    engine.stop().await;
}

async fn a_cancel_reaches_the_successor<F: ProviderFactory + ?Sized>(factory: &F, stamp: &str) {
    let engine = between(factory, stamp, "cancel", vec![items::cancel("moving")]).await;
    match engine.outcome("moving").await {
        OrchestrationStatus::Failed { details, .. } => {
            assert_eq!(details.display_message(), "canceled: asked to stop");
        }
        other => panic!("it was cancelled: {other:?}"),
    }
    assert!(
        !second_execution(&engine).await.is_empty(),
        "the successor was cancelled"
    );
    engine.stop().await;
}

/// Schedules and their work are committed together, so a result that comes before its schedule belongs to no operation.
/// Claimed together with the start it is dropped and the activity gives its own result; claimed after the schedule it
/// is the result. It never fails the instance, and exactly one result is on record.
async fn a_result_from_the_future_is_harmless<F: ProviderFactory + ?Sized>(
    factory: &F,
    stamp: &str,
) {
    let future = WorkItem::ActivityCompleted {
        instance: "moving".into(),
        execution_id: 2,
        id: 2,
        result: "real".into(),
    };
    let engine = between(factory, stamp, "future-completion", vec![future]).await;
    assert_eq!(engine.output("moving").await, "real");
    let result = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted { .. });
    assert_eq!(count(&second_execution(&engine).await, result), 1);
    engine.stop().await;
}
