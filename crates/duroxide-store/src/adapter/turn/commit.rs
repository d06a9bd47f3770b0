//! Committing a turn: one guarded batch. The rows are read first and written by the batch; the lease keeps them still
//! in between, and the batch fails if it was lost.

use duroxide_core::provider::{ExecutionMetadata, ScheduledActivityIdentifier};
use duroxide_core::{Event, WorkItem};

use super::{kv, plan};
use crate::EventStore;
use crate::adapter::error::{Error, Result};
use crate::adapter::names;
use crate::adapter::rows::{self, ExecutionRow, InstanceRow, RUNNING};
use crate::adapter::token::TurnToken;
use crate::atomic::{Answer, Batch, Guard, Query};
use crate::lease::LeaseToken;

/// Everything one turn writes: committed together or not at all.
#[derive(Debug)]
pub(in crate::adapter) struct Turn<'a> {
    pub(in crate::adapter) lock_token: &'a str,
    pub(in crate::adapter) execution: u64,
    pub(in crate::adapter) history: Vec<Event>,
    pub(in crate::adapter) to_workers: Vec<WorkItem>,
    pub(in crate::adapter) to_orchestrators: Vec<WorkItem>,
    pub(in crate::adapter) metadata: ExecutionMetadata,
    pub(in crate::adapter) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// What is stored before the turn.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) row: Option<InstanceRow>,
    pub(super) execution: Option<ExecutionRow>,
    pub(super) key_values: kv::Stored,
}

impl Turn<'_> {
    /// Whether the turn ends its execution.
    pub(super) fn ends(&self) -> bool {
        let status = self.metadata.status.as_deref();
        status.is_some_and(|status| status != RUNNING)
    }
}

pub(in crate::adapter) async fn run<S: EventStore>(store: &S, turn: Turn<'_>) -> Result<()> {
    let token = TurnToken::parse(turn.lock_token)?;
    let (lease, instance) = (token.lease.clone(), token.instance);
    let before = read_before(store, &lease, instance, &turn).await?;
    if turn.history.iter().any(|event| event.event_id == 0) {
        return Err(Error::ZeroEventId);
    }
    let operations = plan::run(&token, &turn, before, store.now_ms())?;
    let batch = Batch {
        guards: vec![Guard::Lease(lease)],
        operations,
        topics: vec![instance.to_owned()],
    };
    store.commit(batch).await?;
    Ok(())
}

async fn read_before<S: EventStore>(
    store: &S,
    lease: &LeaseToken,
    instance: &str,
    turn: &Turn<'_>,
) -> Result<Before> {
    let mut queries = vec![
        Query::Lease {
            token: lease.clone(),
        },
        Query::Entry {
            scope: names::INSTANCES.to_owned(),
            key: instance.to_owned(),
        },
        Query::Entry {
            scope: names::executions(instance),
            key: names::execution_key(turn.execution),
        },
    ];
    if turn.ends() || turn.history.iter().any(kv::touches) {
        queries.push(Query::all_entries(names::kv_base(instance)));
        queries.push(Query::all_entries(names::kv_delta(instance)));
    }
    let mut answers = store.query(queries).await?.into_iter();
    let held = match answers.next() {
        Some(answer) => answer.into_lease()?,
        None => None,
    };
    if !held.is_some_and(|held| held.valid && held.group == instance) {
        let lost = format!("lease {lease} is unknown or expired");
        return Err(Error::InvalidToken(lost));
    }
    Ok(Before {
        row: entry(answers.next(), || format!("row of instance {instance}"))?,
        execution: entry(answers.next(), || {
            format!("row of execution {} of {instance}", turn.execution)
        })?,
        key_values: key_values(instance, answers.next(), answers.next())?,
    })
}

fn entry<T: serde::de::DeserializeOwned>(
    answer: Option<Answer>,
    what: impl FnOnce() -> String,
) -> Result<Option<T>> {
    let Some(answer) = answer else {
        return Ok(None);
    };
    match answer.into_entry()? {
        Some(bytes) => rows::decode(&bytes, what).map(Some),
        None => Ok(None),
    }
}

fn key_values(instance: &str, base: Option<Answer>, delta: Option<Answer>) -> Result<kv::Stored> {
    let (Some(base), Some(delta)) = (base, delta) else {
        return Ok(kv::Stored::default());
    };
    let base = base.into_entries()?.into_iter().map(|entry| entry.key);
    let mut stored = kv::Stored {
        base: base.collect(),
        ..kv::Stored::default()
    };
    for entry in delta.into_entries()? {
        let what = || format!("key {} of instance {instance}", entry.key);
        let row = rows::decode(&entry.value, what)?;
        stored.delta.insert(entry.key, row);
    }
    Ok(stored)
}
