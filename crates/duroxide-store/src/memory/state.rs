//! The whole content of a memory store: plain maps, changed by one caller at a time.
//!
//! A batch is checked first and applied after; applying cannot fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::grouped::Grouped;
use super::single::Single;
use crate::atomic::{Answer, Batch, Guard, Operation, Query};
use crate::error::StoreError;
use crate::lease::{Lease, LeaseToken};
use crate::log::{PartitionInfo, Record};
use crate::metadata::Entry;
use crate::queue::{Claim, Claimed, Delivery, NewMessage, Queue};
use crate::wake::Attempt;

#[derive(Debug, Default)]
pub(super) struct State {
    last_id: u64,
    logs: BTreeMap<(String, u64), BTreeMap<u64, Vec<u8>>>,
    scopes: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    queues: BTreeMap<String, Content>,
}

#[derive(Debug)]
enum Content {
    Grouped(Grouped),
    Single(Single),
}

/// What a commit did: records touched per operation, and queues in which something may be claimable now.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    pub(super) counts: Vec<u64>,
    pub(super) wake: BTreeSet<String>,
}

impl State {
    pub(super) fn commit(&mut self, batch: Batch, now_ms: u64) -> Result<Receipt, StoreError> {
        for guard in &batch.guards {
            self.check_guard(guard, now_ms)?;
        }
        self.check_operations(&batch.operations, now_ms)?;
        let mut receipt = Receipt::default();
        for operation in batch.operations {
            let count = self.apply(operation, now_ms, &mut receipt.wake);
            receipt.counts.push(count);
        }
        Ok(receipt)
    }

    pub(super) fn claim(
        &mut self,
        claim: &Claim,
        now_ms: u64,
    ) -> Result<Attempt<Vec<Claimed>>, StoreError> {
        self.check_delivery(&claim.queue)?;
        let mut attempt = match self.content(&claim.queue) {
            Content::Grouped(queue) => queue.claim(claim, now_ms),
            Content::Single(queue) => queue.claim(claim, now_ms),
        };
        if let (Attempt::Found(claimed), Some(scope)) = (&mut attempt, &claim.attach) {
            for one in claimed {
                one.attached = self.entry(scope, &one.group).cloned();
            }
        }
        Ok(attempt)
    }

    fn check_guard(&self, guard: &Guard, now_ms: u64) -> Result<(), StoreError> {
        let (holds, scope, key) = match guard {
            Guard::Lease(token) => return self.check_lease(token, now_ms),
            Guard::Absent { scope, key } => (self.entry(scope, key).is_none(), scope, key.as_str()),
            Guard::Present { scope, key } => {
                (self.entry(scope, key).is_some(), scope, key.as_str())
            }
            Guard::Equals { scope, key, value } => {
                (self.entry(scope, key) == Some(value), scope, key.as_str())
            }
            Guard::Keys { scope, keys } => {
                let present = self.scopes.get(scope).into_iter().flat_map(BTreeMap::keys);
                (present.eq(keys), scope, "*")
            }
        };
        if holds {
            return Ok(());
        }
        Err(StoreError::Conflict(format!(
            "entry {scope}/{key} is not as expected"
        )))
    }

    fn check_lease(&self, token: &LeaseToken, now_ms: u64) -> Result<(), StoreError> {
        match self.lease(token, now_ms) {
            Some(lease) if lease.valid => Ok(()),
            _ => Err(StoreError::LeaseLost(token.to_string())),
        }
    }

    fn check_operations(&self, operations: &[Operation], now_ms: u64) -> Result<(), StoreError> {
        let mut appended = BTreeSet::new();
        for operation in operations {
            match operation {
                Operation::Append {
                    entity,
                    partition,
                    events,
                } => {
                    for event in events {
                        if self.has_event(entity, *partition, event.number)
                            || !appended.insert((entity, partition, event.number))
                        {
                            return Err(StoreError::Conflict(format!(
                                "event {} of {entity}/{partition} exists",
                                event.number
                            )));
                        }
                    }
                }
                Operation::Complete { lease } | Operation::Renew { lease, .. } => {
                    self.check_lease(lease, now_ms)?;
                }
                Operation::Release { lease, .. } => {
                    if self.lease(lease, now_ms).is_none() {
                        return Err(StoreError::LeaseLost(lease.to_string()));
                    }
                }
                Operation::Enqueue { queue, .. }
                | Operation::DeleteMessages { queue, .. }
                | Operation::DeleteKeyed { queue, .. }
                | Operation::DeleteGroup { queue, .. } => self.check_delivery(queue)?,
                Operation::SetLabel { queue, .. } => {
                    self.check_delivery(queue)?;
                    queue.expect(Delivery::Grouped)?;
                }
                Operation::RenewAffinities { queue, .. } | Operation::SweepAffinities { queue } => {
                    self.check_delivery(queue)?;
                    queue.expect(Delivery::Single)?;
                }
                Operation::DeletePartition { .. }
                | Operation::DeleteEntity { .. }
                | Operation::Put { .. }
                | Operation::Delete { .. }
                | Operation::DeleteScope { .. } => {}
            }
        }
        Ok(())
    }

