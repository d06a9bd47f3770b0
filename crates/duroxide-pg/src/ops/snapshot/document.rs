//! A snapshot as the document that `restore_instance` of the schema writes to the tables: rows with all their columns.

use duroxide_core::provider::rules::lane::{self, WorkNeeds};
use duroxide_core::provider::rules::{event_from_json, work_item_from_json};
use duroxide_core::provider::{
    ExecutionStatus, InstanceRecord, InstanceSnapshot, KeyValueRecord, QueuedActivity,
    QueuedMessage, StoredIncarnation,
};
use semver::Version;
use serde_json::{Value, json};

use crate::codec;
use crate::error::Result;
use crate::text::owned;
use crate::time::stored_ms;

pub(super) fn of(snapshot: &InstanceSnapshot) -> Result<String> {
    let record = snapshot.record.as_ref();
    let labels = record.into_iter().flat_map(|record| &record.labels);
    let labels = labels.map(|(key, value)| json!({"key": owned(key), "value": owned(value)}));
    let records: Vec<Value> = record
        .map(|it| row(snapshot, it))
        .transpose()?
        .into_iter()
        .collect();
    let messages = snapshot.messages.iter().enumerate();
    let messages: Result<Vec<Value>> = messages.map(|(n, it)| message(n, it)).collect();
    let activities = snapshot.activities.iter().enumerate();
    let activities: Result<Vec<Value>> = activities.map(|(n, it)| activity(n, it)).collect();
    let document = json!({
        "record": records,
        "labels": labels.collect::<Vec<_>>(),
        "paused_at": record.and_then(|it| it.paused_at_ms).map(stored_ms),
        "executions": executions(snapshot),
        "events": events(snapshot),
        "key_values": key_values(&snapshot.key_values)?,
        "changes": key_values(&snapshot.key_value_changes)?,
        "heartbeats": heartbeats(snapshot),
        "messages": messages?,
        "activities": activities?,
        "letters": letters(snapshot),
    });
    Ok(document.to_string())
}

fn number(incarnation: Option<StoredIncarnation>) -> Option<i64> {
    incarnation.map(|StoredIncarnation(number)| number)
}

/// Text that is JSON, or was meant to be, has no NUL that PostgreSQL would see.
fn payload(json: &str) -> String {
    json.replace('\0', "\u{fffd}")
}

fn row(snapshot: &InstanceSnapshot, record: &InstanceRecord) -> Result<Value> {
    // One that an early build wrote gets the life that every store gives it.
    let settled = snapshot.clone().settled();
    let incarnation = settled.record.and_then(|record| record.incarnation);
    Ok(json!({
        "name": codec::key("the orchestration's name", &record.name)?,
        "version": record.version.as_deref().map(owned),
        "execution": codec::number("execution", record.execution_id)?,
        "parent": record.parent.as_deref().map(|it| codec::key("the parent's id", it)).transpose()?,
        "custom_status": record.custom_status.as_deref().map(owned),
        "custom_status_version": codec::number("the custom status", record.custom_status_version)?,
        "created_at": stored_ms(record.created_at_ms),
        "updated_at": stored_ms(record.updated_at_ms),
        "incarnation": number(incarnation),
        "parent_incarnation": number(record.parent_incarnation),
        "lane": codec::key("the lane", &lane_of(snapshot, record))?,
        "memo": snapshot.memo().as_deref().map(owned),
    }))
}

/// The code that the instance needs next.
fn lane_of(snapshot: &InstanceSnapshot, record: &InstanceRecord) -> String {
    let current = snapshot.current();
    match current.and_then(|it| it.parsed_status()) {
        Some(ExecutionStatus::Completed | ExecutionStatus::Failed) => lane::ANY_NODE.to_owned(),
        Some(ExecutionStatus::ContinuedAsNew) => lane::BETWEEN.to_owned(),
        Some(ExecutionStatus::Running) | None => {
            let pinned = current.and_then(|it| it.engine_version.as_deref());
            let pinned = pinned.and_then(|text| Version::parse(text).ok());
            lane::of(&record.name, record.version.as_deref(), pinned.as_ref())
        }
    }
}

