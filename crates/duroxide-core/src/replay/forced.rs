//! Ending an execution without running its code: poison, histories that do not fit, commits that cannot succeed.
//!
//! What is open is read off the history, so this way to end cancels and records like every other one. Messages that
//! were claimed with it are recorded before the end, as far as the code would have got them: a retry of the instance
//! has them.

use std::collections::{BTreeMap, HashMap};

use super::cause::FailedBy;
use super::ending::child_reason;
use super::execution::LAST_EVENT_ID;
use super::turn_result::{ChildCancel, Outcome, Turn};
use crate::arrivals::Intake;
use crate::durable::OnClose;
use crate::event::{BUILD_VERSION, ErrorDetails, Event, EventKind};
use crate::work_item::{TERMINATE_PREFIX, WorkItem};

/// The execution that is ended, and when.
#[derive(Debug, Clone, Copy)]
pub struct EndOf<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// Its execution.
    pub execution_id: u64,
    /// Its recorded events. May be empty; the first event then gets id 1.
    pub history: &'a [Event],
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// The turn that fails an execution. `messages` came with the claim: signals, queue messages and successes are
/// recorded.
///
/// ```
/// use duroxide_core::replay::{EndOf, Outcome, fail_without_replay};
/// use duroxide_core::{ErrorDetails, WorkItem};
/// let of = EndOf { instance_id: "order-7", execution_id: 1, history: &[], now_ms: 0 };
/// let signal = WorkItem::ExternalRaised { instance: "order-7".into(), name: "go".into(), data: String::new() };
/// let turn = fail_without_replay(of, vec![signal], ErrorDetails::panicked("oh"));
/// assert_eq!(turn.events.len(), 2);
/// ```
#[must_use]
pub fn fail_without_replay(of: EndOf<'_>, messages: Vec<WorkItem>, details: ErrorDetails) -> Turn {
    let ending = Ending::after(of, messages);
    ending.end(details, false, FailedBy::Decree)
}

/// The turn that terminates an execution, whether its code is here or not: what came with the claim, the request, what
/// is cancelled, and the end as cancelled with this reason. Its children are terminated too.
///
/// ```
/// use duroxide_core::replay::{EndOf, Outcome, terminate_without_replay};
/// let of = EndOf { instance_id: "order-7", execution_id: 1, history: &[], now_ms: 0 };
/// let turn = terminate_without_replay(of, Vec::new(), "no longer wanted");
/// assert!(matches!(turn.outcome, Outcome::Failed { details } if details.display_message() == "canceled: no longer wanted"));
/// ```
#[must_use]
pub fn terminate_without_replay(of: EndOf<'_>, messages: Vec<WorkItem>, reason: &str) -> Turn {
    let mut ending = Ending::after(of, messages);
    let requested = EventKind::OrchestrationCancelRequested {
        reason: format!("{TERMINATE_PREFIX}{reason}"),
    };
    ending.record(None, requested);
    let details = ErrorDetails::cancelled(reason.to_owned());
    ending.end(details, true, FailedBy::Cancellation)
}

/// The last id that a store can hold; ids beyond it are why such a history is ended here.
fn last_event_id(history: &[Event]) -> u64 {
    let ids = history.iter().map(|e| e.event_id);
    ids.filter(|id| *id <= LAST_EVENT_ID).max().unwrap_or(0)
}

struct Ending<'a> {
    of: EndOf<'a>,
    next_id: u64,
    events: Vec<Event>,
}

impl<'a> Ending<'a> {
    /// Begins with what came in.
    fn after(mut of: EndOf<'a>, messages: Vec<WorkItem>) -> Self {
        let last_ms = of.history.last().map_or(0, |last| last.timestamp_ms);
        of.now_ms = of.now_ms.max(last_ms);
        let mut ending = Self {
            of,
            next_id: last_event_id(of.history) + 1,
            events: Vec::new(),
        };
        let mut intake = Intake::of(of.history);
        for message in messages {
            // What becomes no event is asked for anew by a retry, or concerns another execution.
            if let Some((source, kind)) = intake.take(&message) {
                ending.record(source, kind);
            }
        }
        ending
    }

