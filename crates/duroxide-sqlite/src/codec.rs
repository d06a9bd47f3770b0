//! Between the contract's types and JSON rows. In: events and work items. Out: rows ready to be written, and back.
//! Runs in the caller's task, so that the writer thread only moves bytes.

use duroxide_core::event::Event;
use duroxide_core::provider::WorkItem;
use duroxide_core::provider::rules;

use crate::error::Result;
use crate::tables::history::NewEvent;
use crate::tables::orchestrator_queue::{Due, NewMessage};
use crate::tables::worker_queue::NewWork;
use crate::tx::stored_ms;

pub(crate) use duroxide_core::provider::rules::work_item_from_json as decode_work_item;

pub(crate) fn events(instance: &str, events: &[Event]) -> Result<Vec<NewEvent>> {
    let encode = |event: &Event| {
        Ok(NewEvent {
            event_id: event.event_id,
            event_type: event.kind.wire_name(),
            json: rules::event_to_json(instance, event)?,
        })
    };
    events.iter().map(encode).collect()
}

pub(crate) fn decode_events(instance: &str, rows: &[Vec<u8>]) -> Result<Vec<Event>> {
    rows.iter().map(|row| decode_event(instance, row)).collect()
}

pub(crate) fn decode_event(instance: &str, row: &[u8]) -> Result<Event> {
    Ok(rules::event_from_json(instance, row)?)
}

/// A message for the orchestrator queue, due at `due`.
pub(crate) fn message(item: &WorkItem, due: Due) -> Result<NewMessage> {
    NewMessage::of(item, due)
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
    rules::completion_only(item)?;
    message(item, Due::After(None))
}

pub(crate) fn work(item: &WorkItem) -> Result<NewWork> {
    let activity = rules::activity(item)?;
    Ok(NewWork {
        instance: activity.instance.to_owned(),
        execution_id: activity.execution_id,
        activity_id: activity.id,
        name: activity.name.to_owned(),
        session: activity.session_id.map(str::to_owned),
        tag: activity.tag.map(str::to_owned),
        json: rules::work_item_to_json(item)?,
    })
}
