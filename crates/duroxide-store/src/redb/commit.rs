//! Batches and claims inside a write transaction: first everything is checked, then everything is applied.

use std::collections::BTreeSet;

use ::redb::ReadableTable;

use super::error::Result;
use super::tables::Tables;
use super::{
    dead_messages, discarded, discarded_groups, discarded_scopes, group, grouped, messages, role,
    single,
};
use crate::atomic::{Batch, Guard, Operation};
use crate::error::StoreError;
use crate::lease::{Lease, LeaseToken};
use crate::message::{Claim, Claimed, Delivery, NewMessage, Queue, later_ms};
use crate::poll::Attempt;
use crate::record::Record;

/// What a commit did: records touched per operation, and queues in which something may be claimable now.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    pub(super) counts: Vec<u64>,
    pub(super) wake: BTreeSet<String>,
}

pub(super) fn batch(tables: &mut Tables<'_>, batch: &Batch, now_ms: u64) -> Result<Receipt> {
    for guard in &batch.guards {
        check_guard(tables, guard, now_ms)?;
    }
    let mut appended = BTreeSet::new();
    for operation in &batch.operations {
        check_operation(tables, operation, now_ms, &mut appended)?;
    }
    let mut receipt = Receipt::default();
    for operation in &batch.operations {
        let count = apply(tables, operation, now_ms, &mut receipt.wake)?;
        receipt.counts.push(count);
    }
    Ok(receipt)
}

/// Returns what was found, and whether anything was written.
pub(super) fn claim(
    tables: &mut Tables<'_>,
    claim: &Claim,
    now_ms: u64,
) -> Result<(Attempt<Vec<Claimed>>, bool)> {
    check_delivery(tables, &claim.queue)?;
    for guard in &claim.guards {
        check_guard(tables, guard, now_ms)?;
    }
    let (mut attempt, written) = match claim.queue.delivery {
        Delivery::Grouped => grouped::claim(tables, claim, now_ms)?,
        Delivery::Single => single::claim(tables, claim, now_ms)?,
    };
    if let (Attempt::Found(claimed), Some(scope)) = (&mut attempt, &claim.attach) {
        for one in claimed {
            one.attached = entry(tables, scope, &one.group)?;
        }
    }
    Ok((attempt, written))
}

fn entry(tables: &Tables<'_>, scope: &str, key: &str) -> Result<Option<Vec<u8>>> {
    if discarded_scopes::has(tables, scope)? {
        return Ok(None);
    }
    let found = tables.entries.get((scope, key))?;
    Ok(found.map(|value| value.value().to_vec()))
}

fn check_guard(tables: &Tables<'_>, guard: &Guard, now_ms: u64) -> Result<()> {
    let (holds, scope, key) = match guard {
        Guard::Lease(token) => return valid_lease(tables, token, now_ms).map(drop),
        Guard::Undisturbed(token) => return check_undisturbed(tables, token, now_ms),
        Guard::Lead {
            queue,
            group,
            is_there,
        } => {
            let has_lead = role::has_lead(&tables.roles, &queue.name, group)?
                && !dead_messages::has(tables, &queue.name, group)?;
            if has_lead == *is_there {
                return Ok(());
            }
            return Err(StoreError::Conflict(format!("leads of {group} changed")).into());
        }
        Guard::Absent { scope, key } => (entry(tables, scope, key)?.is_none(), scope, key.as_str()),
        Guard::Present { scope, key } => {
            (entry(tables, scope, key)?.is_some(), scope, key.as_str())
        }
        Guard::Equals { scope, key, value } => {
            let found = entry(tables, scope, key)?;
            (found.as_ref() == Some(value), scope, key.as_str())
        }
        Guard::Keys { scope, keys } => (&scope_keys(tables, scope)? == keys, scope, "*"),
    };
    if holds {
        return Ok(());
    }
    Err(StoreError::Conflict(format!("entry {scope}/{key} is not as expected")).into())
}

fn scope_keys(tables: &Tables<'_>, scope: &str) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    if discarded_scopes::has(tables, scope)? {
        return Ok(keys);
    }
    for found in tables.entries.range((scope, "")..)? {
        let found = found?.0;
        let (found_scope, key) = found.value();
        if found_scope != scope {
            break;
        }
        keys.push(key.to_owned());
    }
    Ok(keys)
}

fn check_undisturbed(tables: &Tables<'_>, token: &LeaseToken, now_ms: u64) -> Result<()> {
    let lease = known_lease(tables, token, now_ms)?;
    let (queue, name) = (lease.queue.as_str(), lease.group.as_str());
    if !is_grouped(tables, queue)? {
        return Ok(());
    }
    let group = group::load(tables, queue, name)?;
    if group::is_undisturbed(tables, queue, name, &group, now_ms)? {
        Ok(())
    } else {
        Err(StoreError::Conflict(format!("group of {token} is stirred")).into())
    }
}

fn known_lease(tables: &Tables<'_>, token: &LeaseToken, now_ms: u64) -> Result<Lease> {
    let lease = living_lease(tables, token, now_ms)?;
    Ok(lease.ok_or_else(|| StoreError::LeaseLost(token.to_string()))?)
}

