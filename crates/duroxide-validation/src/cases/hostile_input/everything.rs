//! Every kind of message and event comes back unchanged.

use duroxide_core::{AppErrorKind, ErrorDetails, Event, EventKind, PoisonMessageType, WorkItem};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

fn every_message(instance: &str) -> Vec<WorkItem> {
    let mut next = items::next_execution(instance);
    if let WorkItem::ContinueAsNew {
        parent_instance,
        parent_id,
        parent_execution_id,
        carry_forward_events,
        initial_custom_status,
        ..
    } = &mut next
    {
        *parent_instance = Some("parent".into());
        *parent_id = Some(3);
        *parent_execution_id = Some(4);
        *carry_forward_events = vec![("q".into(), "d".into()), ("q".into(), String::new())];
        *initial_custom_status = Some("status".into());
    }
    vec![
        items::child_start(instance, "ChildOrch", "parent"),
        items::activity_done(instance, 2),
        items::activity_failed(instance, 3),
        items::timer(instance, 4, 5),
        items::signal(instance, "name"),
        items::child_done(instance, 5),
        items::child_failed(instance, 6),
        items::cancel(instance),
        next,
        items::queue_message(instance, "data"),
    ]
}

fn every_event() -> Vec<EventKind> {
    let text = || "text".to_owned();
    let poison = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Activity {
            instance: text(),
            execution_id: 1,
            activity_name: text(),
            activity_id: 2,
        },
        message: text(),
    };
    let panicked = ErrorDetails::Application {
        kind: AppErrorKind::Panicked,
        message: text(),
        retryable: false,
    };
    vec![
        kinds::started_carrying(&[("q", "d")]),
        EventKind::ActivityScheduled {
            name: text(),
            input: text(),
            session_id: Some(text()),
            tag: Some(text()),
        },
        kinds::activity_completed("result"),
        EventKind::ActivityFailed { details: poison },
        EventKind::ActivityCancelRequested { reason: text() },
        EventKind::TimerCreated {
            fire_at_ms: u64::MAX,
        },
        EventKind::TimerFired { fire_at_ms: 1 },
        EventKind::ExternalSubscribed { name: text() },
        EventKind::ExternalEvent {
            name: text(),
            data: text(),
        },
        EventKind::ExternalSubscribedCancelled { reason: text() },
        EventKind::QueueSubscribed { name: text() },
        EventKind::QueueEventDelivered {
            name: text(),
            data: text(),
        },
        EventKind::QueueSubscriptionCancelled { reason: text() },
        EventKind::SubOrchestrationScheduled {
            name: text(),
            instance: text(),
            input: text(),
        },
        EventKind::SubOrchestrationCompleted { result: text() },
        EventKind::SubOrchestrationFailed { details: panicked },
        EventKind::SubOrchestrationCancelRequested { reason: text() },
        EventKind::OrchestrationChained {
            name: text(),
            instance: text(),
            input: text(),
        },
        EventKind::OrchestrationCancelRequested { reason: text() },
        kinds::custom_status(None),
        kinds::kv_set("k", "v"),
        kinds::kv_clear("k"),
        kinds::kv_clear_all(),
        kinds::continued("input"),
        kinds::failed("message"),
        kinds::completed("output"),
    ]
}

/// Every kind of message enqueued by a client comes back unchanged, in order.
pub async fn every_message_kind_comes_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("all").await;
    for message in every_message("all") {
        bench.send(message).await;
    }
    all_come_back(&bench).await;
}

/// Every kind of message sent by a commit reaches its instance unchanged, in order.
pub async fn every_committed_message_kind_comes_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("all").await;
    let first = every_message("all")
        .into_iter()
        .fold(Commit::first(), Commit::message);
    bench.create_with("sender", first).await;
    all_come_back(&bench).await;
}

/// The queue message, sent last, may stay behind the continue-as-new that carries others.
async fn all_come_back<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) {
    let turn = bench.turn_of("all").await;
    let mut messages = turn.item.messages.clone();
    bench.commit(&turn, Commit::to(1)).await;
    if let Some(turn) = bench.claim().await {
        messages.extend(turn.item.messages);
    }
    assert_eq!(messages, every_message("all"));
}

/// Every kind of event comes back unchanged, by each way of reading.
pub async fn every_event_kind_comes_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("all").await;
    let turn = bench.turn_of("all").await;
    let events: Vec<Event> = (1..)
        .zip(every_event())
        .map(|(id, kind)| Event {
            event_id: id,
            source_event_id: (id % 2 == 0).then_some(id - 1),
            instance_id: "all".into(),
            execution_id: 1,
            timestamp_ms: 1_700_000_000_000 + id,
            duroxide_version: "0.1.31".into(),
            kind,
        })
        .collect();
    let metadata = Commit::first().metadata;
    let ack = bench.store.ack_orchestration_item(
        &turn.token,
        1,
        events.clone(),
        Vec::new(),
        Vec::new(),
        metadata,
        Vec::new(),
    );
    ack.await.expect("a turn under a valid lease commits");
    assert_eq!(bench.read("all").await, events);
    assert_eq!(bench.read_execution("all", 1).await, events);
    bench.send(items::signal("all", "go")).await;
    assert_eq!(bench.turn_of("all").await.item.history, events);
}