    fn check_delivery(&self, queue: &Queue) -> Result<(), StoreError> {
        match self.queues.get(queue.name.as_ref()) {
            Some(Content::Grouped(_)) => queue.expect(Delivery::Grouped),
            Some(Content::Single(_)) => queue.expect(Delivery::Single),
            None => Ok(()),
        }
    }

    fn apply(&mut self, operation: Operation, now_ms: u64, wake: &mut BTreeSet<String>) -> u64 {
        match operation {
            Operation::Append {
                entity,
                partition,
                events,
            } => self.append(entity, partition, events),
            Operation::DeletePartition { entity, partition } => {
                let events = self.logs.remove(&(entity, partition));
                events.map_or(0, |events| events.len() as u64)
            }
            Operation::DeleteEntity { entity } => self.delete_entity(&entity),
            Operation::Put { scope, key, value } => {
                self.scopes.entry(scope).or_default().insert(key, value);
                1
            }
            Operation::Delete { scope, key } => self.delete_entry(&scope, &key),
            Operation::DeleteScope { scope } => {
                let entries = self.scopes.remove(&scope);
                entries.map_or(0, |entries| entries.len() as u64)
            }
            Operation::Enqueue { queue, message } => self.enqueue(&queue, message, now_ms, wake),
            Operation::Complete { lease } => self.complete(&lease, now_ms, wake),
            Operation::Renew { lease, lease_ms } => {
                let until_ms = now_ms.saturating_add(lease_ms);
                let contents = self.queues.values_mut();
                contents
                    .map(|content| match content {
                        Content::Grouped(queue) => queue.renew(&lease, until_ms),
                        Content::Single(queue) => queue.renew(&lease, until_ms, now_ms),
                    })
                    .sum()
            }
            Operation::Release {
                lease,
                after,
                forgive,
            } => {
                let mut released = 0;
                for (name, content) in &mut self.queues {
                    let count = match content {
                        Content::Grouped(queue) => queue.release(&lease, after, forgive, now_ms),
                        Content::Single(queue) => queue.release(&lease, after, forgive, now_ms),
                    };
                    if count > 0 {
                        wake.insert(name.clone());
                    }
                    released += count;
                }
                released
            }
            Operation::DeleteMessages { queue, ids } => self.content(&queue).remove(&ids),
            Operation::DeleteKeyed { queue, group, key } => {
                let content = self.content(&queue);
                let ids = content.shelf().of_key(&group, &key);
                content.remove(&ids)
            }
            Operation::DeleteGroup { queue, group } => match self.content(&queue) {
                Content::Grouped(queue) => queue.delete_group(&group),
                Content::Single(queue) => {
                    let ids = queue.shelf.of_group(&group);
                    queue.remove(&ids)
                }
            },
            Operation::SetLabel {
                queue,
                group,
                label,
            } => {
                wake.insert(queue.name.to_string());
                if let Content::Grouped(queue) = self.content(&queue) {
                    queue.set_label(&group, label);
                }
                1
            }
            Operation::RenewAffinities {
                queue,
                owners,
                lease_ms,
                idle_ms,
            } => match self.content(&queue) {
                Content::Single(queue) => {
                    let until_ms = now_ms.saturating_add(lease_ms);
                    queue.renew_affinities(&owners, until_ms, idle_ms, now_ms)
                }
                Content::Grouped(_) => 0,
            },
            Operation::SweepAffinities { queue } => match self.content(&queue) {
                Content::Single(queue) => queue.sweep_affinities(now_ms),
                Content::Grouped(_) => 0,
            },
        }
    }

    fn append(&mut self, entity: String, partition: u64, events: Vec<Record>) -> u64 {
        let count = events.len() as u64;
        if count > 0 {
            let log = self.logs.entry((entity, partition)).or_default();
            log.extend(events.into_iter().map(|event| (event.number, event.data)));
        }
        count
    }

    fn delete_entity(&mut self, entity: &str) -> u64 {
        let mut deleted = 0;
        for partition in self.partitions(entity) {
            let events = self.logs.remove(&(entity.to_owned(), partition));
            deleted += events.map_or(0, |events| events.len() as u64);
        }
        deleted
    }

    fn delete_entry(&mut self, scope: &str, key: &str) -> u64 {
        let Some(entries) = self.scopes.get_mut(scope) else {
            return 0;
        };
        let deleted = entries.remove(key).is_some();
        if entries.is_empty() {
            self.scopes.remove(scope);
        }
        u64::from(deleted)
    }

    fn enqueue(
        &mut self,
        queue: &Queue,
        new: NewMessage,
        now_ms: u64,
        wake: &mut BTreeSet<String>,
    ) -> u64 {
        self.last_id += 1;
        let message = new.stored_as(self.last_id, now_ms);
        wake.insert(queue.name.to_string());
        match self.content(queue) {
            Content::Grouped(queue) => queue.enqueue(message),
            Content::Single(queue) => queue.enqueue(message, now_ms),
        }
        1
    }

