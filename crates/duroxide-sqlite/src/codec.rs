//! Between the contract's types and JSON rows. In: events and work items. Out: rows ready to be written, and back.
//! Runs in the caller's task, so that the writer thread only moves bytes.

use duroxide_core::event::Event;
use duroxide_core::provider::WorkItem;

use crate::error::{Result, SqliteError};
use crate::lane;
use crate::tables::history::NewEvent;
use crate::tables::orchestrator_queue::{Due, NewMessage};
use crate::tables::worker_queue::NewWork;
use crate::tx::stored_ms;

pub(crate) fn event(instance: &str, event: &Event) -> Result<NewEvent> {
    if event.event_id == 0 {
        return Err(SqliteError::EventWithoutId {
            instance: instance.to_owned(),
        });
    }
    let json = serde_json::to_string(event).map_err(|error| SqliteError::Unstorable {
        what: format!("event {} of {instance}", event.event_id),
        why: error.to_string(),
    })?;
    Ok(NewEvent {
        event_id: event.event_id,
        event_type: event.kind.wire_name(),
        json,
    })
}

pub(crate) fn events(instance: &str, events: &[Event]) -> Result<Vec<NewEvent>> {
    events.iter().map(|one| event(instance, one)).collect()
}

pub(crate) fn decode_events(instance: &str, rows: &[Vec<u8>]) -> Result<Vec<Event>> {
    rows.iter().map(|row| decode_event(instance, row)).collect()
}

pub(crate) fn decode_event(instance: &str, row: &[u8]) -> Result<Event> {
    serde_json::from_slice(row).map_err(|error| SqliteError::Undecodable {
        what: format!("an event of {instance}"),
        why: error.to_string(),
    })
}

/// A message for the orchestrator queue. A timer decided by a turn is due at its own time, everything else at `due`.
pub(crate) fn message(item: &WorkItem, due: Due) -> Result<NewMessage> {
    if matches!(item, WorkItem::ActivityExecute { .. }) {
        return Err(SqliteError::WrongKind {
            kind: item.kind_name(),
            queue: "orchestrator",
        });
    }
    Ok(NewMessage {
        instance: item.target_instance().to_owned(),
        kind: item.kind_name(),
        json: work_item_json(item)?,
        due,
        begins: match item {
            WorkItem::StartOrchestration {
                orchestration,
                version,
                ..
            }
            | WorkItem::ContinueAsNew {
                orchestration,
                version,
                ..
            } => Some(lane::of(orchestration, version.as_deref(), None)),
            _ => None,
        },
        answers: answers(item),
        starts_child_of: match item {
            WorkItem::StartOrchestration {
                parent_instance, ..
            } => parent_instance.clone(),
            _ => None,
        },
        carries: matches!(item, WorkItem::ContinueAsNew { carry_forward_events, .. } if !carry_forward_events.is_empty()),
    })
}

/// Which operation waits for a message, or for the child that it starts: its execution and its scheduling event.
fn answers(item: &WorkItem) -> Option<(i64, i64)> {
    let (execution_id, id) = match item {
        WorkItem::ActivityCompleted {
            execution_id, id, ..
        }
        | WorkItem::ActivityFailed {
            execution_id, id, ..
        }
        | WorkItem::TimerFired {
            execution_id, id, ..
        } => (execution_id, id),
        WorkItem::SubOrchCompleted {
            parent_execution_id,
            parent_id,
            ..
        }
        | WorkItem::SubOrchFailed {
            parent_execution_id,
            parent_id,
            ..
        }
        | WorkItem::StartOrchestration {
            parent_execution_id: Some(parent_execution_id),
            parent_id: Some(parent_id),
            ..
        } => (parent_execution_id, parent_id),
        _ => return None,
    };
    i64::try_from(*execution_id)
        .ok()
        .zip(i64::try_from(*id).ok())
}

/// A message that a turn decided to send.
pub(crate) fn decided_message(item: &WorkItem) -> Result<NewMessage> {
    let due = match item {
        WorkItem::TimerFired { fire_at_ms, .. } => Due::At(stored_ms(*fire_at_ms)),
        _ => Due::After(None),
    };
    message(item, due)
}

/// The completion of an activity.
pub(crate) fn completion(item: &WorkItem) -> Result<NewMessage> {
    match item {
        WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. } => {
            message(item, Due::After(None))
        }
        other => Err(SqliteError::WrongKind {
            kind: other.kind_name(),
            queue: "completion",
        }),
    }
}

pub(crate) fn work(item: &WorkItem) -> Result<NewWork> {
    let WorkItem::ActivityExecute {
        instance,
        execution_id,
        id,
        name,
        session_id,
        tag,
        ..
    } = item
    else {
        return Err(SqliteError::WrongKind {
            kind: item.kind_name(),
            queue: "worker",
        });
    };
    Ok(NewWork {
        instance: instance.clone(),
        execution_id: *execution_id,
        activity_id: *id,
        name: name.clone(),
        session: session_id.clone(),
        tag: tag.clone(),
        json: work_item_json(item)?,
    })
}

pub(crate) fn decode_work_item(row: &[u8]) -> std::result::Result<WorkItem, String> {
    serde_json::from_slice(row).map_err(|error| format!("does not decode: {error}"))
}

fn work_item_json(item: &WorkItem) -> Result<String> {
    serde_json::to_string(item).map_err(|error| SqliteError::Unstorable {
        what: format!("{} for {}", item.kind_name(), item.target_instance()),
        why: error.to_string(),
    })
}
