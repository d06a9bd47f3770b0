//! What the events of one turn mean for the row of its instance.

use super::super::{ExecutionStatus, OutcomeStatus};
use crate::event::{Event, EventKind};
use crate::ids::INITIAL_EXECUTION_ID;
use crate::message::is_engine_queue;
use crate::rewound::Rewound;

/// How the instance ends with a turn, if it does: the last event of the turn ends it and the status of the commit
/// agrees.
///
/// ```
/// use duroxide_core::provider::rules::ended_by;
/// use duroxide_core::{Event, EventKind};
/// let end = EventKind::OrchestrationCompleted { output: "ok".into() };
/// let events = [Event::with_event_id(5, "i", 1, None, end)];
/// assert!(ended_by(&events, Some("Completed")).is_some());
/// assert!(ended_by(&events, Some("Running")).is_none());
/// ```
#[must_use]
pub fn ended_by(events: &[Event], status: Option<&str>) -> Option<OutcomeStatus> {
    let outcome = OutcomeStatus::of_event(events.last()?)?;
    let recorded = match &outcome {
        OutcomeStatus::Completed { .. } => ExecutionStatus::Completed,
        OutcomeStatus::Failed { .. } => ExecutionStatus::Failed,
        OutcomeStatus::Running => return None,
    };
    (status == Some(recorded.as_str())).then_some(outcome)
}

/// The last custom status that a turn sets: `None` if it sets none, `Some(None)` if it clears it. One that begins a
/// rewound execution sets the status that the kept part of the record left.
#[must_use]
pub fn last_custom_status(events: &[Event]) -> Option<Option<&str>> {
    let set = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.as_deref()),
        _ => None,
    });
    set.or_else(|| match &events.first()?.kind {
        // The dropped part of the record may have set another one.
        started @ EventKind::OrchestrationStarted {
            initial_custom_status,
            ..
        } if Rewound::recorded_in(started).is_some() => Some(initial_custom_status.as_deref()),
        _ => None,
    })
}

/// Whether a turn begins an execution after another one of its instance. Changes that an earlier execution made to
/// key-values and that are not merged yet, because it failed, are dropped then.
#[must_use]
pub fn begins_later_execution(events: &[Event]) -> bool {
    events.first().is_some_and(|first| {
        first.execution_id > INITIAL_EXECUTION_ID && first.started_handler().is_some()
    })
}

/// Whether the changes that an execution made to key-values become the base of the next one when it ends with this
/// status: not if it failed, because it may be rewound.
///
/// ```
/// use duroxide_core::provider::rules::merges_key_values;
/// assert!(merges_key_values("Completed") && merges_key_values("ContinuedAsNew"));
/// assert!(!merges_key_values("Failed") && !merges_key_values("Running"));
/// ```
#[must_use]
pub fn merges_key_values(status: &str) -> bool {
    status != ExecutionStatus::Failed.as_str() && status != ExecutionStatus::Running.as_str()
}

/// How many queue messages an execution began with, as its first event says. What the engine carries for itself does
/// not count.
#[must_use]
pub fn carried_messages(started: &EventKind) -> usize {
    let EventKind::OrchestrationStarted {
        carry_forward_events: Some(carried),
        ..
    } = started
    else {
        return 0;
    };
    let own = |(queue, _): &&(String, String)| !is_engine_queue(queue);
    carried.iter().filter(own).count()
}
