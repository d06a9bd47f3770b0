//! Queries, answered from one read transaction.

use std::collections::BTreeMap;

use ::redb::ReadableTableMetadata;

use super::error::{Result, in_order};
use super::group::FOLLOWING;
use super::tables::Views;
use super::{backlog, dead_messages, discarded, discarded_scopes, messages};
use crate::atomic::{Answer, Query};
use crate::lease::{Lease, LeaseToken};
use crate::message::{Delivery, Depth, Message, Queue};
use crate::record::{Entry, PartitionInfo, Record};

pub(super) fn run(views: &Views, query: &Query, now_ms: u64) -> Result<Answer> {
    Ok(match query {
        Query::Events {
            entity,
            partition,
            from,
            limit,
        } => Answer::Events(events(views, entity, *partition, *from, *limit)?),
        Query::Partition { entity, partition } => {
            Answer::Partition(partition_info(views, entity, *partition)?)
        }
        Query::Partitions { entity } => Answer::Partitions(partitions(views, entity)?),
        Query::EventCount => {
            let dead = discarded::left(&views.discarded)?;
            Answer::Count(views.events.len()?.saturating_sub(dead))
        }
        Query::Entry { scope, .. } if discarded_scopes::is_hidden(views, scope)? => {
            Answer::Entry(None)
        }
        Query::Entry { scope, key } => {
            let found = views.entries.get((scope.as_str(), key.as_str()))?;
            Answer::Entry(found.map(|value| value.value().to_vec()))
        }
        Query::Entries {
            scope,
            after,
            limit,
        } => Answer::Entries(entries(views, scope, after.as_deref(), *limit)?),
        Query::Count { scope } => Answer::Count(count(views, scope)?),
        Query::Lease { token } => Answer::Lease(lease(views, token, now_ms)?),
        Query::Leases { queue, group } => {
            check_delivery(views, queue)?;
            Answer::Leases(leases(views, queue, group, now_ms)?)
        }
        Query::Messages {
            queue,
            group,
            after,
            limit,
        } => {
            check_delivery(views, queue)?;
            Answer::Messages(page(views, &queue.name, group.as_deref(), *after, *limit)?)
        }
        Query::MessagesById { queue, ids } => {
            check_delivery(views, queue)?;
            Answer::Messages(by_id(views, &queue.name, ids)?)
        }
        Query::MessagesByKey { queue, group, key } => {
            check_delivery(views, queue)?;
            let ids = messages::of_key(&views.by_key, &queue.name, group, key)?;
            Answer::Messages(by_id(views, &queue.name, &ids)?)
        }
        Query::Backlog {
            queue,
            limit,
            count_max,
        } => {
            check_delivery(views, queue)?;
            Answer::Backlog(backlog::run(views, queue, *limit, *count_max, now_ms)?)
        }
        Query::Depths { queue } => {
            check_delivery(views, queue)?;
            Answer::Depths(depths(views, queue, now_ms)?)
        }
    })
}

fn check_delivery(views: &Views, queue: &Queue) -> Result<()> {
    match views.queues.get(queue.name.as_ref())?.map(|q| q.value()) {
        Some(true) => Ok(queue.expect(Delivery::Grouped)?),
        Some(false) => Ok(queue.expect(Delivery::Single)?),
        None => Ok(()),
    }
}

fn events(
    views: &Views,
    entity: &str,
    partition: u64,
    from: u64,
    limit: usize,
) -> Result<Vec<Record>> {
    let range = (entity, partition, from)..=(entity, partition, u64::MAX);
    let mut records = Vec::new();
    if discarded::covering(&views.discarded, entity, partition)?.is_some() {
        return Ok(records);
    }
    for found in views.events.range(range)?.take(limit) {
        let (place, data) = found?;
        records.push(Record {
            number: place.value().2,
            data: data.value().to_vec(),
        });
    }
    Ok(records)
}

fn partition_info(views: &Views, entity: &str, partition: u64) -> Result<PartitionInfo> {
    let mut info = PartitionInfo::default();
    if discarded::covering(&views.discarded, entity, partition)?.is_some() {
        return Ok(info);
    }
    let range = (entity, partition, 0)..=(entity, partition, u64::MAX);
    for found in views.events.range(range)? {
        let (place, data) = found?;
        info.events += 1;
        info.bytes += data.value().len() as u64;
        info.last = place.value().2;
    }
    Ok(info)
}

/// Found by skipping from partition to partition.
fn partitions(views: &Views, entity: &str) -> Result<Vec<u64>> {
    let mut partitions = Vec::new();
    let mut from = Some(0);
    while let Some(first) = from {
        let range = (entity, first, 0)..=(entity, u64::MAX, u64::MAX);
        let Some(found) = views.events.range(range)?.next() else {
            break;
        };
        let found = found?.0;
        let (found_entity, partition, number) = found.value();
        in_order(&(found_entity, partition, number), &(entity, first, 0))?;
        from = match discarded::covering(&views.discarded, entity, partition)? {
            Some(dead) => dead.last.checked_add(1),
            None => {
                partitions.push(partition);
                partition.checked_add(1)
            }
        };
    }
    Ok(partitions)
}

fn entries(views: &Views, scope: &str, after: Option<&str>, limit: usize) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    if discarded_scopes::is_hidden(views, scope)? {
        return Ok(entries);
    }
    for found in views.entries.range((scope, after.unwrap_or(""))..)? {
        let (place, value) = found?;
        let (found_scope, key) = place.value();
        in_order(&(found_scope, key), &(scope, after.unwrap_or("")))?;
        if found_scope != scope || entries.len() >= limit {
            break;
        }
        if after != Some(key) {
            entries.push(Entry {
                key: key.to_owned(),
                value: value.value().to_vec(),
            });
        }
    }
    Ok(entries)
}

