//! Facts that can be read off a history without replaying it.

use super::{Event, EventKind};

impl Event {
    /// Name and version of the handler, if this event began an execution.
    #[must_use]
    pub fn started_handler(&self) -> Option<(String, String)> {
        match &self.kind {
            EventKind::OrchestrationStarted { name, version, .. } => {
                Some((name.clone(), version.clone()))
            }
            _ => None,
        }
    }

    /// About how many bytes of payload the event carries; names and numbers are left out.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match &self.kind {
            EventKind::OrchestrationStarted {
                input,
                carry_forward_events,
                ..
            } => {
                let carried = carry_forward_events.iter().flatten();
                input.len() + carried.map(|(_, data)| data.len()).sum::<usize>()
            }
            EventKind::OrchestrationCompleted { output: text }
            | EventKind::OrchestrationContinuedAsNew { input: text }
            | EventKind::OrchestrationChained { input: text, .. }
            | EventKind::ActivityScheduled { input: text, .. }
            | EventKind::ActivityCompleted { result: text }
            | EventKind::ExternalEvent { data: text, .. }
            | EventKind::QueueEventDelivered { data: text, .. }
            | EventKind::SubOrchestrationScheduled { input: text, .. }
            | EventKind::SubOrchestrationCompleted { result: text }
            | EventKind::KeyValueSet { value: text, .. } => text.len(),
            _ => 0,
        }
    }
}

/// Whether an execution with this history waits for a positional signal of this name: the next one would be delivered.
#[must_use]
pub fn awaits_signal(history: &[Event], name: &str) -> bool {
    let mut waiting = std::collections::VecDeque::new();
    for event in history {
        match &event.kind {
            EventKind::ExternalSubscribed { name: n } if n == name => {
                waiting.push_back(event.event_id);
            }
            EventKind::ExternalEvent { name: n, .. } if n == name => {
                waiting.pop_front();
            }
            EventKind::ExternalSubscribedCancelled { .. } => {
                waiting.retain(|id| Some(*id) != event.source_event_id);
            }
            _ if event.is_terminal() => return false,
            _ => {}
        }
    }
    !waiting.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
        Event::with_event_id(id, "i", 1, source, kind)
    }

    fn subscribed(id: u64, name: &str) -> Event {
        let name = name.to_owned();
        event(id, None, EventKind::ExternalSubscribed { name })
    }

    #[test]
    fn a_signal_is_awaited_while_a_wait_of_its_name_is_open() {
        let mut history = vec![subscribed(2, "go")];
        assert!(awaits_signal(&history, "go"));
        assert!(!awaits_signal(&history, "stop"));
        let (name, data) = ("go".to_owned(), String::new());
        history.push(event(3, None, EventKind::ExternalEvent { name, data }));
        assert!(!awaits_signal(&history, "go"));
    }

    #[test]
    fn a_dropped_wait_awaits_nothing() {
        let reason = "dropped_future".to_owned();
        let dropped = EventKind::ExternalSubscribedCancelled { reason };
        let history = [subscribed(2, "go"), event(3, Some(2), dropped)];
        assert!(!awaits_signal(&history, "go"));
    }
}
