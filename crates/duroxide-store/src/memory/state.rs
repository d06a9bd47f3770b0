//! The whole content of a memory store: plain maps, changed by one caller at a time.
//!
//! A batch is checked first and applied after; applying cannot fail.

use std::collections::BTreeSet;

use super::logs::Logs;
use super::queues::Queues;
use super::scopes::Scopes;
use crate::atomic::{Answer, Batch, Guard, Operation, Query};
use crate::error::StoreError;
use crate::lease::LeaseToken;
use crate::message::{Claim, Claimed, Delivery};
use crate::poll::Attempt;
use duroxide_core::defect::Defect;

#[derive(Debug, Default)]
pub(super) struct State {
    logs: Logs,
    scopes: Scopes,
    queues: Queues,
}

/// What a commit did: records touched per operation, and queues in which something may be claimable now.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) counts: Vec<u64>,
    pub(super) wake: BTreeSet<String>,
}

impl State {
    pub(super) fn commit(&mut self, batch: Batch, now_ms: u64) -> Result<Receipt, StoreError> {
        for guard in &batch.guards {
            self.check_guard(guard, now_ms)?;
        }
        let mut appended = BTreeSet::new();
        for operation in &batch.operations {
            self.check(operation, now_ms, &mut appended)?;
        }
        let operations = batch.operations.into_iter();
        Ok(Receipt {
            counts: operations.map(|one| self.apply(one, now_ms)).collect(),
            wake: self.queues.take_touched(),
        })
    }

    pub(super) fn claim(
        &mut self,
        claim: &Claim,
        now_ms: u64,
    ) -> Result<Attempt<Vec<Claimed>>, StoreError> {
        self.queues.check_delivery(&claim.queue)?;
        for guard in &claim.guards {
            self.check_guard(guard, now_ms)?;
        }
        let mut attempt = self.queues.claim(claim, now_ms);
        if let (Attempt::Found(claimed), Some(scope)) = (&mut attempt, &claim.attach) {
            for one in claimed {
                one.attached = self.scopes.get(scope, &one.group).cloned();
            }
        }
        Ok(attempt)
    }

    fn check_guard(&self, guard: &Guard, now_ms: u64) -> Result<(), StoreError> {
        let entry = |scope, key| self.scopes.get(scope, key);
        let (holds, scope, key) = match guard {
            Guard::Lease(token) => return self.check_lease(token, now_ms),
            Guard::Undisturbed(token) => {
                return match self.queues.is_undisturbed(token, now_ms) {
                    Some(true) => Ok(()),
                    Some(false) => {
                        Err(StoreError::Conflict(format!("group of {token} is stirred")))
                    }
                    None => Err(StoreError::LeaseLost(token.to_string())),
                };
            }
            Guard::Lead {
                queue,
                group,
                is_there,
            } => {
                return if self.queues.has_lead(queue, group) == *is_there {
                    Ok(())
                } else {
                    Err(StoreError::Conflict(format!("leads of {group} changed")))
                };
            }
            Guard::Absent { scope, key } => (entry(scope, key).is_none(), scope, key.as_str()),
            Guard::Present { scope, key } => (entry(scope, key).is_some(), scope, key.as_str()),
            Guard::Equals { scope, key, value } => {
                (entry(scope, key) == Some(value), scope, key.as_str())
            }
            Guard::Keys { scope, keys } => (self.scopes.keys(scope).eq(keys), scope, "*"),
        };
        if holds {
            return Ok(());
        }
        let text = format!("entry {scope}/{key} is not as expected");
        Err(StoreError::Conflict(text))
    }

    fn check_lease(&self, token: &LeaseToken, now_ms: u64) -> Result<(), StoreError> {
        let found = self.queues.lease(token, now_ms);
        if Defect::LapsedLeaseCounts.is_on() && found.is_some() {
            return Ok(());
        }
        match found {
            Some(lease) if lease.valid => Ok(()),
            _ => Err(StoreError::LeaseLost(token.to_string())),
        }
    }

    fn check<'b>(
        &self,
        operation: &'b Operation,
        now_ms: u64,
        appended: &mut BTreeSet<(&'b str, u64, u64)>,
    ) -> Result<(), StoreError> {
        match operation {
            Operation::Append {
                entity,
                partition,
                events,
            } => {
                for number in events.iter().map(|event| event.number) {
                    let taken = self.logs.contains(entity, *partition, number);
                    if taken || !appended.insert((entity, *partition, number)) {
                        let text = format!("event {number} of {entity}/{partition} exists");
                        return Err(StoreError::Conflict(text));
                    }
                }
                Ok(())
            }
            Operation::Complete { lease } | Operation::Renew { lease, .. } => {
                self.check_lease(lease, now_ms)
            }
            Operation::Release { lease, .. } => match self.queues.lease(lease, now_ms) {
                Some(_) => Ok(()),
                None => Err(StoreError::LeaseLost(lease.to_string())),
            },
            Operation::Enqueue { queue, .. }
            | Operation::DeleteMessages { queue, .. }
            | Operation::DeleteKeyed { queue, .. }
            | Operation::DeleteGroup { queue, .. } => self.queues.check_delivery(queue),
            Operation::SetLabel { queue, .. } | Operation::HoldFollowers { queue, .. } => {
                queue.expect(Delivery::Grouped)?;
                self.queues.check_delivery(queue)
            }
            Operation::ShowMessages { queue, .. }
            | Operation::RenewAffinities { queue, .. }
            | Operation::SweepAffinities { queue } => {
                queue.expect(Delivery::Single)?;
                self.queues.check_delivery(queue)
            }
            Operation::DeletePartition { .. }
            | Operation::DeleteEntity { .. }
            | Operation::Put { .. }
            | Operation::Delete { .. }
            | Operation::DeleteScope { .. } => Ok(()),
        }
    }

