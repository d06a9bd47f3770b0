//! Writes all rows of one instance. The caller made sure that there are none.

use duroxide_core::provider::rules::{event_from_json, lane, work_item_from_json};
use duroxide_core::provider::{
    EventRecord, ExecutionRecord, ExecutionStatus, InstanceRecord, InstanceSnapshot,
    KeyValueRecord, QueuedMessage, StoredIncarnation,
};
use semver::Version;

use crate::error::Result;
use crate::tables::orchestrator_queue::{self, Asks, Due, NewMessage};
use crate::tables::{deletions, labels, pauses};
use crate::tx::{Tx, Unsigned, stored_ms};

/// Whether any table has a row of the instance.
pub(crate) fn is_held(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let found = tx.one(
        "SELECT EXISTS (SELECT 1 FROM instances WHERE instance_id = ?1)
             OR EXISTS (SELECT 1 FROM executions WHERE instance_id = ?1)
             OR EXISTS (SELECT 1 FROM history WHERE instance_id = ?1)
             OR EXISTS (SELECT 1 FROM orchestrator_queue WHERE instance_id = ?1)
             OR EXISTS (SELECT 1 FROM worker_queue WHERE instance_id = ?1)
             OR EXISTS (SELECT 1 FROM dead_letters WHERE instance_id IS NOT NULL AND instance_id = ?1)
             OR (?1 = '' AND EXISTS (SELECT 1 FROM dead_letters WHERE instance_id IS NULL))",
        [instance],
        |row| row.get(0),
    )?;
    Ok(found || deletions::contains(tx, instance)?)
}

/// Everything but executions and events.
pub(crate) fn write(tx: &mut Tx<'_>, snapshot: &InstanceSnapshot) -> Result<()> {
    let instance = &snapshot.instance_id;
    write_heartbeats(tx, snapshot)?;
    if let Some(record) = &snapshot.record {
        write_record(tx, snapshot, record)?;
    }
    for one in &snapshot.key_values {
        key_value(
            tx,
            "INSERT INTO kv_store (instance_id, key, value, last_updated_at_ms) VALUES (?1, ?2, ?3, ?4)",
            instance,
            one,
        )?;
    }
    for one in &snapshot.key_value_changes {
        key_value(
            tx,
            "INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms) VALUES (?1, ?2, ?3, ?4)",
            instance,
            one,
        )?;
    }
    write_messages(tx, snapshot)?;
    write_activities(tx, snapshot)?;
    for letter in &snapshot.dead_letters {
        tx.execute(
            "INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at, incarnation, answered)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                &letter.queue,
                Some(instance).filter(|id| !id.is_empty()),
                &letter.payload,
                &letter.reason,
                stored_ms(letter.dead_lettered_at_ms),
                letter.incarnation.map(|StoredIncarnation(incarnation)| incarnation),
                letter.answered,
            ),
        )?;
    }
    Ok(())
}

fn write_record(tx: &Tx<'_>, snapshot: &InstanceSnapshot, record: &InstanceRecord) -> Result<()> {
    let instance = &snapshot.instance_id;
    tx.execute(
        "INSERT INTO instances (instance_id, orchestration_name, orchestration_version, current_execution_id,
             parent_instance_id, created_at, updated_at, incarnation, parent_incarnation, lane, custom_status,
             custom_status_version, memo)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        (
            instance,
            &record.name,
            &record.version,
            Unsigned(record.execution_id),
            &record.parent,
            stored_ms(record.created_at_ms),
            stored_ms(record.updated_at_ms),
            record.incarnation.map(|StoredIncarnation(incarnation)| incarnation),
            record.parent_incarnation.map(|StoredIncarnation(incarnation)| incarnation),
            lane_of(snapshot, record),
            &record.custom_status,
            Unsigned(record.custom_status_version),
            snapshot.memo(),
        ),
    )?;
    labels::restore(
        tx,
        instance,
        &record.labels,
        stored_ms(record.created_at_ms),
    )?;
    if let Some(at) = record.paused_at_ms {
        pauses::restore(tx, instance, stored_ms(at))?;
    }
    Ok(())
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

/// An execution, without its events; nothing if only events are there of it.
pub(crate) fn write_execution(
    tx: &Tx<'_>,
    instance: &str,
    execution: &ExecutionRecord,
) -> Result<()> {
    let Some(status) = &execution.status else {
        return Ok(());
    };
    let pinned = execution.engine_version.as_deref();
    let pinned = pinned.and_then(|text| Version::parse(text).ok());
    tx.execute(
        "INSERT INTO executions (instance_id, execution_id, status, output, started_at, completed_at,
             duroxide_version_major, duroxide_version_minor, duroxide_version_patch, duroxide_version_pre)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            instance,
            Unsigned(execution.execution_id),
            status,
            &execution.output,
            stored_ms(execution.started_at_ms),
            execution.ended_at_ms.map(stored_ms),
            pinned.as_ref().map(|version| Unsigned(version.major)),
            pinned.as_ref().map(|version| Unsigned(version.minor)),
            pinned.as_ref().map(|version| Unsigned(version.patch)),
            pinned
                .as_ref()
                .map(|version| version.pre.as_str())
                .filter(|pre| !pre.is_empty()),
        ),
    )?;
    Ok(())
}

