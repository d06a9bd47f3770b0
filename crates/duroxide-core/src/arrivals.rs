//! Messages that come in while no code runs: at an end that is decided without the code, and at a rewind. In: the
//! record so far, and the claimed messages. Out: the events that they become, in their order, and the messages that
//! become none. Never: the answer of a failed operation, which a retry asks for anew.

use std::collections::HashMap;

use crate::event::{Event, EventKind};
use crate::ids::INITIAL_EXECUTION_ID;
use crate::message::{SeenKeys, is_engine_queue, message_parts};
use crate::rewound::Rewound;
use crate::work_item::WorkItem;

/// An event that is to be recorded, with the operation that it answers.
pub(crate) type Arrival = (Option<u64>, EventKind);

/// What a record says about the messages that it can take in.
pub(crate) struct Intake {
    execution_id: u64,
    rewound: Option<Rewound>,
    open: HashMap<u64, Answers>,
    keys: SeenKeys,
}

/// What kind of answer an open operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Activity,
    Timer,
    Child,
}

impl Intake {
    /// What is open where this record ends, and which keys it has seen.
    pub(crate) fn of<'a>(history: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut intake = Self {
            execution_id: INITIAL_EXECUTION_ID,
            rewound: None,
            open: HashMap::new(),
            keys: SeenKeys::default(),
        };
        for event in history {
            intake.read(event);
        }
        intake
    }

    fn read(&mut self, event: &Event) {
        let opened = match &event.kind {
            EventKind::OrchestrationStarted { .. } => {
                self.execution_id = event.execution_id;
                self.rewound = Rewound::recorded_in(&event.kind);
                None
            }
            EventKind::QueueEventDelivered { name, data } => {
                self.keys.note(name, data);
                None
            }
            EventKind::ActivityScheduled { .. } => Some(Answers::Activity),
            EventKind::TimerCreated { .. } => Some(Answers::Timer),
            EventKind::SubOrchestrationScheduled { .. } => Some(Answers::Child),
            _ => None,
        };
        match (opened, event.source_event_id) {
            (Some(answers), _) => self.open.insert(event.event_id, answers),
            (None, Some(answered)) => self.open.remove(&answered),
            (None, None) => None,
        };
    }

    /// The event that a message becomes, if it becomes one.
    pub(crate) fn take(&mut self, message: &WorkItem) -> Option<Arrival> {
        let (answers, kind) = match message {
            WorkItem::ExternalRaised { name, data, .. } => {
                let (name, data) = (name.clone(), data.clone());
                return Some((None, EventKind::ExternalEvent { name, data }));
            }
            WorkItem::QueueMessage { name, data, .. } if self.is_new(name, data) => {
                self.keys.note(name, data);
                let (name, data) = (name.clone(), data.clone());
                return Some((None, EventKind::QueueEventDelivered { name, data }));
            }
            WorkItem::ActivityCompleted { result, .. } => {
                let result = result.clone();
                (Answers::Activity, EventKind::ActivityCompleted { result })
            }
            WorkItem::TimerFired { fire_at_ms, .. } => {
                let fire_at_ms = *fire_at_ms;
                (Answers::Timer, EventKind::TimerFired { fire_at_ms })
            }
            WorkItem::SubOrchCompleted { result, .. } => {
                let result = result.clone();
                let kind = EventKind::SubOrchestrationCompleted { result };
                (Answers::Child, kind)
            }
            _ => return None,
        };
        let (execution_id, id) = message.answers()?;
        let is_open = self.open.get(&id) == Some(&answers) && self.is_own(execution_id, id);
        is_open.then(|| {
            self.open.remove(&id);
            (Some(id), kind)
        })
    }

    /// Whether the code would get a queue message: not if its key was seen, and not from a queue of the engine.
    fn is_new(&self, queue: &str, data: &str) -> bool {
        let key = message_parts(data).0;
        let is_repeated = key.is_some_and(|key| self.keys.contains(queue, key));
        !is_repeated && !is_engine_queue(queue)
    }

    fn is_own(&self, execution_id: u64, event_id: u64) -> bool {
        let shares = |it: &Rewound| it.shares(execution_id, event_id);
        execution_id == self.execution_id || self.rewound.as_ref().is_some_and(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ErrorDetails;
    use crate::message::keyed_message;

    fn message(data: &str) -> WorkItem {
        WorkItem::QueueMessage {
            instance: "i".into(),
            name: "orders".into(),
            data: data.into(),
        }
    }

    fn done(execution_id: u64, id: u64) -> WorkItem {
        WorkItem::ActivityCompleted {
            instance: "i".into(),
            execution_id,
            id,
            result: "r".into(),
        }
    }

    fn begun() -> Vec<Event> {
        let event = |id, kind| Event::with_event_id(id, "i", 1, None, kind);
        let scheduled = |name: &str| EventKind::ActivityScheduled {
            name: name.into(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let seen = EventKind::QueueEventDelivered {
            name: "orders".into(),
            data: keyed_message("k", "one"),
        };
        vec![event(2, scheduled("a")), event(3, seen)]
    }

    #[test]
    fn a_success_counts_once_and_only_for_what_is_open() {
        let mut intake = Intake::of(&begun());
        assert!(intake.take(&done(2, 2)).is_none(), "of another execution");
        assert!(intake.take(&done(1, 7)).is_none(), "never scheduled");
        assert_eq!(intake.take(&done(1, 2)).map(|it| it.0), Some(Some(2)));
        assert!(intake.take(&done(1, 2)).is_none(), "answered");
        let fired = WorkItem::TimerFired {
            instance: "i".into(),
            execution_id: 1,
            id: 2,
            fire_at_ms: 7,
        };
        assert!(
            Intake::of(&begun()).take(&fired).is_none(),
            "of another kind"
        );
    }

    #[test]
    fn a_failure_is_left_to_the_retry() {
        let failed = WorkItem::ActivityFailed {
            instance: "i".into(),
            execution_id: 1,
            id: 2,
            details: ErrorDetails::activity_failed("no"),
        };
        assert!(Intake::of(&begun()).take(&failed).is_none());
    }

    #[test]
    fn a_queue_message_is_taken_once_and_the_engines_own_are_not() {
        let mut intake = Intake::of(&begun());
        assert!(
            intake
                .take(&message(&keyed_message("k", "again")))
                .is_none()
        );
        assert!(intake.take(&message(&keyed_message("l", "two"))).is_some());
        assert!(intake.take(&message(&keyed_message("l", "two"))).is_none());
        assert!(intake.take(&message("plain")).is_some());
        assert!(intake.take(&message("plain")).is_some());
        let own = WorkItem::QueueMessage {
            instance: "i".into(),
            name: crate::rewound::REWIND_QUEUE.into(),
            data: String::new(),
        };
        assert!(intake.take(&own).is_none());
    }
}
