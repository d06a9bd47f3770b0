//! Queues that deliver single messages: each stands in the ready bucket of its label, kind and affinity, or in the
//! waiting line.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ::redb::ReadableTable;

use super::dead_messages;
use super::error::{Result, in_order};
use super::grouped;
use super::messages::{self, State, save_lease};
use super::tables::Tables;
use crate::lease::{After, Lease, LeaseToken, Owner};
use crate::message::{Claim, Claimed, Message, later_ms};
use crate::poll::Attempt;

/// When a claim that found only what was deleted comes again. Nothing else in a queue of single messages becomes due at
/// this time.
pub(super) const AT_ONCE: Option<u64> = Some(0);

/// The place of a message that is ready.
const READY: u64 = 0;

pub(super) fn enqueue(
    tables: &mut Tables<'_>,
    queue: &str,
    message: &Message,
    now_ms: u64,
) -> Result<()> {
    messages::insert(tables, queue, message, 0)?;
    let mut state = messages::load_state(&tables.states, message.id)?;
    state.place = None;
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
    let (mut heads, due_ms) = heads(tables, claim, now_ms)?;
    let mut claimed = Vec::new();
    let mut new_keys = 0;
    let mut swept = 0;
    while claimed.len() < claim.max
        && let Some(Reverse((id, bucket))) = heads.pop()
    {
        if dead_messages::has_message(tables, queue, id)? {
            // What was deleted is in the way: it goes, and after so many the claim comes again.
            remove(tables, queue, &[id])?;
            swept += 1;
            if swept >= tables.step {
                break;
            }
            let next = first_of(tables, queue, &bucket)?;
            heads.extend(next.map(|id| Reverse((id, bucket))));
            continue;
        }
        if let (Some(affinity), Some(owner)) = (&bucket.2, &claim.owner)
            && !holds(tables, queue, owner, affinity, now_ms)?
        {
            if new_keys >= owner.new_keys_max {
                continue;
            }
            new_keys += 1;
        }
        claimed.extend(take(tables, id, claim, now_ms)?);
        let next = first_of(tables, queue, &bucket)?;
        heads.extend(next.map(|id| Reverse((id, bucket))));
    }
    Ok(if claimed.is_empty() {
        let due_ms = if swept < tables.step { due_ms } else { AT_ONCE };
        (Attempt::Nothing { due_ms }, promoted || swept > 0)
    } else {
        (Attempt::Found(claimed), true)
    })
}

/// Label, kind and affinity.
type Bucket = (Option<String>, Option<String>, Option<String>);
type Heads = BinaryHeap<Reverse<(u64, Bucket)>>;

/// The lowest number of every eligible bucket, found by skipping from bucket to bucket, and the next time at which more
/// may become eligible by itself.
fn heads(tables: &Tables<'_>, claim: &Claim, now_ms: u64) -> Result<(Heads, Option<u64>)> {
    let queue = claim.queue.name.as_ref();
    let mut due_ms = first_waiting(tables, queue)?.map(|(at, _)| at);
    let mut heads = Heads::new();
    let mut from: Bucket = (None, None, None);
    loop {
        let (label, kind, affinity) = (from.0.as_deref(), from.1.as_deref(), from.2.as_deref());
        let start = (queue, label, kind, affinity, 0);
        let Some(found) = tables.ready.range(start..)?.next() else {
            return Ok((heads, due_ms));
        };
        let found = found?.0;
        in_order(&found.value(), &start)?;
        let (found_queue, label, kind, affinity, first) = found.value();
        if found_queue != queue {
            return Ok((heads, due_ms));
        }
        let own = |text: Option<&str>| text.map(str::to_owned);
        // A bucket that is not accepted is skipped with all its affinities.
        let accepted = claim.labels.accepts(label) && claim.kinds.accepts(kind);
        if !accepted {
            from = (own(label), Some(grouped::above(kind)), None);
            continue;
        }
        match reserved_until(tables, queue, affinity, claim.owner.as_ref(), now_ms)? {
            None => heads.push(Reverse((first, (own(label), own(kind), own(affinity))))),
            Some(u64::MAX) => {}
            Some(until_ms) => due_ms = due_ms.into_iter().chain([until_ms]).min(),
        }
        from = (own(label), own(kind), Some(grouped::above(affinity)));
    }
}

