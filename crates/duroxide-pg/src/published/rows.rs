//! Rows of the published schema as a snapshot. In: an id. Out: everything that the tables hold of it, what lies in the
//! wrong place as a dead letter.

use duroxide_core::WorkItem;
use duroxide_core::provider::rules::{activity, orchestrator_only, work_item_from_json};
use duroxide_core::provider::{
    DeadLetterRecord, EventRecord, ExecutionRecord, InstanceRecord, InstanceSnapshot,
    KeyValueRecord, QueuedActivity, QueuedMessage,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PublishedSchema;
use crate::codec::unsigned;
use crate::error::Result;
use crate::time::shown_ms;

const INSTANCE: &str = include_str!("../../published/instance.sql");
const EXECUTIONS: &str = include_str!("../../published/executions.sql");
const EVENTS: &str = "SELECT execution_id, event_id, event_data FROM {s}.history WHERE instance_id = $1 ORDER BY 1, 2";
const MESSAGES: &str = include_str!("../../published/messages.sql");
const ACTIVITIES: &str = include_str!("../../published/activities.sql");
const KEY_VALUES: &str = include_str!("../../published/key_values.sql");
const CHANGES: &str =
    "SELECT key, value, last_updated_at_ms FROM {s}.kv_delta WHERE instance_id = $1 ORDER BY key";

pub(super) async fn snapshot(old: &PublishedSchema, instance: &str) -> Result<InstanceSnapshot> {
    let id = [(&instance as _, Type::TEXT)];
    // Sent together, answered in order, by one transaction.
    let (record, executions, events, messages, activities, key_values, changes) = futures::try_join!(
        old.rows(INSTANCE, &id),
        old.rows(EXECUTIONS, &id),
        old.rows(EVENTS, &id),
        old.rows(MESSAGES, &id),
        old.rows(ACTIVITIES, &id),
        old.rows(KEY_VALUES, &id),
        old.rows(CHANGES, &id),
    )?;
    let mut snapshot = InstanceSnapshot {
        record: record.first().map(instance_record).transpose()?,
        executions: executions.iter().map(execution).collect::<Result<_>>()?,
        key_values: key_values.iter().map(key_value).collect::<Result<_>>()?,
        key_value_changes: changes.iter().map(key_value).collect::<Result<_>>()?,
        ..InstanceSnapshot::of(instance)
    };
    for row in &events {
        add_event(&mut snapshot.executions, row)?;
    }
    for row in &messages {
        match message(instance, row)? {
            Ok(message) => snapshot.messages.push(message),
            Err(letter) => snapshot.dead_letters.push(letter),
        }
    }
    for row in &activities {
        match queued_activity(instance, row)? {
            Ok(activity) => snapshot.activities.push(activity),
            Err(letter) => snapshot.dead_letters.push(letter),
        }
    }
    Ok(snapshot)
}

fn instance_record(row: &Row) -> Result<InstanceRecord> {
    Ok(InstanceRecord {
        name: row.try_get(0)?,
        version: row.try_get(1)?,
        execution_id: unsigned(row, 2)?,
        parent: row.try_get(3)?,
        custom_status: row.try_get(4)?,
        custom_status_version: unsigned(row, 5)?,
        created_at_ms: time(row, 6)?,
        updated_at_ms: time(row, 7)?,
        ..InstanceRecord::default()
    })
}

fn execution(row: &Row) -> Result<ExecutionRecord> {
    let ended: Option<i64> = row.try_get(4)?;
    Ok(ExecutionRecord {
        execution_id: unsigned(row, 0)?,
        status: row.try_get(1)?,
        output: row.try_get(2)?,
        started_at_ms: time(row, 3)?,
        ended_at_ms: ended.map(shown_ms),
        engine_version: row.try_get(5)?,
        events: Vec::new(),
    })
}

fn add_event(executions: &mut Vec<ExecutionRecord>, row: &Row) -> Result<()> {
    let execution_id = unsigned(row, 0)?;
    let place = match executions.binary_search_by_key(&execution_id, |it| it.execution_id) {
        Ok(place) => place,
        // Events that were appended without a turn.
        Err(place) => {
            let only_events = ExecutionRecord {
                execution_id,
                ..ExecutionRecord::default()
            };
            executions.insert(place, only_events);
            place
        }
    };
    executions[place].events.push(EventRecord {
        id: unsigned(row, 1)?,
        json: row.try_get(2)?,
    });
    Ok(())
}

fn key_value(row: &Row) -> Result<KeyValueRecord> {
    Ok(KeyValueRecord {
        key: row.try_get(0)?,
        value: row.try_get(1)?,
        at_ms: time(row, 2)?,
    })
}

/// A row of one of the queues.
struct Queued {
    json: String,
    visible_at_ms: u64,
    attempts: u32,
}

impl Queued {
    fn of(row: &Row) -> Result<Self> {
        let attempts: i32 = row.try_get(2)?;
        Ok(Self {
            json: row.try_get(0)?,
            visible_at_ms: time(row, 1)?,
            attempts: u32::try_from(attempts).unwrap_or(0),
        })
    }

    fn into_letter(self, queue: &str, reason: &str) -> DeadLetterRecord {
        DeadLetterRecord {
            queue: queue.to_owned(),
            payload: self.json,
            reason: format!("found by an import: {reason}"),
            dead_lettered_at_ms: self.visible_at_ms,
            incarnation: None,
            answered: false,
        }
    }
}

fn message(
    instance: &str,
    row: &Row,
) -> Result<std::result::Result<QueuedMessage, DeadLetterRecord>> {
    let queued = Queued::of(row)?;
    let read = work_item_from_json(queued.json.as_bytes());
    let wrong = read.ok().and_then(|item| {
        let kind = orchestrator_only(&item).err().map(|it| it.to_string());
        kind.or_else(|| stranger(instance, &item))
    });
    Ok(match wrong {
        Some(reason) => Err(queued.into_letter("orchestrator", &reason)),
        None => Ok(QueuedMessage {
            json: queued.json,
            visible_at_ms: queued.visible_at_ms,
            attempts: queued.attempts,
            ..QueuedMessage::default()
        }),
    })
}

/// What is read from the item itself goes before what its columns say.
fn queued_activity(
    instance: &str,
    row: &Row,
) -> Result<std::result::Result<QueuedActivity, DeadLetterRecord>> {
    let queued = Queued::of(row)?;
    let mut found = QueuedActivity {
        json: queued.json.clone(),
        execution_id: unsigned(row, 3)?,
        activity_id: unsigned(row, 4)?,
        session: row.try_get(5)?,
        tag: row.try_get(6)?,
        visible_at_ms: queued.visible_at_ms,
        attempts: queued.attempts,
        ..QueuedActivity::default()
    };
    let item = match work_item_from_json(queued.json.as_bytes()) {
        Ok(item) => item,
        Err(reason) if instance.is_empty() => {
            return Ok(Err(queued.into_letter("worker", &reason)));
        }
        Err(_) => return Ok(Ok(found)),
    };
    if let Some(reason) = stranger(instance, &item) {
        return Ok(Err(queued.into_letter("worker", &reason)));
    }
    let parsed = match activity(&item) {
        Ok(parsed) => parsed,
        Err(refusal) => return Ok(Err(queued.into_letter("worker", &refusal.to_string()))),
    };
    (found.execution_id, found.activity_id) = (parsed.execution_id, parsed.id);
    found.name = Some(parsed.name.to_owned());
    found.session = parsed.session_id.map(str::to_owned);
    found.tag = parsed.tag.map(str::to_owned);
    Ok(Ok(found))
}

/// Why an item does not belong to an instance.
fn stranger(instance: &str, item: &WorkItem) -> Option<String> {
    let target = item.target_instance();
    let is_other = target != instance;
    is_other.then(|| {
        format!(
            "it is for `{}` and lay with `{}`",
            target.escape_debug(),
            instance.escape_debug()
        )
    })
}

fn time(row: &Row, column: usize) -> Result<u64> {
    Ok(shown_ms(row.try_get(column)?))
}
