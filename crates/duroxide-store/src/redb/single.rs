//! Queues that deliver single messages: each stands in the ready bucket of its label and affinity, or in the waiting
//! line.

use ::redb::ReadableTable;

use super::error::Result;
use super::messages::{self, State, save_lease};
use super::tables::Tables;
use crate::lease::{After, Lease, LeaseToken, Owner};
use crate::queue::{Claim, Claimed, Message};
use crate::wake::Attempt;

/// The place of a message that is ready.
const READY: u64 = 0;

pub(super) fn enqueue(
    tables: &mut Tables<'_>,
    queue: &str,
    message: &Message,
    now_ms: u64,
) -> Result<()> {
    messages::insert(tables, queue, message)?;
    let state = messages::load_state(&tables.states, message.id)?;
    place(tables, queue, message, state, now_ms)
}

/// Returns what was found, and whether anything was written.
pub(super) fn claim(
    tables: &mut Tables<'_>,
    claim: &Claim,
    now_ms: u64,
) -> Result<(Attempt<Vec<Claimed>>, bool)> {
    let queue = claim.queue.name.as_ref();
    let promoted = promote(tables, queue, now_ms)?;
    let mut claimed = Vec::new();
    let mut due_ms = None;
    while claimed.len() < claim.max {
        let (next, due) = choose(tables, claim, now_ms)?;
        let Some(id) = next else {
            due_ms = due;
            break;
        };
        claimed.extend(take(tables, id, claim, now_ms)?);
    }
    Ok(match claimed.is_empty() {
        true => (Attempt::Nothing { due_ms }, promoted),
        false => (Attempt::Found(claimed), true),
    })
}

/// The lowest eligible number, and the next time at which more may become eligible by itself.
fn choose(tables: &Tables<'_>, claim: &Claim, now_ms: u64) -> Result<(Option<u64>, Option<u64>)> {
    let queue = claim.queue.name.as_ref();
    let mut due_ms = first_waiting(tables, queue)?.map(|(at, _)| at);
    let mut lowest: Option<u64> = None;
    let mut from: (Option<String>, Option<String>) = (None, None);
    loop {
        let start = (queue, from.0.as_deref(), from.1.as_deref(), 0);
        let Some(found) = tables.ready.range(start..)?.next() else {
            return Ok((lowest, due_ms));
        };
        let found = found?.0;
        let (found_queue, label, affinity, first) = found.value();
        if found_queue != queue {
            return Ok((lowest, due_ms));
        }
        if claim.labels.accepts(label) {
            match reserved_until(tables, queue, affinity, claim.owner.as_ref(), now_ms)? {
                None => lowest = lowest.into_iter().chain([first]).min(),
                Some(u64::MAX) => {}
                Some(until_ms) => due_ms = due_ms.into_iter().chain([until_ms]).min(),
            }
        }
        // The next bucket: the least affinity above this one, under the same label.
        let above = affinity.map_or_else(String::new, |affinity| format!("{affinity}\0"));
        from = (label.map(str::to_owned), Some(above));
    }
}

/// Until when somebody else holds the affinity key; for ever if the caller names no owner.
fn reserved_until(
    tables: &Tables<'_>,
    queue: &str,
    affinity: Option<&str>,
    owner: Option<&Owner>,
    now_ms: u64,
) -> Result<Option<u64>> {
    let Some(affinity) = affinity else {
        return Ok(None);
    };
    let Some(owner) = owner else {
        return Ok(Some(u64::MAX));
    };
    let Some(row) = tables.affinities.get((queue, affinity))? else {
        return Ok(None);
    };
    let (holder, until_ms, _) = row.value();
    Ok((holder != owner.id && until_ms > now_ms).then_some(until_ms))
}

