//! What a history leaves open. Pure: events in, waits out.

use std::collections::HashSet;

use duroxide_core::{Event, EventKind, build_child_instance_id, open_waits};

use super::failures::Failures;
use super::types::{ActivityPlace, Finding, Standing, Wait};

/// Where the execution with this history stands; `None` if it never began.
pub(super) fn standing(history: &[Event]) -> Option<Standing> {
    let last = history.last()?;
    Some(match &last.kind {
        EventKind::OrchestrationCompleted { output } => Standing::Completed {
            output: output.clone(),
        },
        EventKind::OrchestrationFailed { details } => Standing::Failed {
            error: details.display_message(),
        },
        EventKind::OrchestrationContinuedAsNew { .. } => Standing::BetweenExecutions,
        _ => Standing::Running,
    })
}

/// Requests to cancel that the history holds.
pub(super) fn cancel_requests(history: &[Event]) -> Vec<Finding> {
    let request = |event: &Event| match &event.kind {
        EventKind::OrchestrationCancelRequested { reason } => Some(Finding::CancelRequested {
            reason: reason.clone(),
            at_ms: event.timestamp_ms,
        }),
        _ => None,
    };
    history.iter().filter_map(request).collect()
}

/// What the history asked for and did not get, in the order of asking.
pub(super) fn waits(history: &[Event]) -> Vec<Wait> {
    let open: HashSet<u64> = open_waits(history)
        .iter()
        .map(|wait| wait.event_id)
        .collect();
    let mut failures = Failures::default();
    let mut waits = Vec::with_capacity(open.len());
    for event in history {
        failures.take(event);
        if open.contains(&event.event_id) {
            waits.extend(begun_by(event, &failures));
        }
    }
    waits
}

/// The wait that an event began.
fn begun_by(event: &Event, failures: &Failures<'_>) -> Option<Wait> {
    let (event_id, since_ms) = (event.event_id, event.timestamp_ms);
    Some(match &event.kind {
        EventKind::ActivityScheduled {
            name,
            session_id,
            tag,
            ..
        } => Wait::Activity {
            event_id,
            name: name.clone(),
            tag: tag.clone(),
            session: session_id.clone(),
            since_ms,
            place: ActivityPlace::Unknown,
            failed_before: failures.of(event_id),
        },
        EventKind::TimerCreated { fire_at_ms } => Wait::Timer {
            event_id,
            due_ms: *fire_at_ms,
            since_ms,
            failed_before: failures.just_before(),
        },
        EventKind::ExternalSubscribed { name } => Wait::Signal {
            event_id,
            name: name.clone(),
            since_ms,
        },
        EventKind::QueueSubscribed { name } => Wait::Queue {
            event_id,
            name: name.clone(),
            since_ms,
        },
        EventKind::SubOrchestrationScheduled { name, instance, .. } => Wait::Child {
            event_id,
            name: name.clone(),
            instance_id: build_child_instance_id(&event.instance_id, instance),
            since_ms,
            why: None,
        },
        _ => return None,
    })
}

impl Wait {
    /// The event that began the wait.
    #[must_use]
    pub fn event_id(&self) -> u64 {
        match self {
            Self::Activity { event_id, .. }
            | Self::Timer { event_id, .. }
            | Self::Signal { event_id, .. }
            | Self::Queue { event_id, .. }
            | Self::Child { event_id, .. } => *event_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<Event> {
        let number = |(at, (source, kind)): (usize, (Option<u64>, EventKind))| {
            Event::with_event_id(at as u64 + 1, "i", 1, source, kind)
        };
        kinds.into_iter().enumerate().map(number).collect()
    }

    #[test]
    fn a_generated_child_is_told_by_its_whole_id() {
        let child = EventKind::SubOrchestrationScheduled {
            name: "ship".into(),
            instance: "sub::1".into(),
            input: String::new(),
        };
        let waits = waits(&history(vec![(None, child)]));
        let [Wait::Child { instance_id, .. }] = &waits[..] else {
            panic!("one child: {waits:?}");
        };
        assert_eq!(instance_id, "i::sub::1");
    }
}