/// A lease, unless its messages are dead.
fn living_lease(tables: &Tables<'_>, token: &LeaseToken, now_ms: u64) -> Result<Option<Lease>> {
    let lease = messages::lease(&tables.leases, token.as_str(), now_ms)?;
    match lease {
        Some(lease) if dead_messages::has(tables, &lease.queue, &lease.group)? => Ok(None),
        lease => Ok(lease),
    }
}

fn valid_lease(tables: &Tables<'_>, token: &LeaseToken, now_ms: u64) -> Result<Lease> {
    let lease = known_lease(tables, token, now_ms)?;
    if lease.valid {
        return Ok(lease);
    }
    Err(StoreError::LeaseLost(token.to_string()).into())
}

fn check_operation<'b>(
    tables: &mut Tables<'_>,
    operation: &'b Operation,
    now_ms: u64,
    appended: &mut BTreeSet<(&'b str, u64, u64)>,
) -> Result<()> {
    match operation {
        Operation::Append {
            entity,
            partition,
            events,
        } => {
            let is_dead = discarded::expect_little(tables, entity, *partition)?;
            for event in events {
                let place = (entity.as_str(), *partition, event.number);
                let is_there = !is_dead && tables.events.get(place)?.is_some();
                if is_there || !appended.insert(place) {
                    let number = event.number;
                    let exists = format!("event {number} of {entity}/{partition} exists");
                    return Err(StoreError::Conflict(exists).into());
                }
            }
            Ok(())
        }
        Operation::Complete { lease } | Operation::Renew { lease, .. } => {
            valid_lease(tables, lease, now_ms).map(drop)
        }
        Operation::Release { lease, .. } => known_lease(tables, lease, now_ms).map(drop),
        Operation::Enqueue { queue, message } => {
            check_delivery(tables, queue)?;
            discarded_groups::expect_none(tables, &queue.name, &message.group)
        }
        Operation::DeleteMessages { queue, .. }
        | Operation::DeleteKeyed { queue, .. }
        | Operation::DeleteGroup { queue, .. } => check_delivery(tables, queue),
        Operation::SetLabel { queue, group, .. } | Operation::HoldFollowers { queue, group } => {
            queue.expect(Delivery::Grouped)?;
            check_delivery(tables, queue)?;
            discarded_groups::expect_none(tables, &queue.name, group)
        }
        Operation::ShowMessages { queue, .. }
        | Operation::RenewAffinities { queue, .. }
        | Operation::SweepAffinities { queue } => {
            queue.expect(Delivery::Single)?;
            check_delivery(tables, queue)
        }
        Operation::Put { scope, .. } => discarded_scopes::expect_none(tables, scope),
        Operation::DeletePartition { .. }
        | Operation::DeleteEntity { .. }
        | Operation::Delete { .. }
        | Operation::DeleteScope { .. } => Ok(()),
    }
}

fn is_grouped(tables: &Tables<'_>, queue: &str) -> Result<bool> {
    let grouped = tables.queues.get(queue)?;
    Ok(grouped.is_some_and(|grouped| grouped.value()))
}

fn check_delivery(tables: &Tables<'_>, queue: &Queue) -> Result<()> {
    match tables.queues.get(queue.name.as_ref())?.map(|q| q.value()) {
        Some(true) => Ok(queue.expect(Delivery::Grouped)?),
        Some(false) => Ok(queue.expect(Delivery::Single)?),
        None => Ok(()),
    }
}

