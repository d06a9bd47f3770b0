//! The parts of a snapshot that lie in queues: messages, activities, dead letters.

use serde::{Deserialize, Serialize};

use super::record::StoredIncarnation;

/// A message that no turn has taken in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// JSON of a [`WorkItem`](crate::WorkItem), as its store keeps it: also one that cannot be read comes along.
    pub json: String,
    /// Time from which it can be claimed, in milliseconds since the Unix epoch.
    pub visible_at_ms: u64,
    /// Number of claims so far.
    #[serde(default)]
    pub attempts: u32,
    /// The life of the instance that decided it, if it is a start that an instance decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_by: Option<StoredIncarnation>,
    /// Known facts of it beside its text, if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting: Option<Awaiting>,
}

/// What a store knows of a message without reading it: the operation that waits for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaiting {
    /// The kind of work item, as [`WorkItem::kind_name`](crate::WorkItem::kind_name) says it; see
    /// [`operation`](Self::operation).
    pub kind: String,
    /// The execution of the operation.
    pub execution_id: u64,
    /// The event that scheduled the operation.
    pub operation_id: u64,
    /// The instance that waits for it, if it is the start of a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Awaiting {
    /// The kind under which every store lists a message: whether an unreadable result was a success is not known.
    ///
    /// ```
    /// use duroxide_core::provider::Awaiting;
    /// assert_eq!(Awaiting::operation("ActivityFailed"), "ActivityCompleted");
    /// assert_eq!(Awaiting::operation("TimerFired"), "TimerFired");
    /// ```
    #[must_use]
    pub fn operation(kind: &str) -> &str {
        match kind {
            "ActivityFailed" => "ActivityCompleted",
            "SubOrchFailed" => "SubOrchCompleted",
            other => other,
        }
    }
}

/// An activity that has not been acknowledged. One that was cancelled is not in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedActivity {
    /// JSON of a [`WorkItem`](crate::WorkItem), as its store keeps it: also one that cannot be read comes along.
    pub json: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The event that scheduled it.
    pub activity_id: u64,
    /// Name of the activity; `None` if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The session it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Time from which it can be claimed, in milliseconds since the Unix epoch.
    pub visible_at_ms: u64,
    /// Number of claims so far.
    #[serde(default)]
    pub attempts: u32,
    /// The life of the instance that scheduled it.
    #[serde(rename = "life", default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<StoredIncarnation>,
}

/// A dead letter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterRecord {
    /// The queue that it was in.
    pub queue: String,
    /// Its text, as it was queued.
    pub payload: String,
    /// Reason for which it was dead-lettered.
    pub reason: String,
    /// Time at which it was dead-lettered, in milliseconds since the Unix epoch.
    #[serde(rename = "set_aside_at_ms")]
    pub dead_lettered_at_ms: u64,
    /// The life of the instance that it was for, as far as that is known.
    #[serde(rename = "life", default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<StoredIncarnation>,
    /// Whether the instance got a failure in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
}
