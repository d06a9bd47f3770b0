//! Queues that deliver whole groups: every group with messages has exactly one slot in the schedule of its label.

use ::redb::ReadableTable;

use super::error::Result;
use super::messages::{self, save_lease};
use super::tables::Tables;
use crate::lease::{After, Lease, LeaseToken};
use crate::queue::{Claim, Claimed, Message};
use crate::wake::Attempt;

#[derive(Debug, Default)]
struct Group {
    label: Option<String>,
    lease: Option<String>,
    quiet_until: u64,
    slot: Option<(u64, u64)>,
}

type Slot = (u64, u64, String);

pub(super) fn enqueue(tables: &mut Tables<'_>, queue: &str, message: &Message) -> Result<()> {
    messages::insert(tables, queue, message)?;
    let mut group = load(tables, queue, &message.group)?;
    group.quiet_until = 0;
    reschedule(tables, queue, &message.group, group)
}

pub(super) fn claim(
    tables: &mut Tables<'_>,
    claim: &Claim,
    now_ms: u64,
) -> Result<Attempt<Vec<Claimed>>> {
    let queue = claim.queue.name.as_ref();
    let labels = accepted_labels(tables, claim)?;
    let mut claimed = Vec::new();
    let mut due_ms = None;
    while claimed.len() < claim.max {
        match earliest(tables, queue, &labels)? {
            Some((ready_at, _, group)) if ready_at <= now_ms => {
                claimed.push(take(tables, queue, &group, claim.lease_ms, now_ms)?);
            }
            next => {
                due_ms = next.map(|(ready_at, ..)| ready_at);
                break;
            }
        }
    }
    Ok(match claimed.is_empty() {
        true => Attempt::Nothing { due_ms },
        false => Attempt::Found(claimed),
    })
}

/// The labels in the schedule that the claim accepts, found by skipping from label to label.
fn accepted_labels(tables: &Tables<'_>, claim: &Claim) -> Result<Vec<Option<String>>> {
    let queue = claim.queue.name.as_ref();
    let mut accepted = Vec::new();
    let mut from: Option<String> = None;
    loop {
        let start = (queue, from.as_deref(), 0, 0, "");
        let label = match tables.schedule.range(start..)?.next() {
            Some(slot) => {
                let slot = slot?.0;
                let (found, label, ..) = slot.value();
                if found != queue {
                    return Ok(accepted);
                }
                label.map(str::to_owned)
            }
            None => return Ok(accepted),
        };
        // The least text above a text is the text with the least character appended.
        from = Some(
            label
                .as_ref()
                .map_or_else(String::new, |l| format!("{l}\0")),
        );
        if claim.labels.accepts(label.as_deref()) {
            accepted.push(label);
        }
    }
}

fn earliest(tables: &Tables<'_>, queue: &str, labels: &[Option<String>]) -> Result<Option<Slot>> {
    let mut earliest: Option<Slot> = None;
    for label in labels {
        let label = label.as_deref();
        let Some(slot) = tables.schedule.range((queue, label, 0, 0, "")..)?.next() else {
            continue;
        };
        let slot = slot?.0;
        let (found_queue, found_label, ready_at, id, group) = slot.value();
        if found_queue == queue && found_label == label {
            let slot = (ready_at, id, group.to_owned());
            earliest = earliest.into_iter().chain([slot]).min();
        }
    }
    Ok(earliest)
}

fn take(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    lease_ms: u64,
    now_ms: u64,
) -> Result<Claimed> {
    let ids = messages::visible(&tables.by_group, queue, name, now_ms)?;
    let mut taken = Vec::with_capacity(ids.len());
    for id in &ids {
        let mut state = messages::load_state(&tables.states, *id)?;
        state.attempts = state.attempts.saturating_add(1);
        messages::save_state(tables, *id, &state)?;
        taken.extend(messages::load(
            &tables.messages,
            &tables.states,
            queue,
            *id,
        )?);
    }
    let token = LeaseToken::random();
    let mut group = load(tables, queue, name)?;
    if let Some(lapsed) = group.lease.replace(token.to_string()) {
        tables.leases.remove(lapsed.as_str())?;
    }
    let lease = Lease {
        queue: queue.to_owned(),
        group: name.to_owned(),
        until_ms: now_ms.saturating_add(lease_ms),
        valid: true,
        claimed: ids,
    };
    save_lease(tables, token.as_str(), &lease)?;
    group.quiet_until = 0;
    reschedule(tables, queue, name, group)?;
    Ok(Claimed {
        token,
        group: name.to_owned(),
        messages: taken,
        attached: None,
    })
}

/// Removes the claimed messages; returns how many, and whether others of the group remain.
pub(super) fn complete(tables: &mut Tables<'_>, token: &str, lease: &Lease) -> Result<(u64, bool)> {
    let mut removed = 0;
    for id in &lease.claimed {
        removed += u64::from(messages::remove(tables, &lease.queue, *id)?.is_some());
    }
    let group = end(tables, token, lease)?;
    reschedule(tables, &lease.queue, &lease.group, group)?;
    let more = first_due(tables, &lease.queue, &lease.group)?.is_some();
    Ok((removed, more))
}

