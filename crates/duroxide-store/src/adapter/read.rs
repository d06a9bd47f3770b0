//! What clients ask about one instance: history, outcome, custom status, key-values, sizes.

use std::collections::{BTreeMap, HashMap};

use duroxide_core::provider::{InstanceOutcome, OutcomeStatus, SystemStats, rules};
use duroxide_core::{Event, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID};

use super::error::{Error, Result};
use super::names::{self, INSTANCES};
use super::rows::{self, ExecutionRow, InstanceRow, KvRow};
use crate::EventStore;
use crate::atomic::Query;
use crate::record::{Entry, Record};

pub(super) async fn instance_row<S: EventStore>(
    store: &S,
    instance: &str,
) -> Result<Option<InstanceRow>> {
    match store.get(INSTANCES, instance).await? {
        Some(bytes) => decode_instance(instance, &bytes).map(Some),
        None => Ok(None),
    }
}

pub(super) fn decode_instance(instance: &str, bytes: &[u8]) -> Result<InstanceRow> {
    InstanceRow::read(bytes)
        .map_err(|reason| Error::undecodable(format!("row of instance {instance}"), &reason))
}

pub(super) async fn execution_row<S: EventStore>(
    store: &S,
    instance: &str,
    execution: u64,
) -> Result<Option<ExecutionRow>> {
    let key = names::execution_key(execution);
    match store.get(&names::executions(instance), &key).await? {
        Some(bytes) => decode_execution(instance, &key, &bytes).map(Some),
        None => Ok(None),
    }
}

pub(super) fn decode_execution(instance: &str, key: &str, bytes: &[u8]) -> Result<ExecutionRow> {
    rows::decode(bytes, || format!("row of execution {key} of {instance}"))
}

/// Executions with a row, ascending. A row that does not decode is a row all the same.
pub(super) async fn executions<S: EventStore>(
    store: &S,
    instance: &str,
) -> Result<Vec<(u64, ExecutionRow)>> {
    let entries = store.entries(&names::executions(instance)).await?;
    let rows = entries.iter().map(|entry| {
        let row = serde_json::from_slice(&entry.value).unwrap_or_default();
        Ok((names::parse_execution_key(&entry.key)?, row))
    });
    rows.collect()
}

/// The highest execution with a row, 1 if there is none.
pub(super) async fn latest_execution<S: EventStore>(store: &S, instance: &str) -> Result<u64> {
    if let Some(row) = instance_row(store, instance).await? {
        return Ok(row.execution);
    }
    let entries = store.entries(&names::executions(instance)).await?;
    match entries.last() {
        Some(entry) => names::parse_execution_key(&entry.key),
        None => Ok(INITIAL_EXECUTION_ID),
    }
}

pub(super) async fn records<S: EventStore>(
    store: &S,
    instance: &str,
    execution: u64,
) -> Result<Vec<Record>> {
    Ok(store.events(instance, execution, 0).await?)
}

pub(super) fn decode_event(instance: &str, execution: u64, record: &Record) -> Result<Event> {
    rows::decode(&record.data, || {
        format!("event {} of {instance}/{execution}", record.number)
    })
}

pub(super) async fn history<S: EventStore>(
    store: &S,
    instance: &str,
    execution: u64,
) -> Result<Vec<Event>> {
    let records = records(store, instance, execution).await?;
    let events = records
        .iter()
        .map(|record| decode_event(instance, execution, record));
    events.collect()
}

pub(super) async fn latest_history<S: EventStore>(store: &S, instance: &str) -> Result<Vec<Event>> {
    let execution = latest_execution(store, instance).await?;
    history(store, instance, execution).await
}