    /// Cancels what is open, and ends.
    fn end(mut self, details: ErrorDetails, terminated: bool, failed_by: FailedBy) -> Turn {
        let mut activities = Vec::new();
        let mut children = Vec::new();
        for (id, open) in open_operations(self.of.history.iter().chain(&self.events)) {
            let ends = || "orchestration_terminal".to_owned();
            let fails = || "orchestration_terminal_failed".to_owned();
            let record = match open {
                Open::Wait(_) => EventKind::ExternalSubscribedCancelled { reason: ends() },
                Open::Dequeue(_) => EventKind::QueueSubscriptionCancelled { reason: ends() },
                Open::Activity => {
                    activities.push(id);
                    EventKind::ActivityCancelRequested { reason: fails() }
                }
                Open::Child {
                    on_close: OnClose::Leave,
                    ..
                } => continue,
                Open::Child { instance, on_close } => {
                    let reason = on_close.reason(child_reason(&details, terminated));
                    children.push(ChildCancel { instance, reason });
                    EventKind::SubOrchestrationCancelRequested { reason: fails() }
                }
            };
            self.record(Some(id), record);
        }
        let failed = EventKind::OrchestrationFailed {
            details: details.clone(),
        };
        self.record(None, failed);
        Turn {
            events: self.events,
            actions: Vec::new(),
            cancelled_activities: activities,
            cancelled_children: children,
            unanswered: Vec::new(),
            outcome: Outcome::Failed { details },
            failed_by: Some(failed_by),
            cancel_for_successor: None,
            holds_queue_messages: false,
            notes: super::notes::Notes::default(),
        }
    }

    fn record(&mut self, source_event_id: Option<u64>, kind: EventKind) {
        self.events.push(Event {
            event_id: self.next_id,
            source_event_id,
            instance_id: self.of.instance_id.to_owned(),
            execution_id: self.of.execution_id,
            timestamp_ms: self.of.now_ms,
            duroxide_version: BUILD_VERSION.to_owned(),
            kind,
        });
        self.next_id += 1;
    }
}

/// An operation that was scheduled and neither answered nor cancelled.
enum Open {
    Activity,
    Child { instance: String, on_close: OnClose },
    Wait(String),
    Dequeue(String),
}

fn open_operations<'a>(history: impl Iterator<Item = &'a Event>) -> BTreeMap<u64, Open> {
    let mut open = BTreeMap::new();
    let mut messages: HashMap<&str, u64> = HashMap::new();
    for event in history {
        match &event.kind {
            EventKind::ActivityScheduled { .. } => {
                open.insert(event.event_id, Open::Activity);
            }
            EventKind::SubOrchestrationScheduled {
                instance, input, ..
            } => {
                let (on_close, _) = OnClose::of_recorded(input);
                let instance = instance.clone();
                open.insert(event.event_id, Open::Child { instance, on_close });
            }
            EventKind::ExternalSubscribed { name } => {
                open.insert(event.event_id, Open::Wait(name.clone()));
            }
            EventKind::ExternalEvent { name, .. } => {
                close_oldest(&mut open, |o| matches!(o, Open::Wait(n) if n == name));
            }
            EventKind::QueueSubscribed { name } => match messages.get_mut(name.as_str()) {
                Some(unread) if *unread > 0 => *unread -= 1,
                _ => {
                    open.insert(event.event_id, Open::Dequeue(name.clone()));
                }
            },
            EventKind::QueueEventDelivered { name, .. } => {
                if !close_oldest(&mut open, |o| matches!(o, Open::Dequeue(n) if n == name)) {
                    *messages.entry(name).or_default() += 1;
                }
            }
            _ => {
                if let Some(source) = event.source_event_id {
                    open.remove(&source);
                }
            }
        }
    }
    open
}