pub(crate) fn write_event(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    event: &EventRecord,
) -> Result<()> {
    let read = event_from_json(instance, event.json.as_bytes());
    let kind = read.map_or("Unreadable", |event| event.kind.wire_name());
    tx.execute(
        "INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            instance,
            Unsigned(execution_id),
            Unsigned(event.id),
            kind,
            &event.json,
            tx.now,
        ),
    )?;
    Ok(())
}

fn write_heartbeats(tx: &Tx<'_>, snapshot: &InstanceSnapshot) -> Result<()> {
    for heartbeat in &snapshot.heartbeats {
        tx.execute(
            "INSERT INTO heartbeats (instance_id, execution_id, call_id, details, said_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            (
                &snapshot.instance_id,
                Unsigned(heartbeat.execution_id),
                Unsigned(heartbeat.call_id),
                &heartbeat.details,
                tx.now,
            ),
        )?;
    }
    Ok(())
}

fn key_value(tx: &Tx<'_>, sql: &'static str, instance: &str, one: &KeyValueRecord) -> Result<()> {
    let at = stored_ms(one.at_ms);
    tx.execute(sql, (instance, &one.key, &one.value, at))?;
    Ok(())
}

/// What the columns beside the text say of a message.
#[derive(Default)]
struct Columns {
    kind: String,
    begins: Option<String>,
    answers: Option<(i64, i64)>,
    awaited_by: Option<String>,
    carries: bool,
    asks: Option<Asks>,
}

fn columns(message: &QueuedMessage) -> Result<Columns> {
    if let Ok(item) = work_item_from_json(message.json.as_bytes()) {
        let row = NewMessage::of(&item, Due::After(None))?;
        return Ok(Columns {
            kind: row.kind.to_owned(),
            begins: row.begins,
            answers: row.answers,
            awaited_by: row.starts_child_of,
            carries: row.carries,
            asks: row.asks,
        });
    }
    Ok(match &message.awaiting {
        Some(awaiting) => Columns {
            kind: awaiting.kind.clone(),
            answers: Some((
                stored_ms(awaiting.execution_id),
                stored_ms(awaiting.operation_id),
            )),
            awaited_by: awaiting.parent.clone(),
            ..Columns::default()
        },
        None => Columns {
            kind: "Unreadable".to_owned(),
            ..Columns::default()
        },
    })
}

fn write_messages(tx: &mut Tx<'_>, snapshot: &InstanceSnapshot) -> Result<()> {
    let instance = &snapshot.instance_id;
    let mut first = i64::MAX;
    for message in &snapshot.messages {
        let columns = columns(message)?;
        let asked_at = columns.asks.map(|asks| match asks {
            Asks::ToCancel => tx.now,
            Asks::ToTerminate => 0,
        });
        if let Some(memory) = tx.memory() {
            memory.message_enqueued(instance);
            if let Some(at) = asked_at {
                memory.cancel_enqueued(at);
            }
        }
        let visible_at = stored_ms(message.visible_at_ms);
        first = first.min(visible_at);
        tx.execute(
            "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, sender_incarnation,
                 execution_id, operation_id, lane, awaited_by, carries, asked_at, attempt_count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            (
                instance,
                &columns.kind,
                &message.json,
                visible_at,
                tx.now,
                message.sent_by.map(|StoredIncarnation(incarnation)| incarnation),
                columns.answers.map(|(execution, _)| execution),
                columns.answers.map(|(_, operation)| operation),
                &columns.begins,
                &columns.awaited_by,
                columns.carries.then_some(1),
                asked_at,
                message.attempts,
            ),
        )?;
    }
    if !snapshot.messages.is_empty() {
        orchestrator_queue::choose_head(tx, instance)?;
        tx.effects.turn_claimable_at(first);
    }
    Ok(())
}

fn write_activities(tx: &mut Tx<'_>, snapshot: &InstanceSnapshot) -> Result<()> {
    for activity in &snapshot.activities {
        let visible_at = stored_ms(activity.visible_at_ms);
        tx.execute(
            "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, session_id, tag, visible_at,
                 created_at, incarnation, name, attempt_count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            (
                &snapshot.instance_id,
                Unsigned(activity.execution_id),
                Unsigned(activity.activity_id),
                &activity.json,
                &activity.session,
                &activity.tag,
                visible_at,
                tx.now.min(visible_at),
                activity.incarnation.map(|StoredIncarnation(incarnation)| incarnation),
                &activity.name,
                activity.attempts,
            ),
        )?;
        tx.effects.work_claimable_at(visible_at);
    }
    Ok(())
}
