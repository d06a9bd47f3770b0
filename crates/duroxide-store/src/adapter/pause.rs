//! Pausing: the row of the instance says so, and a claim that meets it gives back what it took.
//!
//! A group of messages rests until another one comes or the pause ends; activities come back after a while. Both are
//! guarded by the row, so that nothing is put to rest after the instance was resumed.

use duroxide_core::provider::{Incarnation, Pausing};

use super::error::{Error, Result};
use super::names::{self, INSTANCES, TURNS, WORK};
use super::rows::{self, ExecutionRow, InstanceRow};
use super::turn;
use super::{closing, ms, read};
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::lease::After;
use crate::message::Claimed;
use crate::{EventStore, StoreError};

/// After this time a claim looks at a waiting activity again. The end of the pause brings it back at once.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);
/// Activities that are due within this time come by themselves when a pause ends.
const SOON_MS: u64 = 1_000;
/// Activities that are brought back in one step.
const STEP: usize = 500;

/// The row of an instance, as it is stored and as it reads.
pub(super) struct Found {
    bytes: Vec<u8>,
    pub(super) row: InstanceRow,
    current: Option<ExecutionRow>,
}

pub(super) async fn find<S: EventStore>(store: &S, instance: &str) -> Result<Option<Found>> {
    let Some(bytes) = store.get(INSTANCES, instance).await? else {
        return Ok(None);
    };
    let row = read::decode_instance(instance, &bytes)?;
    let current = match row.current.clone() {
        Some(current) => Some(current),
        None => {
            let executions = read::executions(store, instance).await?;
            executions.into_iter().last().map(|(_, row)| row)
        }
    };
    let found = Found {
        bytes,
        row,
        current,
    };
    Ok(Some(found))
}

/// The same, if it is this life of the id.
async fn find_life<S: EventStore>(
    store: &S,
    instance: &str,
    life: Option<Incarnation>,
) -> Result<Option<Found>> {
    let found = find(store, instance).await?;
    Ok(found.filter(|found| life.is_none() || found.row.incarnation() == life))
}

impl Found {
    /// The row as it was read.
    pub(super) fn bytes(&self) -> &Vec<u8> {
        &self.bytes
    }

    /// Whether the instance has something to do.
    pub(super) fn is_live(&self) -> bool {
        self.current.as_ref().is_some_and(ExecutionRow::is_live)
    }
}

/// Writes a row if it is still the one that was read.
pub(super) async fn replace<S: EventStore>(
    store: &S,
    instance: &str,
    found: &Found,
    row: &InstanceRow,
    also: Option<Operation>,
) -> Result<bool> {
    let put = Operation::Put {
        scope: INSTANCES.to_owned(),
        key: instance.to_owned(),
        value: rows::encode(row)?,
    };
    let batch = Batch {
        topics: vec![instance.to_owned()],
        ..Batch::of(std::iter::once(put).chain(also))
    };
    let guard = names::unchanged(instance, Some(&found.bytes));
    match closing::commit(store, batch.guarded_by(guard)).await {
        Ok(_) => Ok(true),
        Err(Error::Store(StoreError::Conflict(_))) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) async fn since<S: EventStore>(store: &S, instance: &str) -> Result<Option<u64>> {
    Ok(find(store, instance).await?.and_then(|it| it.row.paused_at))
}

pub(super) async fn pause<S: EventStore>(
    store: &S,
    instance: &str,
    life: Option<Incarnation>,
) -> Result<Pausing> {
    loop {
        let Some(found) = find_life(store, instance, life).await? else {
            return Ok(Pausing::NoSuchInstance);
        };
        if !found.current.as_ref().is_some_and(ExecutionRow::is_live) {
            return Ok(Pausing::Ended);
        }
        if found.row.paused_at.is_some() {
            return Ok(Pausing::Unchanged);
        }
        let row = InstanceRow {
            paused_at: Some(store.now_ms()),
            ..found.row.clone()
        };
        if replace(store, instance, &found, &row, None).await? {
            return Ok(Pausing::Done);
        }
    }
}

pub(super) async fn resume<S: EventStore>(
    store: &S,
    instance: &str,
    life: Option<Incarnation>,
) -> Result<Pausing> {
    loop {
        let Some(found) = find_life(store, instance, life).await? else {
            return Ok(Pausing::NoSuchInstance);
        };
        let Some(current) = found.current.as_ref().filter(|it| it.is_live()) else {
            return Ok(Pausing::Ended);
        };
        if found.row.paused_at.is_none() {
            return Ok(Pausing::Unchanged);
        }
        let row = InstanceRow {
            paused_at: None,
            ..found.row.clone()
        };
        // Labelling the group anew ends its rest.
        let (label, kind) = turn::labels(current);
        let wake = Operation::SetLabel {
            queue: TURNS,
            group: instance.to_owned(),
            label,
            kind,
        };
        if replace(store, instance, &found, &row, Some(wake)).await? {
            // From here on no claim holds anything back.
            bring_back_work(store, instance).await?;
            return Ok(Pausing::Done);
        }
    }
}

/// Makes the activities of an instance claimable that claims held back.
async fn bring_back_work<S: EventStore>(store: &S, instance: &str) -> Result<()> {
    let mut after = 0;
    loop {
        let page = Query::Messages {
            queue: WORK,
            group: Some(instance.to_owned()),
            after,
            limit: STEP,
        };
        let page = store.query_one(page).await?.into_messages()?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.id;
        let soon = store.now_ms().saturating_add(SOON_MS);
        let waiting = page.into_iter().filter(|it| it.visible_at > soon);
        let ids: Vec<_> = waiting.map(|it| it.id).collect();
        if ids.is_empty() {
            continue;
        }
        // An activity that a turn cancelled meanwhile is unknown to the store, and stays away.
        let show = Operation::ShowMessages { queue: WORK, ids };
        closing::commit(store, Batch::of([show])).await?;
    }
}

/// Gives activities of paused instances back; returns the others.
pub(super) async fn hold_back_work<S: EventStore>(
    store: &S,
    claimed: Vec<Claimed>,
) -> Result<Vec<Claimed>> {
    let mut kept = Vec::with_capacity(claimed.len());
    for one in claimed {
        let guard: Option<Guard> =
            rows::paused(one.attached.as_ref()).map(|row| names::unchanged(&one.group, Some(row)));
        let Some(guard) = guard else {
            kept.push(one);
            continue;
        };
        let later = Operation::Release {
            lease: one.token.clone(),
            after: After::DelayMs(ms(LOOK_AGAIN)),
            forgive: true,
        };
        match closing::commit(store, Batch::of([later]).guarded_by(guard)).await {
            Ok(_) | Err(Error::Store(StoreError::LeaseLost(_))) => {}
            // It was resumed, or a turn moved it: the next claim looks again.
            Err(Error::Store(StoreError::Conflict(_))) => {
                let _ = closing::release(store, &one.token, After::Now, true).await;
            }
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::store", %error, "an activity of a paused instance could not be given back; its lease runs out");
            }
        }
    }
    Ok(kept)
}
