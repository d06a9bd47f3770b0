//! Histories with races, written by one engine and replayed by another from the store.

use std::time::Duration;

use duroxide_core::{Event, EventKind};

use super::engine::{Engine, arrived, ended_in_continue_as_new, quick, waits_for};
use super::{handlers, recorded};
use crate::ProviderFactory;
use crate::fixture::{Bench, claim_from, items};

/// An engine that began to run a racing orchestration.
async fn recording<F: ProviderFactory + ?Sized>(factory: &F, name: &str) -> Engine {
    let store = factory.create_provider().await;
    let engine = Engine::start(factory, &store, handlers::racing(factory), quick()).await;
    engine.begin("race", name, "").await;
    engine
}

/// The history up to the point where the orchestration waits for its end.
async fn recorded_by(engine: Engine) -> Vec<Event> {
    let history = engine.until("race", "its end", waits_for("end")).await;
    engine.stop().await;
    history
}

/// Puts a history into a fresh store, lets another engine replay it, and ends it.
async fn replayed<F: ProviderFactory + ?Sized>(factory: &F, history: &[Event]) -> String {
    let store = factory.create_provider().await;
    recorded::put(&store, history).await;
    assert_eq!(
        store.read("race").await.expect("readable"),
        history,
        "unchanged by the store"
    );
    let engine = Engine::start(factory, &store, handlers::racing(factory), quick()).await;
    engine.signal("race", "end", "").await;
    let output = engine.output("race").await;
    let after = store.read("race").await.expect("readable");
    assert_eq!(
        after[..history.len()],
        *history,
        "replay changes no history"
    );
    assert_eq!(
        after.len(),
        history.len() + 2,
        "the signal and the end, and nothing else"
    );
    engine.stop().await;
    output
}

fn timer_fired(history: &[Event]) -> bool {
    let fired = |e: &Event| matches!(e.kind, EventKind::TimerFired { .. });
    history.iter().any(fired)
}

/// Recorded races between a queue and a timer replay to what was recorded.
pub async fn test_queue_race_cancellation_replay<F: ProviderFactory + ?Sized>(factory: &F) {
    let engine = recording(factory, "MessageWins").await;
    engine
        .until("race", "its first step", |history| history.len() > 2)
        .await;
    engine.post("race", "inbox", "one").await;
    engine.until("race", "the first message", arrived(1)).await;
    engine.post("race", "inbox", "two").await;
    let history = recorded_by(engine).await;
    assert_eq!(replayed(factory, &history).await, "one,two");

    let engine = recording(factory, "TimerWins").await;
    engine.until("race", "the timer", timer_fired).await;
    engine.post("race", "inbox", "one").await;
    let history = recorded_by(engine).await;
    assert_eq!(replayed(factory, &history).await, "timeout,one");

    let engine = recording(factory, "MessageHeld").await;
    engine.until("race", "its wait", waits_for("begin")).await;
    engine.post("race", "inbox", "held").await;
    engine.until("race", "the message", arrived(1)).await;
    engine.signal("race", "begin", "").await;
    let history = recorded_by(engine).await;
    assert_eq!(replayed(factory, &history).await, "held,timeout");
}

/// Messages that an execution did not read go to the next one, in order, whatever else it read or lost.
pub async fn test_continue_as_new_queue_race_replay<F: ProviderFactory + ?Sized>(factory: &F) {
    let store = factory.create_provider().await;
    let engine = Engine::start(factory, &store, handlers::carrying(factory), quick()).await;
    engine.begin("carrier", "TestOrch", "all").await;
    engine
        .until("carrier", "its start", |history| history.len() > 1)
        .await;
    for (n, (queue, data)) in [
        ("inbox", "1"),
        ("other", "x"),
        ("inbox", "2"),
        ("inbox", "3"),
    ]
    .into_iter()
    .enumerate()
    {
        engine.post("carrier", queue, data).await;
        engine.until("carrier", "the message", arrived(n + 1)).await;
    }
    engine.until("carrier", "its wait", waits_for("go")).await;
    engine.stop().await;

    let engine = Engine::start(factory, &store, handlers::carrying(factory), quick()).await;
    engine.signal("carrier", "go", "").await;
    assert_eq!(engine.output("carrier").await, "2,3,x");
    let first = store
        .read_with_execution("carrier", 1)
        .await
        .expect("readable");
    assert!(ended_in_continue_as_new(&first));
    engine.stop().await;
}

/// A version stamp comes back as it was, by reading and by fetching.
pub async fn test_queue_replay_version_stamp_roundtrip<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let history = recorded::continued("stamped", "next", "0.1.30");
    recorded::put(&bench.store, &history).await;
    assert_eq!(bench.read("stamped").await, history);
    assert_eq!(bench.read_execution("stamped", 1).await, history);
    bench.send(items::queue_message("stamped", "a")).await;
    let turn = claim_from(&*bench.store, Duration::from_secs(5), None).await;
    let turn = turn.expect("a message is ready");
    assert_eq!(turn.item.history, history);
    assert!(
        turn.item
            .history
            .iter()
            .all(|e| e.duroxide_version == "0.1.30")
    );
}

fn waits_for_steps(count: usize) -> impl Fn(&[Event]) -> bool {
    move |history| {
        let step = |e: &&Event| matches!(&e.kind, EventKind::ExternalSubscribed { name } if name == "step");
        history.iter().filter(step).count() == count
    }
}

/// Two waits in turn, each racing a timer, replay as they were and add no history.
pub async fn test_positional_wait_race_replay<F: ProviderFactory + ?Sized>(factory: &F) {
    let engine = recording(factory, "Steps").await;
    engine
        .until("race", "its first wait", waits_for_steps(1))
        .await;
    engine.signal("race", "step", "first").await;
    engine
        .until("race", "its second wait", waits_for_steps(2))
        .await;
    engine.signal("race", "step", "second").await;
    let history = recorded_by(engine).await;
    assert_eq!(replayed(factory, &history).await, "first,second");
}

/// A race that version 0.1.31 or later decided is decided the same way from its stamped history.
///
/// Histories with older stamps are stored and read unchanged; this engine keeps no older rules for them.
pub async fn test_legacy_queue_race_decision_preserved<F: ProviderFactory + ?Sized>(factory: &F) {
    let engine = recording(factory, "TimerWins").await;
    engine.until("race", "the timer", timer_fired).await;
    engine.post("race", "inbox", "first").await;
    let history = recorded::stamped(&recorded_by(engine).await, "0.1.31");
    assert_eq!(replayed(factory, &history).await, "timeout,first");
}