pub(super) fn renew(tables: &mut Tables<'_>, token: &str, lease: &Lease) -> Result<()> {
    save_lease(tables, token, lease)?;
    let group = load(tables, &lease.queue, &lease.group)?;
    reschedule(tables, &lease.queue, &lease.group, group)
}

pub(super) fn release(
    tables: &mut Tables<'_>,
    token: &str,
    lease: &Lease,
    after: After,
    forgive: bool,
    now_ms: u64,
) -> Result<u64> {
    let mut group = end(tables, token, lease)?;
    if let After::QuietMs(rest) = after {
        group.quiet_until = now_ms.saturating_add(rest);
    }
    let mut released = 0;
    for id in &lease.claimed {
        if tables.states.get(*id)?.is_none() {
            continue;
        }
        released += 1;
        let mut state = messages::load_state(&tables.states, *id)?;
        if forgive {
            state.attempts = state.attempts.saturating_sub(1);
        }
        if let After::DelayMs(delay) = after {
            let place = |at| (lease.queue.as_str(), lease.group.as_str(), at, *id);
            tables.by_group.remove(place(state.visible_at))?;
            state.visible_at = now_ms.saturating_add(delay);
            tables.by_group.insert(place(state.visible_at), ())?;
        }
        messages::save_state(tables, *id, &state)?;
    }
    reschedule(tables, &lease.queue, &lease.group, group)?;
    Ok(released)
}

fn end(tables: &mut Tables<'_>, token: &str, lease: &Lease) -> Result<Group> {
    tables.leases.remove(token)?;
    let mut group = load(tables, &lease.queue, &lease.group)?;
    group.lease = None;
    Ok(group)
}

/// Removes messages; the leases of their groups stay.
pub(super) fn remove(tables: &mut Tables<'_>, queue: &str, ids: &[u64]) -> Result<u64> {
    let mut removed = 0;
    for id in ids {
        let Some(message) = messages::remove(tables, queue, *id)? else {
            continue;
        };
        removed += 1;
        let group = load(tables, queue, &message.group)?;
        reschedule(tables, queue, &message.group, group)?;
    }
    Ok(removed)
}

pub(super) fn delete_group(tables: &mut Tables<'_>, queue: &str, name: &str) -> Result<u64> {
    let group = load(tables, queue, name)?;
    unschedule(tables, queue, name, &group)?;
    tables.groups.remove((queue, name))?;
    if let Some(token) = group.lease {
        tables.leases.remove(token.as_str())?;
    }
    let mut removed = 0;
    for id in messages::of_group(&tables.by_group, queue, name)? {
        removed += u64::from(messages::remove(tables, queue, id)?.is_some());
    }
    Ok(removed)
}

pub(super) fn set_label(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    label: Option<String>,
) -> Result<()> {
    let mut group = load(tables, queue, name)?;
    unschedule(tables, queue, name, &group)?;
    group.slot = None;
    group.label = label;
    reschedule(tables, queue, name, group)
}

fn load(tables: &Tables<'_>, queue: &str, name: &str) -> Result<Group> {
    let Some(row) = tables.groups.get((queue, name))? else {
        return Ok(Group::default());
    };
    let (label, lease, quiet_until, slot) = row.value();
    Ok(Group {
        label: label.map(str::to_owned),
        lease: lease.map(str::to_owned),
        quiet_until,
        slot,
    })
}

fn first_due(tables: &Tables<'_>, queue: &str, name: &str) -> Result<Option<(u64, u64)>> {
    let all = (queue, name, 0, 0)..=(queue, name, u64::MAX, u64::MAX);
    let Some(first) = tables.by_group.range(all)?.next() else {
        return Ok(None);
    };
    let (_, _, visible_at, id) = first?.0.value();
    Ok(Some((visible_at, id)))
}

fn unschedule(tables: &mut Tables<'_>, queue: &str, name: &str, group: &Group) -> Result<()> {
    if let Some((ready_at, id)) = group.slot {
        let slot = (queue, group.label.as_deref(), ready_at, id, name);
        tables.schedule.remove(slot)?;
    }
    Ok(())
}

/// Moves the group's slot to where it belongs and saves the group, or forgets it if nothing is known about it.
fn reschedule(tables: &mut Tables<'_>, queue: &str, name: &str, mut group: Group) -> Result<()> {
    let leased_until = match &group.lease {
        Some(token) => messages::lease(&tables.leases, token, 0)?.map_or(0, |lease| lease.until_ms),
        None => 0,
    };
    let slot = first_due(tables, queue, name)?.map(|(visible_at, id)| {
        let ready_at = visible_at.max(group.quiet_until).max(leased_until);
        (ready_at, id)
    });
    if slot != group.slot {
        unschedule(tables, queue, name, &group)?;
        if let Some((ready_at, id)) = slot {
            let slot = (queue, group.label.as_deref(), ready_at, id, name);
            tables.schedule.insert(slot, ())?;
        }
        group.slot = slot;
    }
    if group.slot.is_none() && group.label.is_none() && group.lease.is_none() {
        tables.groups.remove((queue, name))?;
    } else {
        let row = (
            group.label.as_deref(),
            group.lease.as_deref(),
            group.quiet_until,
            group.slot,
        );
        tables.groups.insert((queue, name), row)?;
    }
    Ok(())
}