/// Signals and queue messages name no schedule: they answer the oldest one of their name.
fn close_oldest(open: &mut BTreeMap<u64, Open>, answers: impl Fn(&Open) -> bool) -> bool {
    let oldest = open.iter().find(|(_, o)| answers(o)).map(|(id, _)| *id);
    oldest.is_some_and(|id| open.remove(&id).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_without_replay_cancels_exactly_what_is_open() {
        let event = |id, source, kind| Event::with_event_id(id, "i", 1, source, kind);
        let activity = || EventKind::ActivityScheduled {
            name: "a".into(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let history = [
            event(2, None, activity()),
            event(3, None, activity()),
            event(
                4,
                Some(2),
                EventKind::ActivityCompleted {
                    result: String::new(),
                },
            ),
            event(
                5,
                None,
                EventKind::SubOrchestrationScheduled {
                    name: "c".into(),
                    instance: "sub::5".into(),
                    input: String::new(),
                },
            ),
        ];
        let of = EndOf {
            instance_id: "i",
            execution_id: 1,
            history: &history,
            now_ms: 0,
        };
        let turn = fail_without_replay(of, Vec::new(), ErrorDetails::panicked("x"));
        assert_eq!(turn.cancelled_activities, [3]);
        assert_eq!(turn.cancelled_children[0].instance, "sub::5");
        assert_eq!(turn.events.last().map(|e| e.event_id), Some(8));
        assert!(turn.events.last().is_some_and(Event::is_terminal));
        let done = WorkItem::ActivityCompleted {
            instance: "i".into(),
            execution_id: 1,
            id: 3,
            result: "late".into(),
        };
        let turn = fail_without_replay(of, vec![done], ErrorDetails::panicked("x"));
        assert_eq!(turn.events[0].source_event_id, Some(3), "it is recorded");
        assert!(turn.cancelled_activities.is_empty());
    }

    /// A history with one open child of each policy, and one whose policy no record has.
    fn family() -> Vec<Event> {
        let child = |id, instance: &str, input: &str| {
            let kind = EventKind::SubOrchestrationScheduled {
                name: "c".into(),
                instance: instance.into(),
                input: input.into(),
            };
            Event::with_event_id(id, "i", 1, None, kind)
        };
        let recorded = |policy: OnClose| policy.in_front_of("x".to_owned());
        vec![
            child(2, "left", &recorded(OnClose::Leave)),
            child(3, "ended", &recorded(OnClose::Terminate)),
            child(4, "asked", &recorded(OnClose::Cancel)),
            child(5, "older", "x"),
        ]
    }

    fn notified(turn: &Turn) -> Vec<(&str, bool)> {
        let children = turn.cancelled_children.iter();
        let notified = children.map(|one| {
            let terminates = one.reason.starts_with(TERMINATE_PREFIX);
            (one.instance.as_str(), terminates)
        });
        notified.collect()
    }

    #[test]
    fn an_end_without_replay_leaves_abandoned_children_alone() {
        let family = family();
        let of = EndOf {
            instance_id: "i",
            execution_id: 1,
            history: &family,
            now_ms: 0,
        };
        let failed = fail_without_replay(of, Vec::new(), ErrorDetails::panicked("x"));
        let ended = terminate_without_replay(of, Vec::new(), "enough");
        assert_eq!(
            notified(&failed),
            [("ended", true), ("asked", false), ("older", false)]
        );
        assert_eq!(
            notified(&ended),
            [("ended", true), ("asked", true), ("older", true)]
        );
        for turn in [failed, ended] {
            let asked = turn.events.iter().filter(|event| {
                matches!(
                    event.kind,
                    EventKind::SubOrchestrationCancelRequested { .. }
                )
            });
            let sources: Vec<_> = asked.filter_map(|event| event.source_event_id).collect();
            assert_eq!(
                sources,
                [3, 4, 5],
                "nothing is recorded of the one that is left"
            );
            let cause = &turn.cancelled_children[0].reason;
            let twice = format!("{TERMINATE_PREFIX}{TERMINATE_PREFIX}");
            assert!(!cause.starts_with(&twice), "{cause}");
        }
    }
}
