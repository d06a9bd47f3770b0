//! Restores an instance: one batch, guarded by that there is none.

use duroxide_core::Event;
use duroxide_core::provider::rules::{Refusal, event_from_json};
use duroxide_core::provider::{
    ExecutionRecord, Incarnation, InstanceRecord, InstanceSnapshot, KeyValueRecord, OutcomeStatus,
    Restoring, StoredIncarnation,
};

use super::message;
use crate::adapter::error::{Error, Result};
use crate::adapter::names::{self, DEAD, INSTANCES, RUNNING_INSTANCES, TURNS, WORK};
use crate::adapter::rows::{
    self, ExecutionRow, InstanceRow, KvRow, Outcome, RUNNING, UNKNOWN_VERSION,
};
use crate::adapter::{closing, turn};
use crate::atomic::{Batch, Operation};
use crate::record::Record;
use crate::{EventStore, StoreError};

/// The caller lets one restore run at a time: a batch cannot make sure that a queue is empty.
pub(in crate::adapter) async fn run<S: EventStore>(
    store: &S,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
) -> Result<Restoring> {
    let instance = &snapshot.instance_id;
    if let Err(why) = snapshot.check() {
        let what = format!("the snapshot of {instance}");
        return Err(Error::Refused(Refusal::Unstorable { what, why }));
    }
    if let Some(other) = unexpected(store, closed).await? {
        return Ok(other);
    }
    if !super::take(store, instance).await?.is_empty() {
        return Ok(Restoring::Exists);
    }
    let batch = Batch {
        topics: vec![instance.clone()],
        ..Batch::of(operations(snapshot)?)
    };
    let guarded = batch
        .guarded_by(closing::is(closed))
        .guarded_by(names::unchanged(instance, None));
    match store.commit(guarded).await {
        Ok(_) => Ok(Restoring::Done),
        Err(StoreError::Conflict(_)) => {
            let unexpected = unexpected(store, closed).await?;
            // It began meanwhile.
            Ok(unexpected.unwrap_or(Restoring::Exists))
        }
        Err(error) => Err(error.into()),
    }
}

/// That the store is not closed as the caller expects.
async fn unexpected<S: EventStore>(store: &S, closed: Option<&str>) -> Result<Option<Restoring>> {
    let reason = closing::reason(store).await?;
    let is_expected = reason.as_deref() == closed;
    Ok((!is_expected).then_some(Restoring::Unexpected(reason)))
}

fn operations(snapshot: &InstanceSnapshot) -> Result<Vec<Operation>> {
    let instance = &snapshot.instance_id;
    let mut operations = Vec::new();
    for execution in &snapshot.executions {
        write_execution(instance, execution, &mut operations)?;
    }
    if let Some(record) = &snapshot.record {
        write_record(snapshot, record, &mut operations)?;
    }
    let layers = [
        (names::kv_base(instance), &snapshot.key_values),
        (names::kv_delta(instance), &snapshot.key_value_changes),
    ];
    for (scope, values) in layers {
        for one in values {
            operations.push(key_value(&scope, one)?);
        }
    }
    for heartbeat in &snapshot.heartbeats {
        operations.push(Operation::Put {
            scope: names::heartbeats(instance),
            key: names::heartbeat_key(heartbeat.execution_id, heartbeat.call_id),
            value: heartbeat.details.clone().into_bytes(),
        });
    }
    for queued in &snapshot.messages {
        let (new, item) = message::restored(instance, queued, snapshot.record.as_ref())?;
        let asked_by = item.as_ref().and_then(|item| item.starts_child_of());
        // A deletion of the parent finds the child that has not begun.
        if let (Some(parent), None) = (asked_by, &snapshot.record) {
            let incarnation = queued.sent_by.and_then(StoredIncarnation::incarnation);
            operations.push(Operation::Put {
                scope: names::asked(parent),
                key: instance.clone(),
                value: names::child_value(incarnation),
            });
        }
        operations.push(Operation::Enqueue {
            queue: TURNS,
            message: new,
        });
    }
    for activity in &snapshot.activities {
        operations.push(Operation::Enqueue {
            queue: WORK,
            message: message::restored_activity(instance, activity),
        });
    }
    for letter in &snapshot.dead_letters {
        operations.push(Operation::Enqueue {
            queue: DEAD,
            message: message::restored_dead_letter(instance, letter)?,
        });
    }
    Ok(operations)
}