pub(super) async fn outcome<S: EventStore>(
    store: &S,
    instance: &str,
) -> Result<Option<InstanceOutcome>> {
    let row = instance_row(store, instance).await?;
    let execution = match &row {
        Some(row) => row.execution,
        None => latest_execution(store, instance).await?,
    };
    let status = match execution_row(store, instance, execution).await? {
        Some(row) if row.is_live() => Some(OutcomeStatus::Running),
        Some(row) => row.outcome().map(rows::Outcome::into_status),
        None => None,
    };
    let found = match status {
        Some(status) => Some(InstanceOutcome {
            execution_id: execution,
            status,
            custom_status: None,
            custom_status_version: 0,
        }),
        // Appended without a turn, or ended without a closing event: only the history can tell.
        None => InstanceOutcome::of_history(&history(store, instance, execution).await?),
    };
    Ok(found.map(|outcome| InstanceOutcome {
        custom_status: row.as_ref().and_then(|row| row.custom_status.clone()),
        custom_status_version: row.as_ref().map_or(0, |row| row.custom_status_version),
        ..outcome
    }))
}

pub(super) async fn execution_handler<S: EventStore>(
    store: &S,
    instance: &str,
    execution: u64,
) -> Result<Option<(String, String)>> {
    let row = execution_row(store, instance, execution).await?;
    if let Some(handler) = row.and_then(|row| row.handler) {
        return Ok(Some(handler));
    }
    let history = history(store, instance, execution).await?;
    Ok(history.iter().find_map(Event::started_handler))
}

pub(super) async fn custom_status<S: EventStore>(
    store: &S,
    instance: &str,
    last_seen: u64,
) -> Result<Option<(Option<String>, u64)>> {
    let row = instance_row(store, instance).await?;
    let newer = row.filter(|row| row.custom_status_version > last_seen);
    Ok(newer.map(|row| (row.custom_status, row.custom_status_version)))
}

pub(super) async fn kv_value<S: EventStore>(
    store: &S,
    instance: &str,
    key: &str,
) -> Result<Option<String>> {
    let entry = |scope| Query::Entry {
        scope,
        key: key.to_owned(),
    };
    let layers = vec![
        entry(names::kv_delta(instance)),
        entry(names::kv_base(instance)),
    ];
    for answer in store.query(layers).await? {
        if let Some(bytes) = answer.into_entry()? {
            return Ok(decode_kv(instance, key, &bytes)?.value);
        }
    }
    Ok(None)
}

pub(super) async fn kv_all<S: EventStore>(
    store: &S,
    instance: &str,
) -> Result<HashMap<String, String>> {
    let layers = vec![
        Query::all_entries(names::kv_base(instance)),
        Query::all_entries(names::kv_delta(instance)),
    ];
    let mut values = BTreeMap::new();
    for answer in store.query(layers).await? {
        overlay(instance, answer.into_entries()?, &mut values)?;
    }
    let present = values.into_iter().filter_map(|(k, v)| Some((k, v?)));
    Ok(present.collect())
}

fn overlay(
    instance: &str,
    entries: Vec<Entry>,
    values: &mut BTreeMap<String, Option<String>>,
) -> Result<()> {
    for entry in entries {
        let row = decode_kv(instance, &entry.key, &entry.value)?;
        values.insert(entry.key, row.value);
    }
    Ok(())
}

fn decode_kv(instance: &str, key: &str, bytes: &[u8]) -> Result<KvRow> {
    rows::decode(bytes, || format!("key {key} of instance {instance}"))
}

pub(super) async fn stats<S: EventStore>(store: &S, instance: &str) -> Result<Option<SystemStats>> {
    let Some(row) = instance_row(store, instance).await? else {
        return Ok(None);
    };
    let sizes = store.partition(instance, row.execution).await?;
    let first = Query::Events {
        entity: instance.to_owned(),
        partition: row.execution,
        from: INITIAL_EVENT_ID,
        limit: 1,
    };
    let mut carried = 0;
    for record in store.query_one(first).await?.into_events()? {
        let started = decode_event(instance, row.execution, &record)?;
        carried = rules::carried_messages(&started.kind) as u64;
    }
    let values = kv_all(store, instance).await?;
    Ok(Some(SystemStats {
        history_event_count: sizes.events,
        history_size_bytes: sizes.bytes,
        queue_pending_count: carried,
        kv_user_key_count: values.len() as u64,
        kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
    }))
}
