//! What asks for a rewind. In: the data of a message. Out: a value, and back.

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::rewound::REWIND_QUEUE;
use crate::work_item::WorkItem;

/// What travels on the engine's queue for rewinds. Any other execution than the one it is meant for takes no notice of
/// it.
///
/// ```
/// use duroxide_core::rewind::RewindMessage;
/// let message = RewindMessage::Rewind { execution_id: 1, from_event_id: Some(7), failure: None };
/// assert_eq!(RewindMessage::of(&message.to("order-7")), Some(message));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindMessage {
    /// To an instance that has failed: begin another execution with the part of the failed one before an event. Without
    /// effect on an instance that is not at the end of this very execution.
    Rewind {
        /// The execution that failed.
        execution_id: u64,
        /// The first event that is dropped; `None` leaves the choice to the engine.
        from_event_id: Option<u64>,
        /// Which failure of that execution: the id may have lived before. `None` means any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<FailureMark>,
    },
    /// To a rewound execution, once: perform what [`Rewound::again`](crate::Rewound::again) lists.
    AskAgain,
}

/// What tells a failure from that of another life of the same id, which may fail in the same execution: the number and
/// the time of the event that ended it.
///
/// ```
/// use duroxide_core::rewind::FailureMark;
/// assert_eq!(FailureMark::of(&[]), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureMark {
    event_id: u64,
    timestamp_ms: u64,
}

impl FailureMark {
    /// The mark of the end of an execution; `None` while it has not ended.
    #[must_use]
    pub fn of(history: &[Event]) -> Option<Self> {
        let end = history.iter().rfind(|event| event.is_terminal())?;
        Some(Self {
            event_id: end.event_id,
            timestamp_ms: end.timestamp_ms,
        })
    }
}

impl RewindMessage {
    /// The message among the work items of a claim; `None` for any other.
    #[must_use]
    pub fn of(item: &WorkItem) -> Option<Self> {
        match item {
            WorkItem::QueueMessage { name, data, .. } if name == REWIND_QUEUE => Self::read(data),
            _ => None,
        }
    }

    pub(crate) fn read(data: &str) -> Option<Self> {
        serde_json::from_str(data).ok()
    }

    /// As a work item for an instance.
    #[must_use]
    pub fn to(&self, instance: impl Into<String>) -> WorkItem {
        WorkItem::QueueMessage {
            instance: instance.into(),
            name: REWIND_QUEUE.to_owned(),
            data: serde_json::to_string(self).expect("numbers are JSON"),
        }
    }
}