fn key_value(scope: &str, one: &KeyValueRecord) -> Result<Operation> {
    let row = KvRow {
        value: one.value.clone(),
        at: one.at_ms,
    };
    Ok(Operation::Put {
        scope: scope.to_owned(),
        key: one.key.clone(),
        value: rows::encode(&row)?,
    })
}

/// The events of an execution that can be read.
fn events(instance: &str, execution: &ExecutionRecord) -> Vec<Event> {
    let read = |json: &str| event_from_json(instance, json.as_bytes()).ok();
    let events = execution.events.iter();
    events.filter_map(|event| read(&event.json)).collect()
}

/// The row of an execution, with what it keeps beside the history.
fn execution_row(
    instance: &str,
    execution: &ExecutionRecord,
    status: &str,
) -> Result<ExecutionRow> {
    let events = events(instance, execution);
    let mut row = ExecutionRow {
        status: status.to_owned(),
        output: execution.output.clone(),
        started_at: execution.started_at_ms,
        completed_at: execution.ended_at_ms,
        pinned: execution.engine_version.clone(),
        handler: events.iter().find_map(Event::started_handler),
        outcome: None,
    };
    let ended = events.iter().rev().find_map(OutcomeStatus::of_event);
    if let Some(outcome) = ended.and_then(Outcome::of) {
        row.set_outcome(&outcome)?;
    }
    Ok(row)
}

fn write_execution(
    instance: &str,
    execution: &ExecutionRecord,
    operations: &mut Vec<Operation>,
) -> Result<()> {
    if let Some(status) = &execution.status {
        operations.push(Operation::Put {
            scope: names::executions(instance),
            key: names::execution_key(execution.execution_id),
            value: rows::encode(&execution_row(instance, execution, status)?)?,
        });
    }
    let records = execution.events.iter().map(|event| Record {
        number: event.id,
        data: event.json.clone().into_bytes(),
    });
    operations.push(Operation::Append {
        entity: instance.to_owned(),
        partition: execution.execution_id,
        events: records.collect(),
    });
    Ok(())
}

fn write_record(
    snapshot: &InstanceSnapshot,
    record: &InstanceRecord,
    operations: &mut Vec<Operation>,
) -> Result<()> {
    let instance = &snapshot.instance_id;
    let current = snapshot.current();
    let version = record.version.as_deref().unwrap_or(UNKNOWN_VERSION);
    let current_row = match current.and_then(|it| it.status.as_deref().map(|status| (it, status))) {
        Some((execution, status)) => {
            let mut row = execution_row(instance, execution, status)?;
            let named = (record.name.clone(), version.to_owned());
            row.handler = row.handler.or(Some(named));
            Some(row)
        }
        None => None,
    };
    let last_event = current.and_then(|it| it.events.iter().map(|event| event.id).max());
    let row = InstanceRow {
        name: record.name.clone(),
        version: version.to_owned(),
        execution: record.execution_id,
        created_at: record.created_at_ms,
        updated_at: record.updated_at_ms,
        parent: record.parent.clone(),
        custom_status: record.custom_status.clone(),
        custom_status_version: record.custom_status_version,
        incarnation: record
            .incarnation
            .map(|StoredIncarnation(incarnation)| incarnation),
        parent_incarnation: record
            .parent_incarnation
            .map(|StoredIncarnation(incarnation)| incarnation),
        last_event: last_event.unwrap_or(0),
        current: current_row.as_ref().map(ExecutionRow::summary),
        key_values: !snapshot.key_values.is_empty() || !snapshot.key_value_changes.is_empty(),
        paused_at: record.paused_at_ms,
        labels: record.labels.clone(),
        blocked: None,
    };
    operations.push(Operation::Put {
        scope: INSTANCES.to_owned(),
        key: instance.clone(),
        value: rows::encode(&row)?,
    });
    if let Some(parent) = &record.parent {
        let incarnation: Option<Incarnation> = record
            .parent_incarnation
            .and_then(StoredIncarnation::incarnation);
        operations.push(Operation::Put {
            scope: names::children(parent),
            key: instance.clone(),
            value: names::child_value(incarnation),
        });
    }
    let Some(current) = current_row else {
        return Ok(());
    };
    if current.status == RUNNING {
        operations.push(Operation::Put {
            scope: RUNNING_INSTANCES.to_owned(),
            key: instance.clone(),
            value: Vec::new(),
        });
    }
    let (label, kind) = turn::labels(&current);
    operations.push(Operation::SetLabel {
        queue: TURNS,
        group: instance.clone(),
        label,
        kind,
    });
    Ok(())
}
