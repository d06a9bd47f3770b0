//! What takes the place of stored text that does not decode, so that the operation that waits for it ends. In: what the
//! row says beside its text. Out: a message that the waiting instance can read.

use crate::event::ErrorDetails;
use crate::work_item::WorkItem;

/// What the row of a message says beside its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableMessage<'a> {
    /// The instance that the message is for.
    pub instance: &'a str,
    /// The kind of the message, as [`WorkItem::kind_name`] has it.
    pub kind: &'a str,
    /// Execution and scheduling event of the operation that waits for it, if any; see [`WorkItem::answers`].
    pub answers: Option<(u64, u64)>,
    /// Time at which the message was due, in milliseconds.
    pub visible_at_ms: u64,
    /// The parent that still waits, if it is the start of a child.
    pub parent: Option<&'a str>,
}

impl UnreadableMessage<'_> {
    /// The message that takes its place: a result fails the operation that waits for it, and so does the start of a
    /// child; a timer fires. `None` if nothing waits.
    ///
    /// ```
    /// use duroxide_core::{WorkItem, provider::rules::UnreadableMessage};
    /// let row = UnreadableMessage {
    ///     instance: "order-7",
    ///     kind: "TimerFired",
    ///     answers: Some((1, 4)),
    ///     visible_at_ms: 900,
    ///     parent: None,
    /// };
    /// let fired = row.stand_in("truncated").unwrap();
    /// assert!(matches!(fired, WorkItem::TimerFired { id: 4, fire_at_ms: 900, .. }));
    /// ```
    #[must_use]
    pub fn stand_in(&self, reason: &str) -> Option<WorkItem> {
        let (execution_id, id) = self.answers?;
        let child_failed = |parent: &str, what: &str| WorkItem::SubOrchFailed {
            parent_instance: parent.to_owned(),
            parent_execution_id: execution_id,
            parent_id: id,
            details: unreadable(what, reason),
        };
        Some(match self.kind {
            "ActivityCompleted" | "ActivityFailed" => WorkItem::ActivityFailed {
                instance: self.instance.to_owned(),
                execution_id,
                id,
                details: unreadable("the result of the activity", reason),
            },
            "SubOrchCompleted" | "SubOrchFailed" => {
                child_failed(self.instance, "the result of the sub-orchestration")
            }
            "StartOrchestration" => {
                child_failed(self.parent?, "the start of the sub-orchestration")
            }
            "TimerFired" => WorkItem::TimerFired {
                instance: self.instance.to_owned(),
                execution_id,
                id,
                fire_at_ms: self.visible_at_ms,
            },
            _ => return None,
        })
    }
}

/// How an activity ends whose item the store dead-lettered.
#[must_use]
pub fn failed_activity(instance: &str, execution_id: u64, id: u64, reason: &str) -> WorkItem {
    WorkItem::ActivityFailed {
        instance: instance.to_owned(),
        execution_id,
        id,
        details: unreadable("the activity", reason),
    }
}

fn unreadable(what: &str, reason: &str) -> ErrorDetails {
    ErrorDetails::Infrastructure {
        operation: "read the stored message".to_owned(),
        message: format!("{what} cannot be read and was kept as a dead letter: {reason}"),
        retryable: false,
    }
}
