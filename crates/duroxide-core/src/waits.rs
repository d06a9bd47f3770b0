//! What a history leaves open. Pure: events in, waits out. An explanation and a query for instances that wait stand on
//! the same rule.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventKind};
use crate::message::is_engine_queue;

/// What kind of thing an instance waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitKind {
    /// The result of an activity; the name is that of the activity.
    Activity,
    /// A timer, which has no name.
    Timer,
    /// A signal; the name is that of the event.
    Signal,
    /// A message of a queue; the name is that of the queue.
    QueueMessage,
    /// The result of a child; the name is that of its handler.
    Child,
}

/// Something that a history asked for and did not get.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenWait {
    /// The event that began the wait.
    pub event_id: u64,
    /// The kind of thing.
    pub kind: WaitKind,
    /// Its name; timers have none.
    pub name: Option<String>,
}

/// What an execution with this history waits for, in the order of asking; nothing once it has ended. A timer that the
/// code no longer waits for (the loser of a select) is open until it is due: histories do not record that.
///
/// ```
/// use duroxide_core::{Event, EventKind, WaitKind, open_waits};
/// let asked = EventKind::ExternalSubscribed { name: "approval".into() };
/// let history = [Event::with_event_id(1, "order-7", 1, None, asked)];
/// let waits = open_waits(&history);
/// assert_eq!(waits[0].kind, WaitKind::Signal);
/// assert_eq!(waits[0].name.as_deref(), Some("approval"));
/// ```
#[must_use]
pub fn open_waits(history: &[Event]) -> Vec<OpenWait> {
    let mut open = Open::default();
    for event in history {
        open.take(event);
    }
    open.waits.into_values().collect()
}

/// Waits that are open so far, and what arrived before a wait was recorded.
#[derive(Default)]
struct Open {
    /// By the event that began them, which is their order.
    waits: BTreeMap<u64, OpenWait>,
    /// Waits for signals, by name, oldest first; those that are not open any more are passed over.
    signals: HashMap<String, VecDeque<u64>>,
    /// The same for queues.
    queues: HashMap<String, VecDeque<u64>>,
    /// Queue messages that were delivered and not asked for, by queue.
    unread: HashMap<String, usize>,
}

impl Open {
    fn take(&mut self, event: &Event) {
        let event_id = event.event_id;
        match &event.kind {
            EventKind::OrchestrationStarted {
                carry_forward_events,
                ..
            } => {
                let carried = carry_forward_events.iter().flatten();
                for (name, _) in carried.filter(|(name, _)| !is_engine_queue(name)) {
                    *self.unread.entry(name.clone()).or_default() += 1;
                }
            }
            EventKind::ActivityScheduled { name, .. } => {
                self.begin(event_id, WaitKind::Activity, Some(name));
            }
            EventKind::TimerCreated { .. } => self.begin(event_id, WaitKind::Timer, None),
            EventKind::ExternalSubscribed { name } => {
                let asked = self.signals.entry(name.clone()).or_default();
                asked.push_back(event_id);
                self.begin(event_id, WaitKind::Signal, Some(name));
            }
            EventKind::QueueSubscribed { name } => self.ask_queue(event_id, name),
            EventKind::SubOrchestrationScheduled { name, .. } => {
                self.begin(event_id, WaitKind::Child, Some(name));
            }
            EventKind::ExternalEvent { name, .. } => {
                close_first(&mut self.waits, self.signals.get_mut(name));
            }
            EventKind::QueueEventDelivered { name, .. } if is_engine_queue(name) => {}
            EventKind::QueueEventDelivered { name, .. } => {
                let is_taken = close_first(&mut self.waits, self.queues.get_mut(name));
                if !is_taken {
                    *self.unread.entry(name.clone()).or_default() += 1;
                }
            }
            EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::ActivityCancelRequested { .. }
            | EventKind::TimerFired { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::SubOrchestrationCancelRequested { .. } => {
                if let Some(source) = event.source_event_id {
                    self.waits.remove(&source);
                }
            }
            EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. } => self.waits.clear(),
            _ => {}
        }
    }

