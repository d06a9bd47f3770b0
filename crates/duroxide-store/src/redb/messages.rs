//! Messages with their states and the ways to find them. Where a message stands in line is not decided here.

use ::redb::{ReadableTable, StorageError};

use super::error::Result;
use super::tables::Tables;
use crate::lease::Lease;
use crate::queue::Message;

/// The part of a message that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) visible_at: u64,
    pub(super) attempts: u32,
    /// Single delivery: 0 if ready, else until when it waits.
    pub(super) place: Option<u64>,
    /// Single delivery: its lease, lapsed or not.
    pub(super) lease: Option<String>,
}

type Row = (
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
    Option<u64>,
    &'static [u8],
    u64,
);
type StateRow = (u64, u32, Option<u64>, Option<&'static str>);
type LeaseRow = (&'static str, &'static str, u64, Vec<u64>);

pub(super) fn insert(tables: &mut Tables<'_>, queue: &str, message: &Message) -> Result<()> {
    let id = message.id;
    let row = (
        message.group.as_str(),
        message.key.as_deref(),
        message.affinity.as_deref(),
        message.label.as_deref(),
        message.stamp,
        message.payload.as_slice(),
        message.enqueued_at,
    );
    tables.messages.insert((queue, id), row)?;
    let state = State {
        visible_at: message.visible_at,
        attempts: message.attempts,
        ..State::default()
    };
    save_state(tables, id, &state)?;
    let by_group = (queue, message.group.as_str(), message.visible_at, id);
    tables.by_group.insert(by_group, ())?;
    if let Some(key) = &message.key {
        let by_key = (queue, message.group.as_str(), key.as_str(), id);
        tables.by_key.insert(by_key, ())?;
    }
    if let Some(affinity) = &message.affinity {
        let by_affinity = (queue, affinity.as_str(), id);
        tables.by_affinity.insert(by_affinity, ())?;
    }
    Ok(())
}

/// Removes a message from everywhere but the line it stands in.
pub(super) fn remove(tables: &mut Tables<'_>, queue: &str, id: u64) -> Result<Option<Message>> {
    let Some(message) = load(&tables.messages, &tables.states, queue, id)? else {
        return Ok(None);
    };
    tables.messages.remove((queue, id))?;
    tables.states.remove(id)?;
    let by_group = (queue, message.group.as_str(), message.visible_at, id);
    tables.by_group.remove(by_group)?;
    if let Some(key) = &message.key {
        let by_key = (queue, message.group.as_str(), key.as_str(), id);
        tables.by_key.remove(by_key)?;
    }
    if let Some(affinity) = &message.affinity {
        let by_affinity = (queue, affinity.as_str(), id);
        tables.by_affinity.remove(by_affinity)?;
    }
    Ok(Some(message))
}

pub(super) fn load(
    messages: &impl ReadableTable<(&'static str, u64), Row>,
    states: &impl ReadableTable<u64, StateRow>,
    queue: &str,
    id: u64,
) -> Result<Option<Message>> {
    let Some(row) = messages.get((queue, id))? else {
        return Ok(None);
    };
    let state = load_state(states, id)?;
    let (group, key, affinity, label, stamp, payload, enqueued_at) = row.value();
    Ok(Some(Message {
        id,
        group: group.to_owned(),
        key: key.map(str::to_owned),
        affinity: affinity.map(str::to_owned),
        label: label.map(str::to_owned),
        stamp,
        payload: payload.to_vec(),
        visible_at: state.visible_at,
        enqueued_at,
        attempts: state.attempts,
    }))
}

pub(super) fn load_state(states: &impl ReadableTable<u64, StateRow>, id: u64) -> Result<State> {
    let missing = || StorageError::Corrupted(format!("message {id} has no state"));
    let row = states.get(id)?.ok_or_else(missing)?;
    let (visible_at, attempts, place, lease) = row.value();
    Ok(State {
        visible_at,
        attempts,
        place,
        lease: lease.map(str::to_owned),
    })
}

pub(super) fn save_state(tables: &mut Tables<'_>, id: u64, state: &State) -> Result<()> {
    let row = (
        state.visible_at,
        state.attempts,
        state.place,
        state.lease.as_deref(),
    );
    tables.states.insert(id, row)?;
    Ok(())
}

/// Numbers of a group's messages, ascending.
pub(super) fn of_group(
    by_group: &impl ReadableTable<(&'static str, &'static str, u64, u64), ()>,
    queue: &str,
    group: &str,
) -> Result<Vec<u64>> {
    visible(by_group, queue, group, u64::MAX)
}

/// Numbers of a group's messages that are visible at a time, ascending.
pub(super) fn visible(
    by_group: &impl ReadableTable<(&'static str, &'static str, u64, u64), ()>,
    queue: &str,
    group: &str,
    at_ms: u64,
) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    for found in by_group.range((queue, group, 0, 0)..=(queue, group, at_ms, u64::MAX))? {
        ids.push(found?.0.value().3);
    }
    ids.sort_unstable();
    Ok(ids)
}

pub(super) fn of_key(tables: &Tables<'_>, queue: &str, group: &str, key: &str) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    let range = (queue, group, key, 0)..=(queue, group, key, u64::MAX);
    for found in tables.by_key.range(range)? {
        ids.push(found?.0.value().3);
    }
    Ok(ids)
}

pub(super) fn lease(
    leases: &impl ReadableTable<&'static str, LeaseRow>,
    token: &str,
    now_ms: u64,
) -> Result<Option<Lease>> {
    let Some(row) = leases.get(token)? else {
        return Ok(None);
    };
    let (queue, group, until_ms, claimed) = row.value();
    Ok(Some(Lease {
        queue: queue.to_owned(),
        group: group.to_owned(),
        until_ms,
        valid: until_ms > now_ms,
        claimed,
    }))
}

pub(super) fn save_lease(tables: &mut Tables<'_>, token: &str, lease: &Lease) -> Result<()> {
    let row = (
        lease.queue.as_str(),
        lease.group.as_str(),
        lease.until_ms,
        lease.claimed.clone(),
    );
    tables.leases.insert(token, row)?;
    Ok(())
}
