//! What the events of one turn mean for the row of its instance.

use super::super::{ExecutionStatus, OutcomeStatus};
use crate::event::{Event, EventKind};
use crate::message::is_engine_queue;

/// How the instance ends with a turn, if it does: the last event of the turn ends it and the status of the commit agrees.
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

/// The last custom status that a turn sets: `None` if it sets none, `Some(None)` if it clears it.
#[must_use]
pub fn last_custom_status(events: &[Event]) -> Option<Option<&str>> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.as_deref()),
        _ => None,
    })
}

/// How many queue messages an execution began with, as its first event says. What the engine carries for itself does not count.
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