fn first_of(tables: &Tables<'_>, queue: &str, bucket: &Bucket) -> Result<Option<u64>> {
    let (label, kind) = (bucket.0.as_deref(), bucket.1.as_deref());
    let affinity = bucket.2.as_deref();
    let all = (queue, label, kind, affinity, 0)..=(queue, label, kind, affinity, u64::MAX);
    match tables.ready.range(all)?.next() {
        Some(found) => Ok(Some(found?.0.value().4)),
        None => Ok(None),
    }
}

fn holds(
    tables: &Tables<'_>,
    queue: &str,
    owner: &Owner,
    affinity: &str,
    now_ms: u64,
) -> Result<bool> {
    let row = tables.affinities.get((queue, affinity))?;
    Ok(row.is_some_and(|row| {
        let (holder, until_ms, _) = row.value();
        holder == owner.id && until_ms > now_ms
    }))
}

/// Until when another owner holds the affinity key; for ever if the caller names no owner.
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
    // It was visible and stays so, should it be given back after the clock was set back.
    state.visible_at = 0;
    message.visible_at = 0;
    if let (Some(affinity), Some(owner)) = (&message.affinity, &claim.owner) {
        let until_ms = later_ms(now_ms, owner.lease_ms);
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
        until_ms: later_ms(now_ms, claim.lease_ms.max(1)),
        valid: true,
        claimed: vec![id],
    };
    save_lease(tables, token.as_str(), &lease)?;
    place(tables, queue, &message, state, now_ms)?;
    Ok(Some(Claimed {
        token,
        group: message.group.clone(),
        messages: vec![message],
        lead_to_come: false,
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
                state.visible_at = later_ms(now_ms, delay);
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
        place(tables, queue, &message, state, now_ms)?;
    }
    Ok(())
}

/// Makes messages visible that are not yet.
pub(super) fn show(tables: &mut Tables<'_>, queue: &str, ids: &[u64], now_ms: u64) -> Result<u64> {
    let mut shown = 0;
    for id in ids {
        let Some(message) = messages::load(&tables.messages, &tables.states, queue, *id)? else {
            continue;
        };
        let mut state = messages::load_state(&tables.states, *id)?;
        if state.visible_at > now_ms {
            state.visible_at = now_ms;
            place(tables, queue, &message, state, now_ms)?;
            shown += 1;
        }
    }
    Ok(shown)
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
        messages::remove(tables, queue, *id, 0)?;
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
        if until_ms <= now_ms && !is_needed(tables, queue, &key)? {
            tables.affinities.remove((queue, key.as_str()))?;
            swept += 1;
        }
    }
    Ok(swept)
}

/// Whether a message carries the affinity key.
fn is_needed(tables: &Tables<'_>, queue: &str, key: &str) -> Result<bool> {
    let carriers = (queue, key, 0)..=(queue, key, u64::MAX);
    for carrier in tables.by_affinity.range(carriers)? {
        if !dead_messages::has_message(tables, queue, carrier?.0.value().2)? {
            return Ok(true);
        }
    }
    Ok(false)
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
    let mut promoted = 0;
    while promoted < grouped::PROMOTE_MAX
        && let Some((at, id)) = first_waiting(tables, queue)?
        && at <= now_ms
    {
        let message = messages::load(&tables.messages, &tables.states, queue, id)?;
        let missing = || ::redb::StorageError::Corrupted(format!("message {id} is missing"));
        let message = message.ok_or_else(missing)?;
        let state = messages::load_state(&tables.states, id)?;
        place(tables, queue, &message, state, now_ms)?;
        promoted += 1;
    }
    Ok(promoted > 0)
}

fn unplace(tables: &mut Tables<'_>, queue: &str, message: &Message, state: &State) -> Result<()> {
    match state.place {
        Some(READY) => {
            tables.ready.remove(bucket_of(queue, message))?;
        }
        Some(at) => {
            tables.waiting.remove((queue, at, message.id))?;
        }
        None => {}
    }
    Ok(())
}

type Key<'m> = (
    &'m str,
    Option<&'m str>,
    Option<&'m str>,
    Option<&'m str>,
    u64,
);

fn bucket_of<'m>(queue: &'m str, message: &'m Message) -> Key<'m> {
    let (label, kind) = (message.label.as_deref(), message.kind.as_deref());
    (queue, label, kind, message.affinity.as_deref(), message.id)
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
        tables.ready.insert(bucket_of(queue, message), ())?;
        state.place = Some(READY);
    } else {
        tables.waiting.insert((queue, ready_at, message.id), ())?;
        state.place = Some(ready_at);
    }
    messages::save_state(tables, message.id, &state)
}