fn apply(
    tables: &mut Tables<'_>,
    operation: &Operation,
    now_ms: u64,
    wake: &mut BTreeSet<String>,
) -> Result<u64> {
    match operation {
        Operation::Append {
            entity,
            partition,
            events,
        } => append(tables, entity, *partition, events),
        Operation::DeletePartition { entity, partition } => {
            discarded::delete(tables, entity, *partition, *partition)
        }
        Operation::DeleteEntity { entity } => discarded::delete(tables, entity, 0, u64::MAX),
        Operation::Put { scope, key, value } => {
            discarded_scopes::make_room(tables, scope)?;
            let place = (scope.as_str(), key.as_str());
            tables.entries.insert(place, value.as_slice())?;
            Ok(1)
        }
        Operation::Delete { scope, .. } if discarded_scopes::has(tables, scope)? => Ok(0),
        Operation::Delete { scope, key } => {
            let removed = tables.entries.remove((scope.as_str(), key.as_str()))?;
            Ok(u64::from(removed.is_some()))
        }
        Operation::DeleteScope { scope } => discarded_scopes::delete(tables, scope),
        Operation::Enqueue { queue, message } => {
            wake.insert(queue.name.to_string());
            enqueue(tables, queue, message.clone(), now_ms)
        }
        Operation::HoldFollowers { queue, group } => {
            know_queue(tables, queue)?;
            discarded_groups::make_room(tables, &queue.name, group)?;
            grouped::hold_followers(tables, &queue.name, group, now_ms)?;
            Ok(1)
        }
        Operation::Complete { .. } | Operation::Renew { .. } | Operation::Release { .. } => {
            apply_to_lease(tables, operation, now_ms, wake)
        }
        Operation::DeleteMessages { queue, ids } => remove(tables, queue, ids, now_ms),
        Operation::ShowMessages { queue, ids } => {
            wake.insert(queue.name.to_string());
            let ids = dead_messages::living(tables, &queue.name, ids)?;
            single::show(tables, &queue.name, &ids, now_ms)
        }
        Operation::DeleteKeyed { queue, group, key } => {
            let ids = messages::of_key(&tables.by_key, &queue.name, group, key)?;
            remove(tables, queue, &ids, now_ms)
        }
        Operation::DeleteGroup { queue, group } => {
            let is_grouped = queue.delivery == Delivery::Grouped;
            if is_grouped {
                grouped::forget_group(tables, &queue.name, group)?;
            }
            discarded_groups::delete(tables, &queue.name, group, is_grouped)
        }
        Operation::SetLabel {
            queue,
            group,
            label,
            kind,
        } => {
            wake.insert(queue.name.to_string());
            know_queue(tables, queue)?;
            discarded_groups::make_room(tables, &queue.name, group)?;
            let labels = (label.clone(), kind.clone());
            grouped::set_label(tables, &queue.name, group, labels, now_ms)?;
            Ok(1)
        }
        Operation::RenewAffinities {
            queue,
            owners,
            lease_ms,
            idle_ms,
        } => {
            let until_ms = later_ms(now_ms, *lease_ms);
            single::renew_affinities(tables, &queue.name, owners, until_ms, *idle_ms, now_ms)
        }
        Operation::SweepAffinities { queue } => {
            single::sweep_affinities(tables, &queue.name, now_ms)
        }
    }
}

fn append(tables: &mut Tables<'_>, entity: &str, partition: u64, events: &[Record]) -> Result<u64> {
    discarded::make_room(tables, entity, partition)?;
    for event in events {
        let place = (entity, partition, event.number);
        tables.events.insert(place, event.data.as_slice())?;
    }
    Ok(events.len() as u64)
}

fn enqueue(tables: &mut Tables<'_>, queue: &Queue, new: NewMessage, now_ms: u64) -> Result<u64> {
    know_queue(tables, queue)?;
    discarded_groups::make_room(tables, &queue.name, &new.group)?;
    let last = tables.numbers.get("last_message")?;
    let id = last.map_or(0, |last| last.value()) + 1;
    tables.numbers.insert("last_message", id)?;
    let message = new.stored_as(id, now_ms);
    match queue.delivery {
        Delivery::Grouped => grouped::enqueue(tables, &queue.name, &message, now_ms)?,
        Delivery::Single => single::enqueue(tables, &queue.name, &message, now_ms)?,
    }
    Ok(1)
}

fn know_queue(tables: &mut Tables<'_>, queue: &Queue) -> Result<()> {
    if tables.queues.get(queue.name.as_ref())?.is_none() {
        let grouped = queue.delivery == Delivery::Grouped;
        tables.queues.insert(queue.name.as_ref(), grouped)?;
    }
    Ok(())
}

fn remove(tables: &mut Tables<'_>, queue: &Queue, ids: &[u64], now_ms: u64) -> Result<u64> {
    let ids = dead_messages::living(tables, &queue.name, ids)?;
    match queue.delivery {
        Delivery::Grouped => grouped::remove(tables, &queue.name, &ids, now_ms),
        Delivery::Single => single::remove(tables, &queue.name, &ids),
    }
}

/// Operations on a lease; one that an earlier operation of the batch ended is left alone.
fn apply_to_lease(
    tables: &mut Tables<'_>,
    operation: &Operation,
    now_ms: u64,
    wake: &mut BTreeSet<String>,
) -> Result<u64> {
    let (Operation::Complete { lease: token }
    | Operation::Renew { lease: token, .. }
    | Operation::Release { lease: token, .. }) = operation
    else {
        return Ok(0);
    };
    let Some(mut lease) = living_lease(tables, token, now_ms)? else {
        return Ok(0);
    };
    let grouped = tables.queues.get(lease.queue.as_str())?;
    let grouped = grouped.is_some_and(|grouped| grouped.value());
    let token = token.as_str();
    match operation {
        Operation::Renew { lease_ms, .. } => {
            lease.until_ms = later_ms(now_ms, *lease_ms);
            if grouped {
                grouped::renew(tables, token, &lease, now_ms)?
            } else {
                single::renew(tables, token, &lease, now_ms)?
            }
            Ok(1)
        }
        Operation::Release { after, forgive, .. } => {
            wake.insert(lease.queue.clone());
            if grouped {
                grouped::release(tables, token, &lease, *after, *forgive, now_ms)
            } else {
                single::release(tables, token, &lease, *after, *forgive, now_ms)
            }
        }
        _ if grouped => {
            let (removed, more) = grouped::complete(tables, token, &lease, now_ms)?;
            if more {
                wake.insert(lease.queue.clone());
            }
            Ok(removed)
        }
        _ => single::complete(tables, &lease, now_ms),
    }
}