fn take(tables: &mut Tables<'_>, id: u64, claim: &Claim, now_ms: u64) -> Result<Option<Claimed>> {
    let queue = claim.queue.name.as_ref();
    let Some(mut message) = messages::load(&tables.messages, &tables.states, queue, id)? else {
        return Ok(None);
    };
    let mut state = messages::load_state(&tables.states, id)?;
    state.attempts = state.attempts.saturating_add(1);
    message.attempts = state.attempts;
    if let (Some(affinity), Some(owner)) = (&message.affinity, &claim.owner) {
        let until_ms = now_ms.saturating_add(owner.lease_ms);
        let row = (owner.id.as_str(), until_ms, now_ms);
        tables.affinities.insert((queue, affinity.as_str()), row)?;
    }
    let token = LeaseToken::random();
    if let Some(lapsed) = state.lease.replace(token.to_string()) {
        tables.leases.remove(lapsed.as_str())?;
    }
    let lease = Lease {
        queue: queue.to_owned(),
        group: message.group.clone(),
        until_ms: now_ms.saturating_add(claim.lease_ms),
        valid: true,
        claimed: vec![id],
    };
    save_lease(tables, token.as_str(), &lease)?;
    place(tables, queue, &message, state, now_ms)?;
    Ok(Some(Claimed {
        token,
        group: message.group.clone(),
        messages: vec![message],
        attached: None,
    }))
}

pub(super) fn complete(tables: &mut Tables<'_>, lease: &Lease, now_ms: u64) -> Result<u64> {
    touch_affinity(tables, lease, now_ms)?;
    remove(tables, &lease.queue, &lease.claimed)
}

pub(super) fn renew(
    tables: &mut Tables<'_>,
    token: &str,
    lease: &Lease,
    now_ms: u64,
) -> Result<()> {
    save_lease(tables, token, lease)?;
    touch_affinity(tables, lease, now_ms)?;
    replace(tables, lease, now_ms, |_| {})
}

pub(super) fn release(
    tables: &mut Tables<'_>,
    token: &str,
    lease: &Lease,
    after: After,
    forgive: bool,
    now_ms: u64,
) -> Result<u64> {
    tables.leases.remove(token)?;
    replace(tables, lease, now_ms, |state| {
        state.lease = None;
        if forgive {
            state.attempts = state.attempts.saturating_sub(1);
        }
        match after {
            After::Now => {}
            After::DelayMs(delay) | After::QuietMs(delay) => {
                state.visible_at = now_ms.saturating_add(delay);
            }
        }
    })?;
    Ok(1)
}

/// Changes the state of the leased message and puts it where it belongs then.
fn replace(
    tables: &mut Tables<'_>,
    lease: &Lease,
    now_ms: u64,
    change: impl Fn(&mut State),
) -> Result<()> {
    for id in &lease.claimed {
        let queue = lease.queue.as_str();
        let Some(message) = messages::load(&tables.messages, &tables.states, queue, *id)? else {
            continue;
        };
        let mut state = messages::load_state(&tables.states, *id)?;
        change(&mut state);
        if state.visible_at != message.visible_at {
            let group = message.group.as_str();
            let by_group = (queue, group, message.visible_at, *id);
            tables.by_group.remove(by_group)?;
            let by_group = (queue, group, state.visible_at, *id);
            tables.by_group.insert(by_group, ())?;
        }
        place(tables, queue, &message, state, now_ms)?;
    }
    Ok(())
}

/// Removes messages with their leases.
pub(super) fn remove(tables: &mut Tables<'_>, queue: &str, ids: &[u64]) -> Result<u64> {
    let mut removed = 0;
    for id in ids {
        let Some(message) = messages::load(&tables.messages, &tables.states, queue, *id)? else {
            continue;
        };
        let state = messages::load_state(&tables.states, *id)?;
        unplace(tables, queue, &message, &state)?;
        if let Some(token) = &state.lease {
            tables.leases.remove(token.as_str())?;
        }
        messages::remove(tables, queue, *id)?;
        removed += 1;
    }
    Ok(removed)
}

pub(super) fn renew_affinities(
    tables: &mut Tables<'_>,
    queue: &str,
    owners: &[String],
    until_ms: u64,
    idle_ms: u64,
    now_ms: u64,
) -> Result<u64> {
    let mut renewed = Vec::new();
    for (key, (owner, held_until, active_at)) in affinities(tables, queue)? {
        let active = now_ms.saturating_sub(active_at) < idle_ms;
        if active && held_until > now_ms && owners.contains(&owner) {
            renewed.push((key, owner, active_at));
        }
    }
    for (key, owner, active_at) in &renewed {
        let row = (owner.as_str(), until_ms, *active_at);
        tables.affinities.insert((queue, key.as_str()), row)?;
    }
    Ok(renewed.len() as u64)
}

