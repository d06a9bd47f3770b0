//! Reads all rows of one instance, inside one transaction, which sees one state.

use duroxide_core::provider::rules::work_item_from_json;
use duroxide_core::provider::{
    Awaiting, DeadLetterRecord, EventRecord, ExecutionRecord, HeartbeatRecord, InstanceRecord,
    InstanceSnapshot, KeyValueRecord, QueuedActivity, QueuedMessage, StoredIncarnation,
};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::Result;
use crate::tables::{deletions, executions, labels, orchestrator_queue, pauses};
use crate::tx::{Tx, payload_text, shown_ms, unsigned};

pub(crate) fn read(tx: &Tx<'_>, instance: &str) -> Result<InstanceSnapshot> {
    let mut snapshot = InstanceSnapshot {
        record: record(tx, instance)?,
        messages: messages(tx, instance)?,
        activities: activities(tx, instance)?,
        dead_letters: dead_letters(tx, instance)?,
        ..InstanceSnapshot::of(instance)
    };
    // What is left of an instance that was deleted is not there.
    if !deletions::contains(tx, instance)? {
        snapshot.executions = executions(tx, instance)?;
        snapshot.heartbeats = heartbeats(tx, instance)?;
    }
    if snapshot.record.is_some() {
        snapshot.key_values = key_values(
            tx,
            "SELECT key, value, last_updated_at_ms FROM kv_store WHERE instance_id = ?1 ORDER BY key",
            instance,
        )?;
        snapshot.key_value_changes = key_values(
            tx,
            "SELECT key, value, last_updated_at_ms FROM kv_delta WHERE instance_id = ?1 ORDER BY key",
            instance,
        )?;
    }
    Ok(snapshot)
}

fn stored_incarnation(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<StoredIncarnation>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(StoredIncarnation))
}

/// A text that may be missing; bytes that are no text are shown as well as possible.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => payload_text(row, column).map(Some),
    }
}

fn record(tx: &Tx<'_>, instance: &str) -> Result<Option<InstanceRecord>> {
    let found = tx.first(
        "SELECT orchestration_name, orchestration_version, current_execution_id, parent_instance_id, incarnation,
             parent_incarnation, custom_status, custom_status_version, created_at, updated_at
         FROM instances WHERE instance_id = ?1",
        [instance],
        |row| {
            Ok(InstanceRecord {
                name: row.get(0)?,
                version: row.get(1)?,
                execution_id: unsigned(row, 2)?,
                parent: row.get(3)?,
                incarnation: stored_incarnation(row, 4)?,
                parent_incarnation: stored_incarnation(row, 5)?,
                custom_status: text(row, 6)?,
                custom_status_version: unsigned(row, 7)?,
                created_at_ms: shown_ms(row.get(8)?),
                updated_at_ms: shown_ms(row.get(9)?),
                ..InstanceRecord::default()
            })
        },
    )?;
    let Some(record) = found else {
        return Ok(None);
    };
    Ok(Some(InstanceRecord {
        paused_at_ms: pauses::since(tx, instance)?.map(shown_ms),
        labels: labels::of(tx, instance)?,
        ..record
    }))
}

fn executions(tx: &Tx<'_>, instance: &str) -> Result<Vec<ExecutionRecord>> {
    let mut found: Vec<ExecutionRecord> = tx.all(
        "SELECT execution_id, status, output, started_at, completed_at, duroxide_version_major, duroxide_version_minor,
             duroxide_version_patch, duroxide_version_pre
         FROM executions WHERE instance_id = ?1 ORDER BY execution_id",
        [instance],
        |row| {
            Ok(ExecutionRecord {
                execution_id: unsigned(row, 0)?,
                status: Some(row.get(1)?),
                output: text(row, 2)?,
                started_at_ms: shown_ms(row.get(3)?),
                ended_at_ms: row.get::<_, Option<i64>>(4)?.map(shown_ms),
                engine_version: executions::pinned(row, 5)?.map(|it| it.to_string()),
                events: Vec::new(),
            })
        },
    )?;
    tx.walk(
        "SELECT execution_id, event_id, event_data FROM history WHERE instance_id = ?1 ORDER BY execution_id, event_id",
        [instance],
        |row| {
            let execution_id = unsigned(row, 0)?;
            let event = EventRecord {
                id: unsigned(row, 1)?,
                json: payload_text(row, 2)?,
            };
            let place = match found.binary_search_by_key(&execution_id, |it| it.execution_id) {
                Ok(place) => place,
                // Events that were appended without a turn.
                Err(place) => {
                    let only_events = ExecutionRecord {
                        execution_id,
                        ..ExecutionRecord::default()
                    };
                    found.insert(place, only_events);
                    place
                }
            };
            found[place].events.push(event);
            Ok(true)
        },
    )?;
    Ok(found)
}

