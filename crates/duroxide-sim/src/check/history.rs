//! Histories: their shape, and that the code still decides what they say, from every prefix.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use duroxide_core::provider::{KvEntry, fold_key_values};
use duroxide_core::replay::Execution;
use duroxide_core::{
    Event, EventKind, FnOrchestration, OrchestrationContext, OrchestrationHandler, Rewound,
    StartExtras, is_label_key, is_reserved_key,
};

use super::Histories;
use super::Scene;
use crate::handler;
use crate::program::VERSIONS;

/// Longer histories are replayed at some of their prefixes only.
const ALL_PREFIXES: usize = 24;

pub(super) fn check(scene: &Scene, id: &str, histories: &Histories) {
    // A node whose clock is off knows the store's time as exactly as the store answers.
    let is_skewed = scene.plan.nodes.iter().any(|node| node.skew_ms != 0);
    let tolerance_ms = if is_skewed { 2_500 } else { 0 };
    let mut kv = HashMap::new();
    let is_whole = histories.keys().copied().eq(1..=histories.len() as u64);
    let last = histories.keys().next_back().copied();
    for (execution, history) in histories {
        let complaints = shape(history, Some(*execution) == last, tolerance_ms);
        for complaint in complaints {
            let text = format!("history of {id} execution {execution}: {complaint}");
            scene.sim.violation(text);
        }
        if is_whole {
            replays(scene, id, history, &kv);
        }
        if !has_failed(history) {
            fold_key_values(&mut kv, history);
        }
    }
    if is_whole {
        chain(scene, id, histories);
    }
}

/// Whether an execution failed. One that goes on from a part of it begins with the key-values that it began with.
fn has_failed(history: &[Event]) -> bool {
    let end = history.last().map(|event| &event.kind);
    matches!(end, Some(EventKind::OrchestrationFailed { .. }))
}

/// The rules every committed history obeys.
fn shape(history: &[Event], is_last: bool, tolerance_ms: u64) -> Vec<String> {
    let mut complaints = Vec::new();
    let (mut answered, mut cancelled) = (BTreeSet::new(), BTreeSet::new());
    for (place, event) in history.iter().enumerate() {
        if event.event_id != place as u64 + 1 {
            complaints.push(format!("event {} at place {}", event.event_id, place + 1));
            return complaints;
        }
        let is_start = matches!(event.kind, EventKind::OrchestrationStarted { .. });
        if is_start != (place == 0) {
            complaints.push(format!(
                "a start at place {}, or none at the first",
                place + 1
            ));
        }
        if event.is_terminal() && place + 1 != history.len() {
            complaints.push(format!(
                "event {} ends it and is not the last",
                event.event_id
            ));
        }
        if place > 0 && history[place - 1].timestamp_ms > event.timestamp_ms {
            complaints.push(format!(
                "recorded time goes back at event {}",
                event.event_id
            ));
        }
        let Some(wanted) = schedule_of(&event.kind) else {
            continue;
        };
        let schedule = event
            .source_event_id
            .filter(|source| *source < event.event_id)
            .and_then(|source| history.get(source as usize - 1));
        // A deadline is a timer of the start.
        let is_deadline = |kind: &EventKind| {
            wanted == "TimerCreated" && StartExtras::recorded_in(kind).deadline_ms.is_some()
        };
        let fits = |s: &&Event| s.kind.wire_name() == wanted || is_deadline(&s.kind);
        let Some(schedule) = schedule.filter(fits) else {
            complaints.push(format!("event {} answers nothing", event.event_id));
            continue;
        };
        let source = schedule.event_id;
        let fresh = if is_cancel(&event.kind) {
            !answered.contains(&source) && cancelled.insert(source)
        } else {
            answered.insert(source)
        };
        if !fresh {
            complaints.push(format!("event {source} is answered or cancelled twice"));
        }
        let due = match (&schedule.kind, &event.kind) {
            (EventKind::TimerCreated { fire_at_ms }, EventKind::TimerFired { .. }) => {
                Some(*fire_at_ms)
            }
            (started, EventKind::TimerFired { .. }) => {
                StartExtras::recorded_in(started).deadline_ms
            }
            _ => None,
        };
        if let Some(due) = due
            && event.timestamp_ms + tolerance_ms < due
        {
            complaints.push(format!(
                "timer {source} fired {} ms early",
                due - event.timestamp_ms
            ));
        }
    }
    if !is_last && !history.last().is_some_and(Event::is_terminal) {
        complaints.push("an execution that is not the last has not ended".to_owned());
    }
    complaints
}

