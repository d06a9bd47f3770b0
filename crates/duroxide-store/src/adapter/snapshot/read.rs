//! Reads everything of one instance from one state.

use duroxide_core::provider::{
    EventRecord, ExecutionRecord, HeartbeatRecord, InstanceRecord, InstanceSnapshot,
    KeyValueRecord, StoredIncarnation,
};

use super::message::{self, Read};
use crate::EventStore;
use crate::adapter::error::{Error, Result};
use crate::adapter::names::{self, DEAD, INSTANCES, TURNS, WORK};
use crate::adapter::read;
use crate::adapter::rows::{self, ExecutionRow, KvRow, UNKNOWN_VERSION};
use crate::atomic::{Answer, Query};
use crate::error::StoreError;
use crate::message::Queue;
use crate::record::Entry;

pub(in crate::adapter) async fn run<S: EventStore>(
    store: &S,
    instance: &str,
) -> Result<InstanceSnapshot> {
    loop {
        let partitions = Query::Partitions {
            entity: instance.to_owned(),
        };
        let known = store.query_one(partitions.clone()).await?;
        let known = known.into_partitions()?;
        let mut queries = vec![partitions];
        queries.extend(questions(instance, &known));
        let mut answers = store.query(queries).await?.into_iter();
        // An execution that began or went meanwhile is asked for anew: one state has all of it.
        if next(&mut answers)?.into_partitions()? == known {
            return assemble(instance, &known, answers);
        }
    }
}

/// What to ask for a snapshot of an instance that has these partitions.
pub(super) fn questions(instance: &str, partitions: &[u64]) -> Vec<Query> {
    let messages = |queue: Queue| Query::Messages {
        queue,
        group: Some(instance.to_owned()),
        after: 0,
        limit: usize::MAX,
    };
    let mut all = vec![
        Query::Entry {
            scope: INSTANCES.to_owned(),
            key: instance.to_owned(),
        },
        Query::all_entries(names::executions(instance)),
        Query::all_entries(names::kv_base(instance)),
        Query::all_entries(names::kv_delta(instance)),
        Query::all_entries(names::heartbeats(instance)),
        messages(TURNS),
        messages(WORK),
        messages(DEAD),
    ];
    all.extend(partitions.iter().map(|partition| Query::Events {
        entity: instance.to_owned(),
        partition: *partition,
        from: 0,
        limit: usize::MAX,
    }));
    all
}

pub(super) fn next(answers: &mut impl Iterator<Item = Answer>) -> Result<Answer> {
    answers
        .next()
        .ok_or_else(|| StoreError::Permanent("the store left a question unanswered".to_owned()))
        .map_err(Error::Store)
}

/// The snapshot that the answers to [`questions`] make.
pub(super) fn assemble(
    instance: &str,
    partitions: &[u64],
    mut answers: impl Iterator<Item = Answer>,
) -> Result<InstanceSnapshot> {
    let record = match next(&mut answers)?.into_entry()? {
        Some(bytes) => Some(record(instance, &bytes)?),
        None => None,
    };
    let mut snapshot = InstanceSnapshot {
        executions: executions(instance, next(&mut answers)?.into_entries()?)?,
        key_values: key_values(instance, next(&mut answers)?.into_entries()?)?,
        key_value_changes: key_values(instance, next(&mut answers)?.into_entries()?)?,
        heartbeats: heartbeats(instance, next(&mut answers)?.into_entries()?)?,
        ..InstanceSnapshot::of(instance)
    };
    let is_paused = record.as_ref().is_some_and(|it| it.paused_at_ms.is_some());
    let mut outlived = Vec::new();
    for one in next(&mut answers)?.into_messages()? {
        match message::read(&one, record.as_ref()) {
            Read::Message(queued) => snapshot.messages.push(queued),
            Read::DeadLetter(letter) => outlived.push(letter),
        }
    }
    let work = next(&mut answers)?.into_messages()?;
    snapshot.activities = work
        .iter()
        .filter_map(|one| message::read_activity(one, is_paused))
        .collect();
    let letters = next(&mut answers)?.into_messages()?;
    snapshot.dead_letters = letters
        .iter()
        .map(message::read_dead_letter)
        .collect::<Result<_>>()?;
    snapshot.dead_letters.extend(outlived);
    for partition in partitions {
        let events = next(&mut answers)?.into_events()?;
        let events = events.into_iter().map(|event| EventRecord {
            id: event.number,
            json: String::from_utf8_lossy(&event.data).into_owned(),
        });
        execution(&mut snapshot.executions, *partition).events = events.collect();
    }
    snapshot.record = record;
    Ok(snapshot)
}

/// The execution of this number; events that were appended without a turn have no row.
fn execution(executions: &mut Vec<ExecutionRecord>, number: u64) -> &mut ExecutionRecord {
    let place = match executions.binary_search_by_key(&number, |it| it.execution_id) {
        Ok(place) => place,
        Err(place) => {
            let only_events = ExecutionRecord {
                execution_id: number,
                ..ExecutionRecord::default()
            };
            executions.insert(place, only_events);
            place
        }
    };
    &mut executions[place]
}

fn record(instance: &str, bytes: &[u8]) -> Result<InstanceRecord> {
    let row = read::decode_instance(instance, bytes)?;
    Ok(InstanceRecord {
        name: row.name,
        version: Some(row.version).filter(|version| version != UNKNOWN_VERSION),
        execution_id: row.execution,
        parent: row.parent,
        incarnation: row.incarnation.map(StoredIncarnation),
        parent_incarnation: row.parent_incarnation.map(StoredIncarnation),
        custom_status: row.custom_status,
        custom_status_version: row.custom_status_version,
        created_at_ms: row.created_at,
        updated_at_ms: row.updated_at,
        paused_at_ms: row.paused_at,
        labels: row.labels,
    })
}

fn executions(instance: &str, entries: Vec<Entry>) -> Result<Vec<ExecutionRecord>> {
    let record = |entry: Entry| {
        let what = || format!("execution {} of {instance}", entry.key);
        let row: ExecutionRow = rows::decode(&entry.value, what)?;
        Ok(ExecutionRecord {
            execution_id: names::parse_execution_key(&entry.key)?,
            status: Some(row.status),
            output: row.output,
            started_at_ms: row.started_at,
            ended_at_ms: row.completed_at,
            engine_version: row.pinned,
            events: Vec::new(),
        })
    };
    entries.into_iter().map(record).collect()
}

fn key_values(instance: &str, entries: Vec<Entry>) -> Result<Vec<KeyValueRecord>> {
    let record = |entry: Entry| {
        let what = || format!("key {} of instance {instance}", entry.key);
        let row: KvRow = rows::decode(&entry.value, what)?;
        Ok(KeyValueRecord {
            value: row.value,
            at_ms: row.at,
            key: entry.key,
        })
    };
    entries.into_iter().map(record).collect()
}

fn heartbeats(instance: &str, entries: Vec<Entry>) -> Result<Vec<HeartbeatRecord>> {
    let record = |entry: Entry| {
        let bad = |reason: &str| {
            Error::undecodable(format!("heartbeat {} of {instance}", entry.key), reason)
        };
        let (execution, call) = entry.key.split_once('/').ok_or_else(|| bad("no call"))?;
        Ok(HeartbeatRecord {
            execution_id: names::parse_execution_key(execution)?,
            call_id: call.parse().map_err(|_| bad("no number"))?,
            details: String::from_utf8(entry.value.clone()).map_err(|_| bad("no text"))?,
        })
    };
    entries.into_iter().map(record).collect()
}