/// The keys of a scope are walked, not their values.
fn count(views: &Views, scope: &str) -> Result<u64> {
    let mut count = 0;
    if discarded_scopes::is_hidden(views, scope)? {
        return Ok(count);
    }
    for found in views.entries.range((scope, "")..)? {
        if found?.0.value().0 != scope {
            break;
        }
        count += 1;
    }
    Ok(count)
}

fn by_id(views: &Views, queue: &str, ids: &[u64]) -> Result<Vec<Message>> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(living(views, queue, *id)?);
    }
    Ok(found)
}

/// A message, unless it is dead.
fn living(views: &Views, queue: &str, id: u64) -> Result<Option<Message>> {
    match messages::load(&views.messages, &views.states, queue, id)? {
        Some(message) if dead_messages::is_hidden(views, queue, &message.group)? => Ok(None),
        message => Ok(message),
    }
}

/// A lease, unless its messages are dead.
fn lease(views: &Views, token: &LeaseToken, now_ms: u64) -> Result<Option<Lease>> {
    match messages::lease(&views.leases, token.as_str(), now_ms)? {
        Some(lease) if dead_messages::is_hidden(views, &lease.queue, &lease.group)? => Ok(None),
        lease => Ok(lease),
    }
}

fn page(
    views: &Views,
    queue: &str,
    group: Option<&str>,
    after: u64,
    limit: usize,
) -> Result<Vec<Message>> {
    let ids = match group {
        Some(group) if dead_messages::is_hidden(views, queue, group)? => Vec::new(),
        Some(group) => messages::of_group(&views.by_group, queue, group)?,
        None => all_after(views, queue, after, limit)?,
    };
    let mut page = Vec::new();
    for id in ids.into_iter().filter(|id| *id > after).take(limit) {
        page.extend(messages::load(&views.messages, &views.states, queue, id)?);
    }
    Ok(page)
}

/// The first messages of a queue above a number, without those that are dead.
fn all_after(views: &Views, queue: &str, after: u64, limit: usize) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    for found in views
        .messages
        .range((queue, after.saturating_add(1))..=(queue, u64::MAX))?
    {
        if ids.len() >= limit {
            break;
        }
        let (place, row) = found?;
        if !dead_messages::is_hidden(views, queue, row.value().0)? {
            ids.push(place.value().1);
        }
    }
    Ok(ids)
}

fn depths(views: &Views, queue: &Queue, now_ms: u64) -> Result<Vec<Depth>> {
    let name = queue.name.as_ref();
    let mut depths: BTreeMap<Option<String>, Depth> = BTreeMap::new();
    let mut claimed = BTreeMap::new();
    for found in views.messages.range((name, 0)..=(name, u64::MAX))? {
        let (place, row) = found?;
        let id = place.value().1;
        let (group, _, _, label, ..) = row.value();
        if dead_messages::is_hidden(views, name, group)? {
            continue;
        }
        let leased = match queue.delivery {
            Delivery::Single => item_lease(views, id, now_ms)?.is_some(),
            Delivery::Grouped => {
                if !claimed.contains_key(group) {
                    let lease = group_lease(views, name, group, now_ms)?;
                    let ids = lease.map(|lease| lease.claimed);
                    claimed.insert(group.to_owned(), ids.unwrap_or_default());
                }
                claimed[group].contains(&id)
            }
        };
        let state = messages::load_state(&views.states, id)?;
        let is_ripe = matches!(state.place, Some(0 | FOLLOWING));
        let seen = queue.delivery == Delivery::Grouped && is_ripe;
        let depth = depths.entry(label.map(str::to_owned)).or_default();
        if leased {
            depth.leased += 1;
        } else if seen || state.visible_at <= now_ms {
            depth.ready += 1;
        } else {
            depth.delayed += 1;
        }
    }
    let labelled = depths
        .into_iter()
        .map(|(label, depth)| Depth { label, ..depth });
    Ok(labelled.collect())
}

/// The valid leases on messages of a group, by message.
fn leases(views: &Views, queue: &Queue, group: &str, now_ms: u64) -> Result<Vec<Lease>> {
    if queue.delivery == Delivery::Grouped {
        let lease = group_lease(views, &queue.name, group, now_ms)?;
        return Ok(lease.into_iter().collect());
    }
    let mut leases = Vec::new();
    if dead_messages::is_hidden(views, &queue.name, group)? {
        return Ok(leases);
    }
    for id in messages::of_group(&views.by_group, &queue.name, group)? {
        leases.extend(item_lease(views, id, now_ms)?);
    }
    Ok(leases)
}

/// The lease on a single message, while it is valid.
fn item_lease(views: &Views, id: u64, now_ms: u64) -> Result<Option<Lease>> {
    let state = messages::load_state(&views.states, id)?;
    let Some(token) = state.lease else {
        return Ok(None);
    };
    let lease = messages::lease(&views.leases, &token, now_ms)?;
    Ok(lease.filter(|lease| lease.valid))
}

/// The lease on a group, while it is valid.
fn group_lease(views: &Views, queue: &str, group: &str, now_ms: u64) -> Result<Option<Lease>> {
    let Some(row) = views.groups.get((queue, group))? else {
        return Ok(None);
    };
    let Some(token) = row.value().2.map(str::to_owned) else {
        return Ok(None);
    };
    let lease = messages::lease(&views.leases, &token, now_ms)?;
    Ok(lease.filter(|lease| lease.valid))
}