    fn complete(&mut self, lease: &LeaseToken, now_ms: u64, wake: &mut BTreeSet<String>) -> u64 {
        let mut removed = 0;
        for (name, content) in &mut self.queues {
            match content {
                Content::Grouped(queue) => {
                    let (count, more) = queue.complete(lease);
                    if more {
                        wake.insert(name.clone());
                    }
                    removed += count;
                }
                Content::Single(queue) => removed += queue.complete(lease, now_ms),
            }
        }
        removed
    }

    fn content(&mut self, queue: &Queue) -> &mut Content {
        self.queues
            .entry(queue.name.to_string())
            .or_insert_with(|| match queue.delivery {
                Delivery::Grouped => Content::Grouped(Grouped::default()),
                Delivery::Single => Content::Single(Single::default()),
            })
    }

    fn entry(&self, scope: &str, key: &str) -> Option<&Vec<u8>> {
        self.scopes.get(scope)?.get(key)
    }

    fn lease(&self, token: &LeaseToken, now_ms: u64) -> Option<Lease> {
        self.queues.iter().find_map(|(name, content)| {
            let lease = match content {
                Content::Grouped(queue) => queue.lease(token, now_ms),
                Content::Single(queue) => queue.lease(token, now_ms),
            };
            lease.map(|lease| Lease {
                queue: name.clone(),
                ..lease
            })
        })
    }

    fn has_event(&self, entity: &str, partition: u64, number: u64) -> bool {
        let log = self.logs.get(&(entity.to_owned(), partition));
        log.is_some_and(|log| log.contains_key(&number))
    }

    fn partitions(&self, entity: &str) -> Vec<u64> {
        let range = (entity.to_owned(), 0)..=(entity.to_owned(), u64::MAX);
        self.logs.range(range).map(|((_, p), _)| *p).collect()
    }

    pub(super) fn answer(&self, query: Query, now_ms: u64) -> Result<Answer, StoreError> {
        Ok(match query {
            Query::Events {
                entity,
                partition,
                from,
                limit,
            } => Answer::Events(self.events(&(entity, partition), from, limit)),
            Query::Partition { entity, partition } => {
                Answer::Partition(self.partition(&(entity, partition)))
            }
            Query::Partitions { entity } => Answer::Partitions(self.partitions(&entity)),
            Query::EventCount => {
                Answer::Count(self.logs.values().map(|log| log.len() as u64).sum())
            }
            Query::Entry { scope, key } => Answer::Entry(self.entry(&scope, &key).cloned()),
            Query::Entries {
                scope,
                after,
                limit,
            } => Answer::Entries(self.entries(&scope, after.as_deref(), limit)),
            Query::Lease { token } => Answer::Lease(self.lease(&token, now_ms)),
            Query::Messages {
                queue,
                group,
                after,
                limit,
            } => {
                self.check_delivery(&queue)?;
                let content = self.queues.get(queue.name.as_ref());
                Answer::Messages(content.map_or_else(Vec::new, |content| {
                    content.shelf().page(group.as_deref(), after, limit)
                }))
            }
            Query::Depths { queue } => {
                self.check_delivery(&queue)?;
                Answer::Depths(match self.queues.get(queue.name.as_ref()) {
                    Some(Content::Grouped(queue)) => queue.depths(now_ms),
                    Some(Content::Single(queue)) => queue.depths(now_ms),
                    None => Vec::new(),
                })
            }
        })
    }

    fn events(&self, log: &(String, u64), from: u64, limit: usize) -> Vec<Record> {
        let log = self.logs.get(log).into_iter();
        log.flat_map(|log| log.range(from..))
            .take(limit)
            .map(|(number, data)| Record {
                number: *number,
                data: data.clone(),
            })
            .collect()
    }

    fn partition(&self, log: &(String, u64)) -> PartitionInfo {
        let Some(log) = self.logs.get(log) else {
            return PartitionInfo::default();
        };
        PartitionInfo {
            events: log.len() as u64,
            bytes: log.values().map(|data| data.len() as u64).sum(),
            last: log.last_key_value().map_or(0, |(number, _)| *number),
        }
    }

    fn entries(&self, scope: &str, after: Option<&str>, limit: usize) -> Vec<Entry> {
        let above = after.map_or(Bound::Unbounded, Bound::Excluded);
        let scope = self.scopes.get(scope).into_iter();
        scope
            .flat_map(|entries| entries.range::<str, _>((above, Bound::Unbounded)))
            .take(limit)
            .map(|(key, value)| Entry {
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }
}

impl Content {
    fn shelf(&self) -> &super::shelf::Shelf {
        match self {
            Self::Grouped(queue) => &queue.shelf,
            Self::Single(queue) => &queue.shelf,
        }
    }

    fn remove(&mut self, ids: &[u64]) -> u64 {
        match self {
            Self::Grouped(queue) => queue.remove(ids),
            Self::Single(queue) => queue.remove(ids),
        }
    }
}
