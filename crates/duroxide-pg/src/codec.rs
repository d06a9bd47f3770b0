//! Between the contract's types and rows. In: events and work items. Out: rows ready to be written, and back. Runs in
//! the caller's task.

use duroxide_core::event::Event;
use duroxide_core::provider::WorkItem;
use duroxide_core::provider::rules::lane::{self, WorkNeeds};
use duroxide_core::provider::rules::{self, Refusal};
use tokio_postgres::{Column, Row};

use crate::error::Result;
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

    /// Whether it notifies a parent of how its child ended.
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
    let size = stored.len();
    if size > INDEXED_MAX {
        let why = format!("{size} bytes, at most {INDEXED_MAX} can be indexed");
        return Err(Refusal::unstorable(what, &why).into());
    }
    Ok(stored)
}

/// A number as it is stored.
pub(crate) fn number(what: &str, value: u64) -> Result<i64> {
    let stored = i64::try_from(value)
        .map_err(|_| Refusal::unstorable(format!("{what} {value}"), "numbers have 63 bits"))?;
    Ok(stored)
}

/// A number of a row that is never negative: an id, a count, a size.
pub(crate) fn unsigned(row: &Row, column: usize) -> Result<u64> {
    let stored: i64 = row.try_get(column)?;
    let value = u64::try_from(stored).map_err(|_| {
        let name = row.columns().get(column).map_or("?", Column::name);
        Refusal::undecodable(format!("column {name}"), &format!("{stored} is negative"))
    })?;
    Ok(value)
}

/// A number that this process stored or read as an id before ([`number`], [`unsigned`]); 0 for what is none.
pub(crate) fn shown_number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

pub(crate) fn events(instance: &str, events: &[Event]) -> Result<Vec<NewEvent>> {
    events.iter().map(|one| event(instance, one)).collect()
}

fn event(instance: &str, event: &Event) -> Result<NewEvent> {
    Ok(NewEvent {
        json: rules::event_to_json(instance, event)?,
        id: number("event", event.event_id)?,
        kind: event.kind.wire_name(),
    })
}

pub(crate) fn decode_events(instance: &str, rows: &[String]) -> Result<Vec<Event>> {
    rows.iter().map(|row| decode_event(instance, row)).collect()
}

pub(crate) fn decode_event(instance: &str, row: &str) -> Result<Event> {
    Ok(rules::event_from_json(instance, row.as_bytes())?)
}

/// A message for the orchestrator queue, visible after a delay.
pub(crate) fn message(item: &WorkItem, delay: Option<std::time::Duration>) -> Result<NewMessage> {
    rules::orchestrator_only(item)?;
    let begins = lane::begun_by(item);
    Ok(NewMessage {
        instance: key("the instance id", item.target_instance())?,
        kind: item.kind_name(),
        json: rules::work_item_to_json(item)?,
        due: None,
        delay: delay.map_or(0, duration_ms),
        begins: begins.map(|lane| key("the lane", &lane)).transpose()?,
        // Ids beyond what a column holds name no operation that could wait.
        answers: item.answers().and_then(|(execution, id)| {
            Some((i64::try_from(execution).ok()?, i64::try_from(id).ok()?))
        }),
        starts_child_of: item.starts_child_of().map(text::owned),
    })
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
    rules::completion_only(item)?;
    message(item, None)
}

pub(crate) fn work(item: &WorkItem) -> Result<NewWork> {
    let activity = rules::activity(item)?;
    let needs = WorkNeeds {
        tag: activity.tag.map(str::to_owned),
        name: activity.name.to_owned(),
        in_session: activity.session_id.is_some(),
    };
    let session = activity.session_id;
    Ok(NewWork {
        instance: key("the instance id", activity.instance)?,
        execution_id: number("execution", activity.execution_id)?,
        activity_id: number("activity", activity.id)?,
        name: text::owned(activity.name),
        session: session.map(|id| key("the session id", id)).transpose()?,
        tag: activity.tag.map(text::owned),
        lane: key("the lane", &needs.lane())?,
        json: rules::work_item_to_json(item)?,
    })
}

pub(crate) fn decode_work_item(row: &str) -> std::result::Result<WorkItem, String> {
    rules::work_item_from_json(row.as_bytes())
}
