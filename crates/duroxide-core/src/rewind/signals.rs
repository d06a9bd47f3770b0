//! Signals that a rewind hands on. In: the history of a failed execution. Out: name and data of those that would be
//! lost otherwise.
//!
//! A signal names no operation: it reaches the wait that is open when it comes. One of the dropped part that had
//! reached a wait comes before the code asks for that wait again, so the next execution carries it. A signal that
//! reached no wait stays lost. Exception: if the execution was ended without running its code, the rewind carries it,
//! because the code might have waited for it.

use std::collections::HashMap;

use crate::event::{Event, EventKind};
use crate::rewound::Rewound;

/// The signals to carry if a history is cut at this place, in the order in which they came: those that the failed
/// execution carried itself, then its own.
pub(super) fn carried(history: &[Event], place: usize, earlier: &Rewound) -> Vec<(String, String)> {
    let mut carried = earlier.signals.clone();
    // What the record shares with an earlier one was looked at when that was rewound.
    let shared = earlier.shares.first().map_or(0, |(_, last)| *last);
    let last_decision = history.iter().rposition(is_decision).unwrap_or(0);
    let mut waits = Waits::default();
    for (at, event) in history.iter().enumerate() {
        let reached = waits.read(event);
        let EventKind::ExternalEvent { name, data } = &event.kind else {
            continue;
        };
        let is_lost = if reached {
            at >= place
        } else {
            at > last_decision
        };
        // One that names its wait was carried.
        let is_own = event.source_event_id.is_none() && event.event_id > shared;
        if is_lost && is_own {
            carried.push((name.clone(), data.clone()));
        }
    }
    carried
}

/// Open waits, by name.
#[derive(Default)]
struct Waits {
    open: HashMap<u64, String>,
}

impl Waits {
    /// Takes an event in; returns whether it is a signal that reached a wait.
    fn read(&mut self, event: &Event) -> bool {
        match &event.kind {
            EventKind::ExternalSubscribed { name } => {
                self.open.insert(event.event_id, name.clone());
                false
            }
            EventKind::ExternalSubscribedCancelled { .. } => {
                let wait = event.source_event_id.unwrap_or_default();
                self.open.remove(&wait);
                false
            }
            EventKind::ExternalEvent { name, .. } => {
                let waiting = self.open.iter().filter(|(_, awaited)| *awaited == name);
                let oldest = waiting.map(|(wait, _)| *wait).min();
                oldest.is_some_and(|wait| self.open.remove(&wait).is_some())
            }
            _ => false,
        }
    }
}

/// Whether the code decided this, rather than the outside or its end.
fn is_decision(event: &Event) -> bool {
    let ends = |reason: &str| reason.starts_with("orchestration_terminal");
    match &event.kind {
        EventKind::ActivityCancelRequested { reason }
        | EventKind::SubOrchestrationCancelRequested { reason }
        | EventKind::ExternalSubscribedCancelled { reason }
        | EventKind::QueueSubscriptionCancelled { reason } => !ends(reason),
        kind => !kind.is_arrival() && !event.is_terminal(),
    }
}