/// Each execution begins with what the one before handed on.
fn chain(scene: &Scene, id: &str, histories: &Histories) {
    let all: Vec<&Vec<Event>> = histories.values().collect();
    for pair in all.windows(2) {
        let handed = pair[0].last().map(|event| &event.kind);
        let begun = pair[1].first().map(|event| &event.kind);
        let fits = match (handed, begun) {
            (
                Some(EventKind::OrchestrationContinuedAsNew { input: handed }),
                Some(EventKind::OrchestrationStarted { input, .. }),
            ) => handed == input,
            (Some(EventKind::OrchestrationFailed { .. }), Some(begun)) => {
                Rewound::recorded_in(begun).is_some()
            }
            _ => false,
        };
        if !fits {
            let text = format!("an execution of {id} does not begin where the one before ended");
            scene.sim.violation(text);
        }
    }
}

fn handler(history: &[Event]) -> Option<Arc<dyn OrchestrationHandler>> {
    let EventKind::OrchestrationStarted { version, .. } = &history.first()?.kind else {
        return None;
    };
    let version = VERSIONS.iter().position(|known| known == version)?;
    let run = move |ctx: OrchestrationContext, input: String| handler::run(ctx, input, version);
    Some(Arc::new(FnOrchestration(run)))
}

fn replays(scene: &Scene, id: &str, history: &[Event], kv: &HashMap<String, KvEntry>) {
    let Some(handler) = handler(history) else {
        scene
            .sim
            .violation(format!("{id} was begun by a version that no node has"));
        return;
    };
    let stride = 1 + history.len() / ALL_PREFIXES;
    let ends = (1..history.len()).step_by(stride).chain([history.len()]);
    for end in ends {
        let loaded = Execution::load(&history[..end], Arc::clone(&handler), kv.clone());
        if let Err(divergence) = loaded {
            let text = format!("{id} does not replay from its first {end} events: {divergence}");
            scene.sim.violation(text);
            return;
        }
    }
}

/// The key-values of an instance, from all of its events.
pub(super) fn key_values(histories: &Histories) -> BTreeMap<String, String> {
    let mut kv = HashMap::new();
    for history in histories.values().filter(|history| !has_failed(history)) {
        fold_key_values(&mut kv, history);
    }
    // Labels and replies are recorded as key-values and are none.
    let own = |(key, _): &(String, KvEntry)| !is_label_key(key) && !is_reserved_key(key);
    kv.into_iter()
        .filter(own)
        .map(|(key, entry)| (key, entry.value))
        .collect()
}

/// The kind of schedule that an event belongs to.
fn schedule_of(kind: &EventKind) -> Option<&'static str> {
    match kind {
        EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityCancelRequested { .. } => Some("ActivityScheduled"),
        EventKind::TimerFired { .. } => Some("TimerCreated"),
        EventKind::ExternalSubscribedCancelled { .. } => Some("ExternalSubscribed"),
        EventKind::QueueSubscriptionCancelled { .. } => Some("ExternalSubscribedPersistent"),
        EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. }
        | EventKind::SubOrchestrationCancelRequested { .. } => Some("SubOrchestrationScheduled"),
        _ => None,
    }
}

fn is_cancel(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCancelRequested { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
            | EventKind::SubOrchestrationCancelRequested { .. }
    )
}
