//! Messages with their states and the ways to find them. Where a message stands in line is not decided here.

use ::redb::{ReadableTable, StorageError};

use super::error::Result;
use super::role;
use super::tables::Tables;
use crate::lease::Lease;
use crate::message::Message;

/// The part of a message that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) visible_at: u64,
    pub(super) attempts: u32,
    /// Single delivery: 0 if ready, else until when it waits. Grouped delivery: the time in `by_group`.
    pub(super) place: Option<u64>,
    /// Single delivery: its lease, run out or not.
    pub(super) lease: Option<String>,
}

type Row = (
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
    u8,
    Option<u64>,
    &'static [u8],
    u64,
);
type StateRow = (u64, u32, Option<u64>, Option<&'static str>);
type LeaseRow = (&'static str, &'static str, u64, Vec<u64>);

/// Stores a message; `due_ms` is its time in `by_group`.
pub(super) fn insert(
    tables: &mut Tables<'_>,
    queue: &str,
    message: &Message,
    due_ms: u64,
) -> Result<()> {
    let id = message.id;
    let row = (
        message.group.as_str(),
        message.key.as_deref(),
        message.affinity.as_deref(),
        message.label.as_deref(),
        message.kind.as_deref(),
        role::code(message.role),
        message.stamp,
        message.payload.as_slice(),
        message.enqueued_at,
    );
    tables.messages.insert((queue, id), row)?;
    let state = State {
        visible_at: message.visible_at,
        attempts: message.attempts,
        place: Some(due_ms),
        lease: None,
    };
    save_state(tables, id, &state)?;
    let by_group = (queue, message.group.as_str(), due_ms, id);
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

/// Removes a message from everywhere but the line it stands in; `due_ms` is its time in `by_group`.
pub(super) fn remove(
    tables: &mut Tables<'_>,
    queue: &str,
    id: u64,
    due_ms: u64,
) -> Result<Option<Message>> {
    let Some(message) = load(&tables.messages, &tables.states, queue, id)? else {
        return Ok(None);
    };
    tables.messages.remove((queue, id))?;
    tables.states.remove(id)?;
    let by_group = (queue, message.group.as_str(), due_ms, id);
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
    let (group, key, affinity, label, kind, role, stamp, payload, enqueued_at) = row.value();
    Ok(Some(Message {
        id,
        group: group.to_owned(),
        key: key.map(str::to_owned),
        affinity: affinity.map(str::to_owned),
        label: label.map(str::to_owned),
        kind: kind.map(str::to_owned),
        role: role::of_code(role),
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

/// Moves a message of a group to another time in `by_group`. The caller saves the state.
pub(super) fn set_due(
    tables: &mut Tables<'_>,
    queue: &str,
    group: &str,
    id: u64,
    state: &mut State,
    due_ms: u64,
) -> Result<()> {
    let before = state.place.replace(due_ms).unwrap_or_default();
    tables.by_group.remove((queue, group, before, id))?;
    tables.by_group.insert((queue, group, due_ms, id), ())?;
    Ok(())
}

/// Since when a message can be claimed.
pub(super) fn since_ms(tables: &Tables<'_>, queue: &str, id: u64) -> Result<u64> {
    let enqueued_at = tables.messages.get((queue, id))?.map(|row| row.value().8);
    let visible_at = load_state(&tables.states, id)?.visible_at;
    Ok(visible_at.max(enqueued_at.unwrap_or_default()))
}

/// Numbers of a group's messages, ascending.
pub(super) fn of_group(
    by_group: &impl ReadableTable<(&'static str, &'static str, u64, u64), ()>,
    queue: &str,
    group: &str,
) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    for found in by_group.range((queue, group, 0, 0)..=(queue, group, u64::MAX, u64::MAX))? {
        ids.push(found?.0.value().3);
    }
    ids.sort_unstable();
    Ok(ids)
}

pub(super) fn of_key(
    by_key: &impl ReadableTable<(&'static str, &'static str, &'static str, u64), ()>,
    queue: &str,
    group: &str,
    key: &str,
) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    let range = (queue, group, key, 0)..=(queue, group, key, u64::MAX);
    for found in by_key.range(range)? {
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
