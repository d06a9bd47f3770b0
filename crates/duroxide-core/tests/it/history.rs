//! Builds messages and histories by hand.

use duroxide_core::{ErrorDetails, Event, EventKind, PoisonMessageType, WorkItem};

/// The instance of every test.
pub(crate) const INSTANCE: &str = "inst";

/// The time of the first event of a built history.
pub(crate) const EPOCH_MS: u64 = 1_700_000_000_000;

/// Collects events with consecutive ids.
#[derive(Debug, Clone)]
pub(crate) struct History {
    events: Vec<Event>,
}

impl History {
    /// A history that begins with `OrchestrationStarted`.
    pub(crate) fn started(input: &str) -> Self {
        Self { events: Vec::new() }.with(EventKind::OrchestrationStarted {
            name: "Test".into(),
            version: "1.0.0".into(),
            input: input.into(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        })
    }

    /// Adds an event that answers nothing.
    pub(crate) fn with(self, kind: EventKind) -> Self {
        self.push(None, kind)
    }

    /// Adds an event that belongs to the schedule with this id.
    pub(crate) fn answering(self, source: u64, kind: EventKind) -> Self {
        self.push(Some(source), kind)
    }

    fn push(mut self, source_event_id: Option<u64>, kind: EventKind) -> Self {
        let event_id = self.events.len() as u64 + 1;
        self.events.push(event(event_id, source_event_id, kind));
        self
    }

    pub(crate) fn activity(self, name: &str, input: &str) -> Self {
        self.with(EventKind::ActivityScheduled {
            name: name.into(),
            input: input.into(),
            session_id: None,
            tag: None,
        })
    }

    pub(crate) fn activity_completed(self, source: u64, result: &str) -> Self {
        self.answering(
            source,
            EventKind::ActivityCompleted {
                result: result.into(),
            },
        )
    }

    pub(crate) fn events(self) -> Vec<Event> {
        self.events
    }
}

/// One event of the test instance.
pub(crate) fn event(event_id: u64, source_event_id: Option<u64>, kind: EventKind) -> Event {
    Event {
        event_id,
        source_event_id,
        instance_id: INSTANCE.into(),
        execution_id: 1,
        timestamp_ms: EPOCH_MS.saturating_add(event_id),
        duroxide_version: "0.2.0".into(),
        kind,
    }
}

pub(crate) fn completed(id: u64, result: &str) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: INSTANCE.into(),
        execution_id: 1,
        id,
        result: result.into(),
    }
}

pub(crate) fn failed(id: u64, message: &str) -> WorkItem {
    failed_with(id, ErrorDetails::activity_failed(message))
}

pub(crate) fn failed_with(id: u64, details: ErrorDetails) -> WorkItem {
    WorkItem::ActivityFailed {
        instance: INSTANCE.into(),
        execution_id: 1,
        id,
        details,
    }
}

pub(crate) fn fired(id: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: INSTANCE.into(),
        execution_id: 1,
        id,
        fire_at_ms: EPOCH_MS,
    }
}

pub(crate) fn child_completed(parent_id: u64, result: &str) -> WorkItem {
    WorkItem::SubOrchCompleted {
        parent_instance: INSTANCE.into(),
        parent_execution_id: 1,
        parent_id,
        result: result.into(),
    }
}

pub(crate) fn child_failed(parent_id: u64, details: ErrorDetails) -> WorkItem {
    WorkItem::SubOrchFailed {
        parent_instance: INSTANCE.into(),
        parent_execution_id: 1,
        parent_id,
        details,
    }
}

pub(crate) fn signal(name: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: INSTANCE.into(),
        name: name.into(),
        data: data.into(),
    }
}

pub(crate) fn queue_message(queue: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: INSTANCE.into(),
        name: queue.into(),
        data: data.into(),
    }
}

pub(crate) fn cancel(reason: &str) -> WorkItem {
    WorkItem::CancelInstance {
        instance: INSTANCE.into(),
        reason: reason.into(),
    }
}

/// The same message, addressed to another execution.
pub(crate) fn in_execution(execution: u64, message: WorkItem) -> WorkItem {
    let mut message = message;
    match &mut message {
        WorkItem::ActivityCompleted { execution_id, .. }
        | WorkItem::ActivityFailed { execution_id, .. }
        | WorkItem::TimerFired { execution_id, .. } => *execution_id = execution,
        WorkItem::SubOrchCompleted {
            parent_execution_id,
            ..
        }
        | WorkItem::SubOrchFailed {
            parent_execution_id,
            ..
        } => *parent_execution_id = execution,
        _ => {}
    }
    message
}

/// A failure that is not the author's to handle.
pub(crate) fn poison(activity_id: u64) -> ErrorDetails {
    ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Activity {
            instance: INSTANCE.into(),
            execution_id: 1,
            activity_name: "A".into(),
            activity_id,
        },
        message: "{}".into(),
    }
}