fn executions(snapshot: &InstanceSnapshot) -> Vec<Value> {
    let known = snapshot.executions.iter().filter(|it| it.status.is_some());
    known
        .map(|it| {
            json!({
                "id": stored_ms(it.execution_id),
                "status": it.status.as_deref().map(owned),
                "output": it.output.as_deref().map(owned),
                "started_at": stored_ms(it.started_at_ms),
                "completed_at": it.ended_at_ms.map(stored_ms),
                "pinned": it.engine_version.as_deref().map(owned),
            })
        })
        .collect()
}

fn events(snapshot: &InstanceSnapshot) -> Vec<Value> {
    let mut events = Vec::new();
    for execution in &snapshot.executions {
        for event in &execution.events {
            let read = event_from_json(&snapshot.instance_id, event.json.as_bytes());
            events.push(json!({
                "execution": stored_ms(execution.execution_id),
                "id": stored_ms(event.id),
                "type": read.map_or("Unreadable", |event| event.kind.wire_name()),
                "data": payload(&event.json),
            }));
        }
    }
    events
}

fn key_values(values: &[KeyValueRecord]) -> Result<Vec<Value>> {
    let one = |it: &KeyValueRecord| {
        Ok(json!({
            "key": codec::key("the key", &it.key)?,
            "value": it.value.as_deref().map(owned),
            "at": stored_ms(it.at_ms),
        }))
    };
    values.iter().map(one).collect()
}

fn heartbeats(snapshot: &InstanceSnapshot) -> Vec<Value> {
    let heartbeats = snapshot.heartbeats.iter().map(|it| {
        json!({
            "execution": stored_ms(it.execution_id),
            "call": stored_ms(it.call_id),
            "details": owned(&it.details),
        })
    });
    heartbeats.collect()
}

fn message(n: usize, message: &QueuedMessage) -> Result<Value> {
    let (kind, begins, answers) = match work_item_from_json(message.json.as_bytes()) {
        Ok(item) => {
            let row = codec::message(&item, None)?;
            (row.kind.to_owned(), row.begins, row.answers)
        }
        Err(_) => match &message.awaiting {
            Some(it) => {
                let answers = (stored_ms(it.execution_id), stored_ms(it.operation_id));
                (owned(&it.kind), None, Some(answers))
            }
            None => ("Unreadable".to_owned(), None, None),
        },
    };
    Ok(json!({
        "n": n,
        "kind": kind,
        "item": payload(&message.json),
        "visible_at": stored_ms(message.visible_at_ms),
        "attempts": message.attempts.min(i32::MAX.cast_unsigned()),
        "begins": begins,
        "sent_by": number(message.sent_by),
        "execution": answers.map(|(execution, _)| execution),
        "operation": answers.map(|(_, operation)| operation),
    }))
}

fn activity(n: usize, activity: &QueuedActivity) -> Result<Value> {
    let needs = WorkNeeds {
        tag: activity.tag.clone(),
        name: activity.name.clone().unwrap_or_default(),
        in_session: activity.session.is_some(),
    };
    let session = activity.session.as_deref();
    Ok(json!({
        "n": n,
        "execution": stored_ms(activity.execution_id),
        "id": stored_ms(activity.activity_id),
        "name": owned(&needs.name),
        "item": payload(&activity.json),
        "session": session.map(|id| codec::key("the session id", id)).transpose()?,
        "tag": activity.tag.as_deref().map(owned),
        "lane": codec::key("the lane", &needs.lane())?,
        "visible_at": stored_ms(activity.visible_at_ms),
        "attempts": activity.attempts.min(i32::MAX.cast_unsigned()),
        "incarnation": number(activity.incarnation),
    }))
}

fn letters(snapshot: &InstanceSnapshot) -> Vec<Value> {
    let letters = snapshot.dead_letters.iter().enumerate().map(|(n, it)| {
        json!({
            "n": n,
            "queue": owned(&it.queue),
            "payload": payload(&it.payload),
            "reason": owned(&it.reason),
            "set_aside_at": stored_ms(it.dead_lettered_at_ms),
            "incarnation": number(it.incarnation),
            "answered": it.answered,
        })
    });
    letters.collect()
}
