//! What a rewind keeps, sends and asks for anew, on histories written by hand.

mod plans;
mod points;
mod signals;

use super::{Child, ChildStanding, NoRewind, RewindMessage, RewindPoint, plan};
use crate::event::{AppErrorKind, ErrorDetails, Event, EventKind};
use crate::message::{KEYS_QUEUE, keyed_message};
use crate::rewound::Rewound;
use crate::start::{START_QUEUE, StartExtras};
use crate::work_item::WorkItem;

/// A history of execution 1 of `order`, one event after the other.
struct History(Vec<Event>);

impl History {
    fn begun() -> Self {
        let started = EventKind::OrchestrationStarted {
            name: "order".into(),
            version: "1.0.0".into(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: Some("new".into()),
        };
        Self(Vec::new()).and(None, started)
    }

    fn and(mut self, source: Option<u64>, kind: EventKind) -> Self {
        let id = self.0.len() as u64 + 1;
        self.0
            .push(Event::with_event_id(id, "order", 1, source, kind));
        self
    }

    fn activity(self, name: &str) -> Self {
        let kind = EventKind::ActivityScheduled {
            name: name.into(),
            input: "x".into(),
            session_id: None,
            tag: None,
        };
        self.and(None, kind)
    }

    fn done(self, id: u64) -> Self {
        let result = format!("result of {id}");
        self.and(Some(id), EventKind::ActivityCompleted { result })
    }

    fn failed(self, id: u64) -> Self {
        let details = ErrorDetails::activity_failed("no");
        self.and(Some(id), EventKind::ActivityFailed { details })
    }

    fn cancelled(self, id: u64) -> Self {
        let reason = "orchestration_terminal_failed".into();
        self.and(Some(id), EventKind::ActivityCancelRequested { reason })
    }

    fn child(self) -> Self {
        let kind = EventKind::SubOrchestrationScheduled {
            name: "child".into(),
            instance: "sub::2".into(),
            input: String::new(),
        };
        self.and(None, kind)
    }

    fn label(self, value: &str) -> Self {
        let kind = EventKind::KeyValueSet {
            key: "duroxide:label:stage".into(),
            value: value.into(),
            last_updated_at_ms: 1,
        };
        self.and(None, kind)
    }

    fn ends(self, details: ErrorDetails) -> Self {
        self.and(None, EventKind::OrchestrationFailed { details })
    }

    fn ends_with_error(self) -> Self {
        self.ends(ErrorDetails::orchestration_failed("no"))
    }

    fn from(&self, point: RewindPoint) -> u64 {
        plan(&self.0, point).expect("a failed one").from_event_id
    }
}

fn ids(of: &super::Rewind) -> Vec<u64> {
    of.again.iter().map(|work| work.event_id).collect()
}

fn nothing_born(_: &Child) -> ChildStanding {
    ChildStanding::Unborn
}

fn message(queue: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: "order".into(),
        name: queue.into(),
        data: data.into(),
    }
}

fn delivered(queue: &str, data: &str) -> EventKind {
    EventKind::QueueEventDelivered {
        name: queue.into(),
        data: data.into(),
    }
}
