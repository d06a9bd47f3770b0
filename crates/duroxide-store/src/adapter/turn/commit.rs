//! Committing a turn: one guarded batch. What is stored before is known from the claim or read first; the batch is
//! guarded by the lease and by what is known, so it fails if either is no longer true.

use duroxide_core::INITIAL_EXECUTION_ID;
use duroxide_core::defect::Defect;

use super::input::{Before, TurnWritesInput};
use super::{kv, load, plan};
use crate::adapter::error::{Error, Result};
use crate::adapter::kept::Seen;
use crate::adapter::rows::{self, CONTINUED, InstanceRow, RUNNING};
use crate::adapter::token::TurnToken;
use crate::adapter::{StoreProvider, closing, names};
use crate::atomic::{Answer, Batch, Guard, Query};
use crate::{EventStore, StoreError};

pub(in crate::adapter) async fn run<S: EventStore>(
    provider: &StoreProvider<S>,
    turn: TurnWritesInput<'_>,
) -> Result<()> {
    let token = TurnToken::parse(turn.lock_token)?;
    let store = &*provider.store;
    let seen = provider.kept.take(&token.lease, token.instance);
    if let Some(before) = seen.and_then(|seen| known(&token, &turn, seen)) {
        match write(store, &token, &turn, before).await {
            // The row was written to beside the turn, or the turn's events exist: what is stored can tell.
            Err(Error::Store(StoreError::Conflict(_))) => {}
            result => return result,
        }
    }
    let before = read(store, &token, &turn).await?;
    write(store, &token, &turn, before).await
}

async fn write<S: EventStore>(
    store: &S,
    token: &TurnToken<'_>,
    turn: &TurnWritesInput<'_>,
    mut before: Before,
) -> Result<()> {
    if turn.history.iter().any(|event| event.event_id == 0) {
        return Err(Error::event_without_id(token.instance));
    }
    let mut guards = vec![Guard::Lease(token.lease.clone())];
    if Defect::UnfencedCommit.is_on() {
        guards.clear();
    }
    guards.extend(before.guard.take());
    let operations = plan::run(token, turn, before, store.now_ms())?;
    let batch = Batch {
        guards,
        operations,
        topics: vec![token.instance.to_owned()],
    };
    closing::commit(store, batch).await?;
    Ok(())
}

/// What the claim saw, if that is all the turn needs to know.
fn known(token: &TurnToken<'_>, turn: &TurnWritesInput<'_>, seen: Seen) -> Option<Before> {
    match seen {
        Seen::Unborn => (turn.execution == INITIAL_EXECUTION_ID).then(|| Before {
            guard: Some(names::unchanged(token.instance, None)),
            ..Before::default()
        }),
        Seen::Row(bytes) => {
            let row = InstanceRow::read(&bytes).ok()?;
            let current = row.current.clone()?;
            // What has ended is read: how it ended is not in the row of the instance.
            let execution = match current.status.as_str() {
                RUNNING if row.execution == turn.execution => Some(current),
                CONTINUED if row.execution + 1 == turn.execution => None,
                _ => return None,
            };
            let keys = row.key_values && (turn.ends() || turn.clears_all_keys());
            (!keys).then(|| Before {
                row: Some(row),
                execution,
                guard: Some(names::unchanged(token.instance, Some(&bytes))),
                ..Before::default()
            })
        }
    }
}

async fn read<S: EventStore>(
    store: &S,
    token: &TurnToken<'_>,
    turn: &TurnWritesInput<'_>,
) -> Result<Before> {
    let instance = token.instance;
    let mut queries = vec![
        Query::Lease {
            token: token.lease.clone(),
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
    if turn.ends() || turn.clears_all_keys() {
        queries.push(Query::all_entries(names::kv_delta(instance)));
    }
    if turn.clears_all_keys() {
        queries.push(Query::all_entries(names::kv_base(instance)));
    }
    let mut answers = store.query(queries).await?.into_iter();
    let mut next = || answers.next().ok_or_else(load::too_few);
    let held = next()?.into_lease()?;
    if !held.is_some_and(|held| held.valid && held.group == instance) {
        let lost = format!("lease {} is unknown or expired", token.lease);
        return Err(Error::InvalidToken(lost));
    }
    let row = next()?.into_entry()?;
    let execution = next()?.into_entry()?;
    // A row that does not decode is replaced: its instance must be able to end.
    let execution = execution.map(|bytes| serde_json::from_slice(&bytes).unwrap_or_default());
    Ok(Before {
        guard: Some(names::unchanged(instance, row.as_ref())),
        row: row.map(|bytes| {
            InstanceRow::read(&bytes).unwrap_or_else(|_| InstanceRow {
                execution: turn.execution,
                ..InstanceRow::unknown()
            })
        }),
        execution,
        key_values: key_values(answers.next(), answers.next())?,
    })
}

fn key_values(delta: Option<Answer>, base: Option<Answer>) -> Result<kv::Stored> {
    let entries = |answer: Option<Answer>| answer.map_or(Ok(Vec::new()), Answer::into_entries);
    let mut stored = kv::Stored::default();
    for entry in entries(delta)? {
        let row = rows::decode(&entry.value, || entry.key.clone()).ok();
        let layer = kv::Layer {
            row,
            raw: entry.value,
        };
        stored.delta.insert(entry.key, layer);
    }
    let base = entries(base)?.into_iter().map(|entry| entry.key);
    stored.base = base.collect();
    Ok(stored)
}