    fn begin(&mut self, event_id: u64, kind: WaitKind, name: Option<&str>) {
        let name = name.map(str::to_owned);
        let wait = OpenWait {
            event_id,
            kind,
            name,
        };
        self.waits.insert(event_id, wait);
    }

    /// A message that came before is taken at once.
    fn ask_queue(&mut self, event_id: u64, name: &str) {
        match self.unread.get_mut(name) {
            Some(unread) if *unread > 0 => *unread -= 1,
            _ => {
                let asked = self.queues.entry(name.to_owned()).or_default();
                asked.push_back(event_id);
                self.begin(event_id, WaitKind::QueueMessage, Some(name));
            }
        }
    }
}

/// Closes the oldest wait of a name that is still open; returns whether there was one.
fn close_first(waits: &mut BTreeMap<u64, OpenWait>, asked: Option<&mut VecDeque<u64>>) -> bool {
    let Some(asked) = asked else {
        return false;
    };
    while let Some(event_id) = asked.pop_front() {
        if waits.remove(&event_id).is_some() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_ids(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<u64> {
        let number = |(at, (source, kind)): (usize, (Option<u64>, EventKind))| {
            Event::with_event_id(at as u64 + 1, "i", 1, source, kind)
        };
        let history: Vec<Event> = kinds.into_iter().enumerate().map(number).collect();
        let waits = open_waits(&history);
        waits.iter().map(|wait| wait.event_id).collect()
    }

    fn dequeue() -> (Option<u64>, EventKind) {
        let name = "inbox".to_owned();
        (None, EventKind::QueueSubscribed { name })
    }

    fn message() -> (Option<u64>, EventKind) {
        let (name, data) = ("inbox".to_owned(), String::new());
        (None, EventKind::QueueEventDelivered { name, data })
    }

    fn timer() -> (Option<u64>, EventKind) {
        (None, EventKind::TimerCreated { fire_at_ms: 9 })
    }

    #[test]
    fn an_answer_closes_the_wait_it_answers() {
        let fired = (Some(1), EventKind::TimerFired { fire_at_ms: 9 });
        assert_eq!(open_ids(vec![timer(), timer()]), [1, 2]);
        assert_eq!(open_ids(vec![timer(), timer(), fired]), [2]);
    }

    #[test]
    fn what_has_ended_waits_for_nothing() {
        let output = String::new();
        let ended = (None, EventKind::OrchestrationCompleted { output });
        assert_eq!(open_ids(vec![timer(), ended]), Vec::<u64>::new());
    }

    #[test]
    fn a_message_that_came_first_is_not_waited_for() {
        assert_eq!(open_ids(vec![message(), dequeue()]), Vec::<u64>::new());
        assert_eq!(open_ids(vec![message(), dequeue(), dequeue()]), [3]);
        assert_eq!(open_ids(vec![dequeue(), message()]), Vec::<u64>::new());
        let dropped = EventKind::QueueSubscriptionCancelled {
            reason: "dropped_future".into(),
        };
        assert_eq!(
            open_ids(vec![dequeue(), (Some(1), dropped)]),
            Vec::<u64>::new()
        );
    }

    #[test]
    fn a_wait_that_was_given_up_takes_no_message() {
        let dropped = EventKind::QueueSubscriptionCancelled {
            reason: "dropped_future".into(),
        };
        let kinds = vec![dequeue(), dequeue(), (Some(1), dropped), message()];
        assert_eq!(open_ids(kinds), Vec::<u64>::new());
    }

    #[test]
    fn signals_of_a_name_are_answered_in_order() {
        let wait = |name: &str| (None, EventKind::ExternalSubscribed { name: name.into() });
        let signal = |name: &str| {
            let (name, data) = (name.to_owned(), String::new());
            (None, EventKind::ExternalEvent { name, data })
        };
        let kinds = vec![wait("a"), wait("b"), wait("a"), signal("a")];
        assert_eq!(open_ids(kinds), [2, 3]);
    }
}