fn heartbeats(tx: &Tx<'_>, instance: &str) -> Result<Vec<HeartbeatRecord>> {
    tx.all(
        "SELECT execution_id, call_id, details FROM heartbeats WHERE instance_id = ?1 ORDER BY execution_id, call_id",
        [instance],
        |row| {
            Ok(HeartbeatRecord {
                execution_id: unsigned(row, 0)?,
                call_id: unsigned(row, 1)?,
                details: payload_text(row, 2)?,
            })
        },
    )
}

fn key_values(tx: &Tx<'_>, sql: &'static str, instance: &str) -> Result<Vec<KeyValueRecord>> {
    tx.all(sql, [instance], |row| {
        Ok(KeyValueRecord {
            key: row.get(0)?,
            value: text(row, 1)?,
            at_ms: shown_ms(row.get(2)?),
        })
    })
}

fn messages(tx: &Tx<'_>, instance: &str) -> Result<Vec<QueuedMessage>> {
    let gone_to = if deletions::contains(tx, instance)? {
        deletions::queued_to(tx, instance)?
    } else {
        None
    };
    tx.all(
        // What waits for a start, is held back or rests could be claimed since it was sent.
        "SELECT work_item, CASE WHEN lock_token = ?3 OR (visible_at = ?4 AND kind = 'QueueMessage')
                     OR visible_at = (SELECT until FROM rests WHERE instance_id = ?1) THEN created_at
                 ELSE visible_at END,
             attempt_count, sender_incarnation, kind, execution_id, operation_id, awaited_by
         FROM orchestrator_queue AS q WHERE instance_id = ?1 AND id > COALESCE(?2, -1)
             -- A child that a deleted instance started does not begin.
             AND NOT EXISTS (SELECT 1 FROM deletions AS d WHERE d.life = q.sender_incarnation) ORDER BY id",
        (
            instance,
            gone_to,
            orchestrator_queue::AWAITING_START,
            orchestrator_queue::HELD_BACK,
        ),
        |row| {
            let json = payload_text(row, 0)?;
            let awaiting = match work_item_from_json(json.as_bytes()) {
                Ok(_) => None,
                Err(_) => awaiting(row)?,
            };
            Ok(QueuedMessage {
                json,
                visible_at_ms: shown_ms(row.get(1)?),
                attempts: row.get(2)?,
                sent_by: stored_incarnation(row, 3)?,
                awaiting,
            })
        },
    )
}

fn awaiting(row: &Row<'_>) -> rusqlite::Result<Option<Awaiting>> {
    let execution: Option<i64> = row.get(5)?;
    let operation: Option<i64> = row.get(6)?;
    let Some((execution_id, operation_id)) = execution.zip(operation) else {
        return Ok(None);
    };
    Ok(Some(Awaiting {
        kind: Awaiting::operation(&payload_text(row, 4)?).to_owned(),
        execution_id: shown_ms(execution_id),
        operation_id: shown_ms(operation_id),
        parent: row.get(7)?,
    }))
}

fn activities(tx: &Tx<'_>, instance: &str) -> Result<Vec<QueuedActivity>> {
    tx.all(
        "SELECT work_item, execution_id, activity_id, name, session_id, tag, visible_at, attempt_count, incarnation
         FROM worker_queue
         WHERE instance_id = ?1 AND id > COALESCE((SELECT work_to FROM deletions WHERE instance_id = ?1), -1)
         ORDER BY id",
        [instance],
        |row| {
            Ok(QueuedActivity {
                json: payload_text(row, 0)?,
                execution_id: unsigned(row, 1)?,
                activity_id: unsigned(row, 2)?,
                name: text(row, 3)?,
                session: row.get(4)?,
                tag: row.get(5)?,
                visible_at_ms: shown_ms(row.get(6)?),
                attempts: row.get(7)?,
                incarnation: stored_incarnation(row, 8)?,
            })
        },
    )
}

/// The empty id stands for dead letters that name no instance.
fn dead_letters(tx: &Tx<'_>, instance: &str) -> Result<Vec<DeadLetterRecord>> {
    let letter = |row: &Row<'_>| {
        Ok(DeadLetterRecord {
            queue: row.get(0)?,
            payload: payload_text(row, 1)?,
            reason: payload_text(row, 2)?,
            dead_lettered_at_ms: shown_ms(row.get(3)?),
            incarnation: stored_incarnation(row, 4)?,
            answered: row.get(5)?,
        })
    };
    if instance.is_empty() {
        return tx.all(
            "SELECT queue, payload, reason, set_aside_at, incarnation, answered FROM dead_letters
             WHERE instance_id IS NULL OR instance_id = '' ORDER BY id",
            [],
            letter,
        );
    }
    tx.all(
        "SELECT queue, payload, reason, set_aside_at, incarnation, answered FROM dead_letters
         WHERE instance_id IS NOT NULL AND instance_id = ?1 ORDER BY id",
        [instance],
        letter,
    )
}