    fn apply(&mut self, operation: Operation, now_ms: u64) -> u64 {
        let (logs, scopes, queues) = (&mut self.logs, &mut self.scopes, &mut self.queues);
        match operation {
            Operation::Append {
                entity,
                partition,
                events,
            } => logs.append(entity, partition, events),
            Operation::DeletePartition { entity, partition } => logs.delete(entity, partition),
            Operation::DeleteEntity { entity } => logs.delete_entity(&entity),
            Operation::Put { scope, key, value } => scopes.put(scope, key, value),
            Operation::Delete { scope, key } => scopes.delete(&scope, &key),
            Operation::DeleteScope { scope } => scopes.delete_scope(&scope),
            Operation::Enqueue { queue, message } => queues.enqueue(&queue, message, now_ms),
            Operation::HoldFollowers { queue, group } => {
                queues.hold_followers(&queue, &group, now_ms)
            }
            Operation::Complete { lease } => queues.complete(&lease, now_ms),
            Operation::Renew { lease, lease_ms } => queues.renew(&lease, lease_ms, now_ms),
            Operation::Release {
                lease,
                after,
                forgive,
            } => queues.release(&lease, after, forgive, now_ms),
            Operation::DeleteMessages { queue, ids } => {
                queues.delete_messages(&queue, &ids, now_ms)
            }
            Operation::ShowMessages { queue, ids } => queues.show_messages(&queue, &ids, now_ms),
            Operation::DeleteKeyed { queue, group, key } => {
                queues.delete_keyed(&queue, &group, &key, now_ms)
            }
            Operation::DeleteGroup { queue, group } => queues.delete_group(&queue, &group),
            Operation::SetLabel {
                queue,
                group,
                label,
                kind,
            } => queues.set_label(&queue, &group, (label, kind), now_ms),
            Operation::RenewAffinities {
                queue,
                owners,
                lease_ms,
                idle_ms,
            } => queues.renew_affinities(&queue, &owners, lease_ms, idle_ms, now_ms),
            Operation::SweepAffinities { queue } => queues.sweep_affinities(&queue, now_ms),
        }
    }

    pub(super) fn answer(&self, query: Query, now_ms: u64) -> Result<Answer, StoreError> {
        Ok(match query {
            Query::Events {
                entity,
                partition,
                from,
                limit,
            } => Answer::Events(self.logs.events(entity, partition, from, limit)),
            Query::Partition { entity, partition } => {
                Answer::Partition(self.logs.info(entity, partition))
            }
            Query::Partitions { entity } => Answer::Partitions(self.logs.partitions_of(&entity)),
            Query::EventCount => Answer::Count(self.logs.count()),
            Query::Entry { scope, key } => Answer::Entry(self.scopes.get(&scope, &key).cloned()),
            Query::Entries {
                scope,
                after,
                limit,
            } => Answer::Entries(self.scopes.page(&scope, after.as_deref(), limit)),
            Query::Count { scope } => Answer::Count(self.scopes.count(&scope)),
            Query::Lease { token } => Answer::Lease(self.queues.lease(&token, now_ms)),
            Query::Leases { queue, group } => {
                self.queues.check_delivery(&queue)?;
                Answer::Leases(self.queues.leases(&queue, &group, now_ms))
            }
            Query::Messages {
                queue,
                group,
                after,
                limit,
            } => {
                self.queues.check_delivery(&queue)?;
                Answer::Messages(self.queues.page(&queue, group.as_deref(), after, limit))
            }
            Query::MessagesById { queue, ids } => {
                self.queues.check_delivery(&queue)?;
                Answer::Messages(self.queues.by_id(&queue, &ids))
            }
            Query::MessagesByKey { queue, group, key } => {
                self.queues.check_delivery(&queue)?;
                Answer::Messages(self.queues.by_key(&queue, &group, &key))
            }
            Query::Backlog {
                queue,
                limit,
                count_max,
            } => {
                self.queues.check_delivery(&queue)?;
                let backlog = self.queues.backlog(&queue, limit, count_max, now_ms);
                Answer::Backlog(backlog)
            }
            Query::Depths { queue } => {
                self.queues.check_delivery(&queue)?;
                Answer::Depths(self.queues.depths(&queue, now_ms))
            }
        })
    }
}
