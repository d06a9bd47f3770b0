//! What asks for a rewind. In: the data of a message. Out: a value, and back.

use serde::{Deserialize, Serialize};

use crate::rewound::REWIND_QUEUE;
use crate::work_item::WorkItem;

/// What travels on the engine's queue for rewinds. Any other execution than the one it is meant for takes no notice of it.
///
/// ```
/// use duroxide_core::rewind::RewindMessage;
/// let message = RewindMessage::Rewind { execution_id: 1, from_event_id: Some(7) };
/// assert_eq!(RewindMessage::of(&message.to("order-7")), Some(message));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindMessage {
    /// To an instance that has failed: begin another execution with the part of the failed one before an event. Without effect on an
    /// instance that is not at the end of this very execution.
    Rewind {
        /// The execution that failed.
        execution_id: u64,
        /// The first event that is dropped; `None` leaves the choice to the engine.
        from_event_id: Option<u64>,
    },
    /// To a rewound execution, once: perform what [`Rewound::again`](crate::Rewound::again) lists.
    AskAgain,
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
