//! The document that `snapshot_instance` of the schema makes, as a snapshot.

use duroxide_core::Labels;
use duroxide_core::provider::rules::{Refusal, work_item_from_json};
use duroxide_core::provider::{
    Awaiting, DeadLetterRecord, EventRecord, ExecutionRecord, HeartbeatRecord, InstanceRecord,
    InstanceSnapshot, KeyValueRecord, QueuedActivity, QueuedMessage, StoredIncarnation,
};
use serde_json::Value;

use crate::codec::shown_number;
use crate::error::Result;
use crate::text::shown;
use crate::time::shown_ms;

pub(super) fn snapshot(instance: &str, document: &str) -> Result<InstanceSnapshot> {
    let document: Value = serde_json::from_str(document)
        .map_err(|error| Refusal::undecodable(format!("the snapshot of {instance}"), &error))?;
    let rows = |name: &str| {
        document
            .get(name)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let record = document
        .get("record")
        .filter(|it| !it.is_null())
        .map(record);
    let mut executions: Vec<ExecutionRecord> = rows("executions").iter().map(execution).collect();
    for event in rows("events") {
        let number = count(&event, "execution");
        let place = match executions.binary_search_by_key(&number, |it| it.execution_id) {
            Ok(place) => place,
            // Events that were appended without a turn.
            Err(place) => {
                let only_events = ExecutionRecord {
                    execution_id: number,
                    ..ExecutionRecord::default()
                };
                executions.insert(place, only_events);
                place
            }
        };
        executions[place].events.push(EventRecord {
            id: count(&event, "id"),
            json: raw(&event, "data"),
        });
    }
    Ok(InstanceSnapshot {
        record,
        executions,
        key_values: rows("key_values").iter().map(key_value).collect(),
        key_value_changes: rows("changes").iter().map(key_value).collect(),
        heartbeats: rows("heartbeats").iter().map(heartbeat).collect(),
        messages: rows("messages").iter().map(message).collect(),
        activities: rows("activities").iter().map(activity).collect(),
        dead_letters: rows("letters").iter().map(letter).collect(),
        ..InstanceSnapshot::of(instance)
    })
}

/// A text as it is stored; columns that cannot be empty always have one.
fn raw(row: &Value, name: &str) -> String {
    let text = row.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn text(row: &Value, name: &str) -> String {
    shown(raw(row, name))
}

fn opt_text(row: &Value, name: &str) -> Option<String> {
    let text = row.get(name).and_then(Value::as_str)?;
    Some(shown(text.to_owned()))
}

fn opt_number(row: &Value, name: &str) -> Option<i64> {
    row.get(name).and_then(Value::as_i64)
}

fn count(row: &Value, name: &str) -> u64 {
    shown_number(opt_number(row, name).unwrap_or(0))
}

fn attempts(row: &Value) -> u32 {
    u32::try_from(count(row, "attempts")).unwrap_or(u32::MAX)
}

fn incarnation(row: &Value, name: &str) -> Option<StoredIncarnation> {
    opt_number(row, name).map(StoredIncarnation)
}

fn record(row: &Value) -> InstanceRecord {
    InstanceRecord {
        name: text(row, "name"),
        version: opt_text(row, "version"),
        execution_id: count(row, "execution"),
        parent: opt_text(row, "parent"),
        incarnation: incarnation(row, "incarnation"),
        parent_incarnation: incarnation(row, "parent_incarnation"),
        custom_status: opt_text(row, "custom_status"),
        custom_status_version: count(row, "custom_status_version"),
        created_at_ms: count(row, "created_at"),
        updated_at_ms: count(row, "updated_at"),
        paused_at_ms: opt_number(row, "paused_at").map(shown_ms),
        labels: labels(row),
    }
}

fn labels(row: &Value) -> Labels {
    let pairs = row.get("labels").and_then(Value::as_array);
    let pairs = pairs.into_iter().flatten().filter_map(|pair| {
        let text = |place: usize| Some(shown(pair.get(place)?.as_str()?.to_owned()));
        Some((text(0)?, text(1)?))
    });
    pairs.collect()
}

fn execution(row: &Value) -> ExecutionRecord {
    ExecutionRecord {
        execution_id: count(row, "id"),
        status: opt_text(row, "status"),
        output: opt_text(row, "output"),
        started_at_ms: count(row, "started_at"),
        ended_at_ms: opt_number(row, "completed_at").map(shown_ms),
        engine_version: opt_text(row, "pinned"),
        events: Vec::new(),
    }
}

fn key_value(row: &Value) -> KeyValueRecord {
    KeyValueRecord {
        key: text(row, "key"),
        value: opt_text(row, "value"),
        at_ms: count(row, "at"),
    }
}

fn heartbeat(row: &Value) -> HeartbeatRecord {
    HeartbeatRecord {
        execution_id: count(row, "execution"),
        call_id: count(row, "call"),
        details: text(row, "details"),
    }
}

fn message(row: &Value) -> QueuedMessage {
    let json = raw(row, "item");
    let operation = opt_number(row, "execution").zip(opt_number(row, "operation"));
    let awaiting = match work_item_from_json(json.as_bytes()) {
        Ok(_) => None,
        Err(_) => operation.map(|(execution, operation)| Awaiting {
            kind: Awaiting::operation(&text(row, "kind")).to_owned(),
            execution_id: shown_number(execution),
            operation_id: shown_number(operation),
            parent: None,
        }),
    };
    QueuedMessage {
        json,
        visible_at_ms: count(row, "visible_at"),
        attempts: attempts(row),
        sent_by: incarnation(row, "sent_by"),
        awaiting,
    }
}

fn activity(row: &Value) -> QueuedActivity {
    QueuedActivity {
        json: raw(row, "item"),
        execution_id: count(row, "execution"),
        activity_id: count(row, "id"),
        name: Some(text(row, "name")).filter(|name| !name.is_empty()),
        session: opt_text(row, "session"),
        tag: opt_text(row, "tag"),
        visible_at_ms: count(row, "visible_at"),
        attempts: attempts(row),
        incarnation: incarnation(row, "incarnation"),
    }
}

fn letter(row: &Value) -> DeadLetterRecord {
    DeadLetterRecord {
        queue: raw(row, "queue"),
        payload: raw(row, "payload"),
        reason: text(row, "reason"),
        dead_lettered_at_ms: count(row, "set_aside_at"),
        incarnation: incarnation(row, "incarnation"),
        answered: row
            .get("answered")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    }
}
