//! What takes the place of a message that does not decode. In: what its row says beside the text. Out: a message that somebody who
//! waits for it can read.

use duroxide_core::WorkItem;
use duroxide_core::event::ErrorDetails;

use crate::time::shown_ms;

/// What the row of a message says beside its text.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) kind: String,
    pub(crate) execution_id: Option<i64>,
    pub(crate) operation_id: Option<i64>,
    pub(crate) visible_at: i64,
    /// Of the start of a child: the instance that started it, if it still lives.
    pub(crate) parent: Option<String>,
}

/// A result fails the operation that waits for it, and so does the start of a child; a timer fires. `None` if nothing waits.
pub(crate) fn stand_in(instance: &str, row: &Beside, reason: &str) -> Option<WorkItem> {
    let execution_id = row.execution_id?.try_into().ok()?;
    let id = row.operation_id?.try_into().ok()?;
    let instance = instance.to_owned();
    Some(match row.kind.as_str() {
        "ActivityCompleted" | "ActivityFailed" => WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            details: unreadable("the result of the activity", reason),
        },
        "SubOrchCompleted" | "SubOrchFailed" => WorkItem::SubOrchFailed {
            parent_instance: instance,
            parent_execution_id: execution_id,
            parent_id: id,
            details: unreadable("the result of the sub-orchestration", reason),
        },
        "TimerFired" => WorkItem::TimerFired {
            instance,
            execution_id,
            id,
            fire_at_ms: shown_ms(row.visible_at),
        },
        "StartOrchestration" => WorkItem::SubOrchFailed {
            parent_instance: row.parent.clone()?,
            parent_execution_id: execution_id,
            parent_id: id,
            details: unreadable("the start of the sub-orchestration", reason),
        },
        _ => return None,
    })
}

/// How an activity ends that was set aside.
pub(crate) fn failed_activity(
    instance: String,
    execution_id: u64,
    id: u64,
    reason: &str,
) -> WorkItem {
    WorkItem::ActivityFailed {
        instance,
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
