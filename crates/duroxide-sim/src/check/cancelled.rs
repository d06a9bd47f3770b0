//! What was cancelled: an activity does not begin after that, a child hears of it. In: the histories at the end. Out:
//! violations.

use std::collections::BTreeMap;

use duroxide_core::{Event, EventKind, Rewound, build_child_instance_id};

use super::Histories;
use super::Scene;
use crate::sim::EPOCH_MS;

/// How long a node may take to hear that a lease is gone.
const NOTICE_MS: u64 = 3_000;
/// A turn that was claimed before the request, or whose code returned as soon as it heard of it, is committed within
/// this time of quiet.
const TURN_MS: u64 = 30_000;

pub(super) fn check(scene: &Scene, instances: &BTreeMap<String, Histories>) {
    for (id, histories) in instances {
        for history in histories.values() {
            for event in history {
                let schedule = event
                    .source_event_id
                    .and_then(|source| history.get(source as usize - 1));
                let Some(schedule) = schedule else { continue };
                match (&event.kind, &schedule.kind) {
                    (EventKind::ActivityCancelRequested { .. }, _) => activity(scene, id, event),
                    (
                        EventKind::SubOrchestrationCancelRequested { .. },
                        EventKind::SubOrchestrationScheduled { instance, .. },
                    ) => {
                        let child = build_child_instance_id(id, instance);
                        // A child that asked for the id of its parent was refused: there is nothing to check.
                        if let Some(histories) = instances.get(&child)
                            && child != *id
                        {
                            heard(scene, &child, event.timestamp_ms, histories);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn activity(scene: &Scene, id: &str, cancel: &Event) {
    // Not when it was decided: until the store has it, the activity is wanted.
    let stored = scene
        .sim
        .stored_ms(id, cancel.execution_id, cancel.event_id);
    let cancelled_ms = stored.unwrap_or_else(|| cancel.timestamp_ms.saturating_sub(EPOCH_MS));
    for run in scene.sim.effects.all() {
        let is_it = run.instance == id
            && run.execution == cancel.execution_id
            && Some(run.activity) == cancel.source_event_id;
        let is_late = run.began_ms > cancelled_ms + NOTICE_MS;
        if is_it
            && is_late
            && !scene
                .sim
                .was_disturbed(run.node, cancelled_ms, run.began_ms)
        {
            scene.sim.violation(format!(
                "activity {} was cancelled at {cancelled_ms} and began on {} at {}",
                run.label, run.life, run.began_ms
            ));
        }
    }
}

fn heard(scene: &Scene, child: &str, cancelled_ms: u64, histories: &Histories) {
    let quiet_ms = |event: &Event| {
        let at = |timestamp_ms: u64| timestamp_ms.saturating_sub(EPOCH_MS);
        let disturbed = scene
            .sim
            .disturbed_ms(at(cancelled_ms), at(event.timestamp_ms));
        (event.timestamp_ms)
            .saturating_sub(cancelled_ms)
            .saturating_sub(disturbed)
    };
    let mut later = histories
        .values()
        .flatten()
        .filter(|event| quiet_ms(event) > TURN_MS);
    let was_told = histories
        .values()
        .flatten()
        .any(|event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. }));
    // One that had failed before it heard of it may have been retried.
    let was_retried = histories.values().any(|it| Rewound::of(it).is_some());
    if let (Some(event), false) = (later.next(), was_told || was_retried) {
        let text = format!(
            "{child} was cancelled and went on to event {}",
            event.event_id
        );
        scene.sim.violation(text);
    }
}