pub(super) fn sweep_affinities(tables: &mut Tables<'_>, queue: &str, now_ms: u64) -> Result<u64> {
    let mut swept = 0;
    for (key, (_, until_ms, _)) in affinities(tables, queue)? {
        let carriers = (queue, key.as_str(), 0)..=(queue, key.as_str(), u64::MAX);
        let needed = tables.by_affinity.range(carriers)?.next().is_some();
        if until_ms <= now_ms && !needed {
            tables.affinities.remove((queue, key.as_str()))?;
            swept += 1;
        }
    }
    Ok(swept)
}

type Held = (String, u64, u64);

fn affinities(tables: &Tables<'_>, queue: &str) -> Result<Vec<(String, Held)>> {
    let mut found = Vec::new();
    for row in tables.affinities.range((queue, "")..)? {
        let (key, value) = row?;
        let (found_queue, key) = key.value();
        if found_queue != queue {
            break;
        }
        let (owner, until_ms, active_at) = value.value();
        found.push((key.to_owned(), (owner.to_owned(), until_ms, active_at)));
    }
    Ok(found)
}

fn touch_affinity(tables: &mut Tables<'_>, lease: &Lease, now_ms: u64) -> Result<()> {
    for id in &lease.claimed {
        let queue = lease.queue.as_str();
        let message = messages::load(&tables.messages, &tables.states, queue, *id)?;
        let Some(affinity) = message.and_then(|message| message.affinity) else {
            continue;
        };
        let held = match tables.affinities.get((queue, affinity.as_str()))? {
            Some(row) => {
                let (owner, until_ms, _) = row.value();
                Some((owner.to_owned(), until_ms))
            }
            None => None,
        };
        if let Some((owner, until_ms)) = held.filter(|(_, until_ms)| *until_ms > now_ms) {
            let row = (owner.as_str(), until_ms, now_ms);
            tables.affinities.insert((queue, affinity.as_str()), row)?;
        }
    }
    Ok(())
}

fn first_waiting(tables: &Tables<'_>, queue: &str) -> Result<Option<(u64, u64)>> {
    let all = (queue, 0, 0)..=(queue, u64::MAX, u64::MAX);
    let Some(first) = tables.waiting.range(all)?.next() else {
        return Ok(None);
    };
    let (_, at, id) = first?.0.value();
    Ok(Some((at, id)))
}

fn promote(tables: &mut Tables<'_>, queue: &str, now_ms: u64) -> Result<bool> {
    let mut promoted = false;
    while let Some((at, id)) = first_waiting(tables, queue)?
        && at <= now_ms
    {
        let message = messages::load(&tables.messages, &tables.states, queue, id)?;
        let missing = || ::redb::StorageError::Corrupted(format!("message {id} is missing"));
        let message = message.ok_or_else(missing)?;
        let state = messages::load_state(&tables.states, id)?;
        place(tables, queue, &message, state, now_ms)?;
        promoted = true;
    }
    Ok(promoted)
}

fn unplace(tables: &mut Tables<'_>, queue: &str, message: &Message, state: &State) -> Result<()> {
    match state.place {
        Some(READY) => {
            let label = message.label.as_deref();
            let affinity = message.affinity.as_deref();
            tables.ready.remove((queue, label, affinity, message.id))?;
        }
        Some(at) => {
            tables.waiting.remove((queue, at, message.id))?;
        }
        None => {}
    }
    Ok(())
}

/// Puts a message where its state says, and saves the state.
fn place(
    tables: &mut Tables<'_>,
    queue: &str,
    message: &Message,
    mut state: State,
    now_ms: u64,
) -> Result<()> {
    unplace(tables, queue, message, &state)?;
    let leased_until = match &state.lease {
        Some(token) => messages::lease(&tables.leases, token, 0)?.map_or(0, |lease| lease.until_ms),
        None => 0,
    };
    let ready_at = state.visible_at.max(leased_until);
    if ready_at <= now_ms {
        let label = message.label.as_deref();
        let affinity = message.affinity.as_deref();
        tables
            .ready
            .insert((queue, label, affinity, message.id), ())?;
        state.place = Some(READY);
    } else {
        tables.waiting.insert((queue, ready_at, message.id), ())?;
        state.place = Some(ready_at);
    }
    messages::save_state(tables, message.id, &state)
}
