//! Between the contract's types and rows. In: events and work items. Out: rows ready to be written, and back. Runs in the
//! caller's task.

use duroxide_core::event::Event;
use duroxide_core::provider::WorkItem;

use crate::error::{PgError, Result};
use crate::lane::{self, WorkNeeds};
use crate::text;
use crate::time::{duration_ms, stored_ms};

/// The longest text that fits into an index of PostgreSQL together with the other columns.
const INDEXED_MAX: usize = 2_500;

/// An event ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) id: i64,
    pub(crate) kind: &'static str,
    pub(crate) json: String,
}

/// A message ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewMessage {
    pub(crate) instance: String,
    pub(crate) kind: &'static str,
    pub(crate) json: String,
    /// When it becomes visible, or else after how many milliseconds.
    pub(crate) due: Option<i64>,
    pub(crate) delay: i64,
    /// Of a message that begins an execution: the code it names.
    pub(crate) begins: Option<String>,
    /// Of a result or a timer: execution and scheduling event of the operation that waits for it.
    pub(crate) answers: Option<(i64, i64)>,
    /// Of the start of a child: its parent.
    pub(crate) starts_child_of: Option<String>,
}

impl NewMessage {
    pub(crate) fn is_start(&self) -> bool {
        self.kind == "StartOrchestration"
    }

    pub(crate) fn is_cancel(&self) -> bool {
        self.kind == "CancelInstance"
    }

    /// Whether a child tells its parent how it ended.
    pub(crate) fn is_notice(&self) -> bool {
        matches!(self.kind, "SubOrchCompleted" | "SubOrchFailed")
    }
}

/// An activity ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewWork {
    pub(crate) instance: String,
    pub(crate) execution_id: i64,
    pub(crate) activity_id: i64,
    pub(crate) name: String,
    pub(crate) session: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) lane: String,
    pub(crate) json: String,
}

/// An id or a name as it is stored and indexed.
pub(crate) fn key(what: &str, value: &str) -> Result<String> {
    let stored = text::owned(value);
    if stored.len() > INDEXED_MAX {
        return Err(PgError::Unstorable {
            what: what.to_owned(),
            why: format!(
                "{} bytes, at most {INDEXED_MAX} can be indexed",
                stored.len()
            ),
        });
    }
    Ok(stored)
}

/// A number as it is stored.
pub(crate) fn number(what: &str, value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| PgError::Unstorable {
        what: format!("{what} {value}"),
        why: "numbers have 63 bits".to_owned(),
    })
}

pub(crate) fn events(instance: &str, events: &[Event]) -> Result<Vec<NewEvent>> {
    events.iter().map(|one| event(instance, one)).collect()
}

fn event(instance: &str, event: &Event) -> Result<NewEvent> {
    if event.event_id == 0 {
        return Err(PgError::EventWithoutId {
            instance: instance.to_owned(),
        });
    }
    let json = serde_json::to_string(event).map_err(|error| PgError::Unstorable {
        what: format!("event {} of {instance}", event.event_id),
        why: error.to_string(),
    })?;
    Ok(NewEvent {
        id: number("event", event.event_id)?,
        kind: event.kind.wire_name(),
        json,
    })
}

pub(crate) fn decode_events(instance: &str, rows: &[String]) -> Result<Vec<Event>> {
    rows.iter().map(|row| decode_event(instance, row)).collect()
}

pub(crate) fn decode_event(instance: &str, row: &str) -> Result<Event> {
    serde_json::from_str(row).map_err(|error| PgError::Undecodable {
        what: format!("an event of {instance}"),
        why: error.to_string(),
    })
}

/// A message for the orchestrator queue, visible after a delay.
pub(crate) fn message(item: &WorkItem, delay: Option<std::time::Duration>) -> Result<NewMessage> {
    if matches!(item, WorkItem::ActivityExecute { .. }) {
        return Err(PgError::WrongKind {
            kind: item.kind_name(),
            queue: "orchestrator",
        });
    }
    Ok(NewMessage {
        instance: key("the instance id", item.target_instance())?,
        kind: item.kind_name(),
        json: work_item_json(item)?,
        due: None,
        delay: delay.map_or(0, duration_ms),
        begins: match item.begins() {
            Some((name, version)) => Some(key("the lane", &lane::of(name, version, None))?),
            None => None,
        },
        answers: answers(item),
        starts_child_of: match item {
            WorkItem::StartOrchestration {
                parent_instance: Some(parent),
                ..
            } => Some(text::owned(parent)),
            _ => None,
        },
    })
}

/// Which operation waits for a message: its execution and its scheduling event.
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
        } => (parent_execution_id, parent_id),
        WorkItem::StartOrchestration {
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

/// A message that a turn decided to send. A timer is due at its own time.
pub(crate) fn decided_message(item: &WorkItem) -> Result<NewMessage> {
    let mut message = message(item, None)?;
    if let WorkItem::TimerFired { fire_at_ms, .. } = item {
        message.due = Some(stored_ms(*fire_at_ms));
    }
    Ok(message)
}

/// The completion of an activity.
pub(crate) fn completion(item: &WorkItem) -> Result<NewMessage> {
    match item {
        WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. } => message(item, None),
        other => Err(PgError::WrongKind {
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
        return Err(PgError::WrongKind {
            kind: item.kind_name(),
            queue: "worker",
        });
    };
    let needs = WorkNeeds {
        tag: tag.clone(),
        name: name.clone(),
        in_session: session_id.is_some(),
    };
    Ok(NewWork {
        instance: key("the instance id", instance)?,
        execution_id: number("execution", *execution_id)?,
        activity_id: number("activity", *id)?,
        name: text::owned(name),
        session: session_id
            .as_deref()
            .map(|session| key("the session id", session))
            .transpose()?,
        tag: tag.as_deref().map(text::owned),
        lane: key("the lane", &needs.lane())?,
        json: work_item_json(item)?,
    })
}

pub(crate) fn decode_work_item(row: &str) -> std::result::Result<WorkItem, String> {
    serde_json::from_str(row).map_err(|error| format!("does not decode: {error}"))
}

pub(crate) fn work_item_json(item: &WorkItem) -> Result<String> {
    serde_json::to_string(item).map_err(|error| PgError::Unstorable {
        what: format!("{} for {}", item.kind_name(), item.target_instance()),
        why: error.to_string(),
    })
}
