//! What a history leaves open. Pure: events in, waits out.

use std::collections::{BTreeMap, HashMap, VecDeque};

use duroxide_core::{Event, EventKind, build_child_instance_id, is_engine_queue};

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
    waits: BTreeMap<u64, Wait>,
    /// Waits for signals, by name, oldest first; those that are not open any more are passed over.
    signals: HashMap<String, VecDeque<u64>>,
    /// The same for queues.
    queues: HashMap<String, VecDeque<u64>>,
    /// Queue messages that were delivered and not asked for, by queue.
    unread: HashMap<String, usize>,
}

impl Open {
    fn take(&mut self, event: &Event) {
        let (event_id, since_ms) = (event.event_id, event.timestamp_ms);
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
            EventKind::ActivityScheduled {
                name,
                session_id,
                tag,
                ..
            } => self.begin(Wait::Activity {
                event_id,
                name: name.clone(),
                tag: tag.clone(),
                session: session_id.clone(),
                since_ms,
                place: ActivityPlace::Unknown,
            }),
            EventKind::TimerCreated { fire_at_ms } => self.begin(Wait::Timer {
                event_id,
                due_ms: *fire_at_ms,
                since_ms,
            }),
            EventKind::ExternalSubscribed { name } => {
                let name = name.clone();
                self.signals
                    .entry(name.clone())
                    .or_default()
                    .push_back(event_id);
                self.begin(Wait::Signal {
                    event_id,
                    name,
                    since_ms,
                });
            }
            EventKind::QueueSubscribed { name } => self.ask_queue(event, name),
            EventKind::SubOrchestrationScheduled { name, instance, .. } => {
                self.begin(Wait::Child {
                    event_id,
                    name: name.clone(),
                    instance_id: build_child_instance_id(&event.instance_id, instance),
                    since_ms,
                    why: None,
                });
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
            _ => {}
        }
    }

    fn begin(&mut self, wait: Wait) {
        self.waits.insert(wait.event_id(), wait);
    }

    /// A message that came before is taken at once.
    fn ask_queue(&mut self, event: &Event, name: &str) {
        match self.unread.get_mut(name) {
            Some(unread) if *unread > 0 => *unread -= 1,
            _ => {
                let asked = self.queues.entry(name.to_owned()).or_default();
                asked.push_back(event.event_id);
                self.begin(Wait::Queue {
                    event_id: event.event_id,
                    name: name.to_owned(),
                    since_ms: event.timestamp_ms,
                });
            }
        }
    }
}

/// Closes the oldest wait of a name that is still open; returns whether there was one.
fn close_first(waits: &mut BTreeMap<u64, Wait>, asked: Option<&mut VecDeque<u64>>) -> bool {
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

    fn open_ids(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<u64> {
        waits(&history(kinds)).iter().map(Wait::event_id).collect()
    }

    fn dequeue() -> (Option<u64>, EventKind) {
        let name = "inbox".to_owned();
        (None, EventKind::QueueSubscribed { name })
    }

    fn message() -> (Option<u64>, EventKind) {
        let (name, data) = ("inbox".to_owned(), String::new());
        (None, EventKind::QueueEventDelivered { name, data })
    }

    #[test]
    fn an_answer_closes_the_wait_it_answers() {
        let timer = || (None, EventKind::TimerCreated { fire_at_ms: 9 });
        let fired = (Some(1), EventKind::TimerFired { fire_at_ms: 9 });
        assert_eq!(open_ids(vec![timer(), timer()]), [1, 2]);
        assert_eq!(open_ids(vec![timer(), timer(), fired]), [2]);
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
