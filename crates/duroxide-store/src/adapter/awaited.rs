//! What an instance waits for, kept beside the text of a message: if the text does not decode, the operation that waits
//! for it fails instead of waiting for ever.

use duroxide_core::{ErrorDetails, WorkItem};

use crate::message::Message;

/// The key of a message that an operation waits for.
pub(super) fn key_of(item: &WorkItem) -> Option<String> {
    match item {
        WorkItem::ActivityCompleted {
            execution_id, id, ..
        }
        | WorkItem::ActivityFailed {
            execution_id, id, ..
        } => Some(format!("activity/{execution_id}/{id}")),
        WorkItem::SubOrchCompleted {
            parent_execution_id,
            parent_id,
            ..
        }
        | WorkItem::SubOrchFailed {
            parent_execution_id,
            parent_id,
            ..
        } => Some(format!("child/{parent_execution_id}/{parent_id}")),
        WorkItem::TimerFired {
            execution_id,
            id,
            fire_at_ms,
            ..
        } => Some(format!("timer/{execution_id}/{id}/{fire_at_ms}")),
        WorkItem::StartOrchestration {
            parent_instance: Some(parent),
            parent_id: Some(id),
            parent_execution_id: Some(execution),
            ..
        } => Some(format!("start/{execution}/{id}/{parent}")),
        _ => None,
    }
}

/// The message that fails the operation that waits for an unreadable one; `None` if none waits.
pub(super) fn instead_of(message: &Message, reason: &str) -> Option<WorkItem> {
    let key = message.key.as_deref()?;
    failure_for(message, key, reason)
}

fn failure_for(message: &Message, key: &str, reason: &str) -> Option<WorkItem> {
    let instance = message.group.clone();
    let details = ErrorDetails::Infrastructure {
        operation: "read_message".to_owned(),
        message: format!("what was stored cannot be read and was kept as a dead letter: {reason}"),
        retryable: false,
    };
    let mut parts = key.splitn(4, '/');
    let kind = parts.next()?;
    let number = |text: Option<&str>| text?.parse().ok();
    Some(match kind {
        "activity" => WorkItem::ActivityFailed {
            instance,
            execution_id: number(parts.next())?,
            id: number(parts.next())?,
            details,
        },
        "child" => WorkItem::SubOrchFailed {
            parent_instance: instance,
            parent_execution_id: number(parts.next())?,
            parent_id: number(parts.next())?,
            details,
        },
        "timer" => WorkItem::TimerFired {
            instance,
            execution_id: number(parts.next())?,
            id: number(parts.next())?,
            fire_at_ms: number(parts.next())?,
        },
        "start" => WorkItem::SubOrchFailed {
            parent_execution_id: number(parts.next())?,
            parent_id: number(parts.next())?,
            parent_instance: parts.next()?.to_owned(),
            details,
        },
        // An activity's own key: execution and scheduling event.
        execution => WorkItem::ActivityFailed {
            instance,
            execution_id: execution.parse().ok()?,
            id: number(parts.next())?,
            details,
        },
    })
}
