//! All queues. Finds the queue an operation or a lease belongs to and notes where something may have become claimable.

use std::collections::{BTreeMap, BTreeSet};

use super::grouped::Grouped;
use super::indexed_messages::IndexedMessages;
use super::single::Single;
use crate::error::StoreError;
use crate::lease::{After, Lease, LeaseToken};
use crate::message::{
    Backlog, Claim, Claimed, Delivery, Depth, Message, NewMessage, Queue, later_ms,
};
use crate::poll::Attempt;

#[derive(Debug, Default)]
pub(super) struct Queues {
    last_id: u64,
    queues: BTreeMap<String, Content>,
    /// Queues to wake after the commit.
    touched: BTreeSet<String>,
}

#[derive(Debug)]
enum Content {
    Grouped(Grouped),
    Single(Single),
}

impl Queues {
    pub(super) fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn check_delivery(&self, queue: &Queue) -> Result<(), StoreError> {
        match self.queues.get(queue.name.as_ref()) {
            Some(Content::Grouped(_)) => queue.expect(Delivery::Grouped),
            Some(Content::Single(_)) => queue.expect(Delivery::Single),
            None => Ok(()),
        }
    }

    pub(super) fn claim(&mut self, claim: &Claim, now_ms: u64) -> Attempt<Vec<Claimed>> {
        match self.content(&claim.queue) {
            Content::Grouped(queue) => queue.claim(claim, now_ms),
            Content::Single(queue) => queue.claim(claim, now_ms),
        }
    }

    pub(super) fn lease(&self, token: &LeaseToken, now_ms: u64) -> Option<Lease> {
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

    /// Whether nothing arrived for the leased group or became visible in it since the claim; `None` if the lease is
    /// lost.
    pub(super) fn is_undisturbed(&self, token: &LeaseToken, now_ms: u64) -> Option<bool> {
        self.queues.values().find_map(|content| match content {
            Content::Grouped(queue) => queue.is_undisturbed(token, now_ms),
            Content::Single(queue) => queue.lease(token, now_ms).map(|_| true),
        })
    }

    pub(super) fn has_lead(&self, queue: &Queue, group: &str) -> bool {
        match self.queues.get(queue.name.as_ref()) {
            Some(Content::Grouped(queue)) => queue.has_lead(group),
            Some(Content::Single(_)) | None => false,
        }
    }

    pub(super) fn enqueue(&mut self, queue: &Queue, new: NewMessage, now_ms: u64) -> u64 {
        self.last_id += 1;
        let message = new.stored_as(self.last_id, now_ms);
        self.touched.insert(queue.name.to_string());
        match self.content(queue) {
            Content::Grouped(queue) => queue.enqueue(message, now_ms),
            Content::Single(queue) => queue.enqueue(message, now_ms),
        }
        1
    }

    pub(super) fn complete(&mut self, lease: &LeaseToken, now_ms: u64) -> u64 {
        let mut removed = 0;
        for (name, content) in &mut self.queues {
            let (count, more) = match content {
                Content::Grouped(queue) => queue.complete(lease, now_ms),
                Content::Single(queue) => (queue.complete(lease, now_ms), false),
            };
            if more {
                self.touched.insert(name.clone());
            }
            removed += count;
        }
        removed
    }

    pub(super) fn renew(&mut self, lease: &LeaseToken, lease_ms: u64, now_ms: u64) -> u64 {
        let until_ms = later_ms(now_ms, lease_ms);
        let renewed = self.queues.values_mut().map(|content| match content {
            Content::Grouped(queue) => queue.renew(lease, until_ms, now_ms),
            Content::Single(queue) => queue.renew(lease, until_ms, now_ms),
        });
        renewed.sum()
    }

    pub(super) fn release(
        &mut self,
        lease: &LeaseToken,
        after: After,
        forgive: bool,
        now_ms: u64,
    ) -> u64 {
        let mut released = 0;
        for (name, content) in &mut self.queues {
            let count = match content {
                Content::Grouped(queue) => queue.release(lease, after, forgive, now_ms),
                Content::Single(queue) => queue.release(lease, after, forgive, now_ms),
            };
            if count > 0 {
                self.touched.insert(name.clone());
            }
            released += count;
        }
        released
    }

    pub(super) fn delete_messages(&mut self, queue: &Queue, ids: &[u64], now_ms: u64) -> u64 {
        self.content(queue).remove(ids, now_ms)
    }

    pub(super) fn show_messages(&mut self, queue: &Queue, ids: &[u64], now_ms: u64) -> u64 {
        let shown = match self.content(queue) {
            Content::Single(queue) => queue.show(ids, now_ms),
            Content::Grouped(_) => 0,
        };
        if shown > 0 {
            self.touched.insert(queue.name.to_string());
        }
        shown
    }

    pub(super) fn delete_keyed(
        &mut self,
        queue: &Queue,
        group: &str,
        key: &str,
        now_ms: u64,
    ) -> u64 {
        let content = self.content(queue);
        let ids = content.messages().of_key(group, key);
        content.remove(&ids, now_ms)
    }

    pub(super) fn delete_group(&mut self, queue: &Queue, group: &str) -> u64 {
        match self.content(queue) {
            Content::Grouped(queue) => queue.delete_group(group),
            Content::Single(queue) => {
                let ids = queue.messages.of_group(group);
                queue.remove(&ids)
            }
        }
    }

    pub(super) fn hold_followers(&mut self, queue: &Queue, group: &str, now_ms: u64) -> u64 {
        if let Content::Grouped(queue) = self.content(queue) {
            queue.hold_followers(group, now_ms);
        }
        1
    }

    pub(super) fn set_label(
        &mut self,
        queue: &Queue,
        group: &str,
        (label, kind): (Option<String>, Option<String>),
        now_ms: u64,
    ) -> u64 {
        self.touched.insert(queue.name.to_string());
        if let Content::Grouped(queue) = self.content(queue) {
            queue.set_label(group, label, kind, now_ms);
        }
        1
    }

    pub(super) fn renew_affinities(
        &mut self,
        queue: &Queue,
        owners: &[String],
        lease_ms: u64,
        idle_ms: u64,
        now_ms: u64,
    ) -> u64 {
        let until_ms = later_ms(now_ms, lease_ms);
        match self.content(queue) {
            Content::Single(queue) => queue.renew_affinities(owners, until_ms, idle_ms, now_ms),
            Content::Grouped(_) => 0,
        }
    }

    pub(super) fn sweep_affinities(&mut self, queue: &Queue, now_ms: u64) -> u64 {
        match self.content(queue) {
            Content::Single(queue) => queue.sweep_affinities(now_ms),
            Content::Grouped(_) => 0,
        }
    }

    /// The valid leases on messages of a group.
    pub(super) fn leases(&self, queue: &Queue, group: &str, now_ms: u64) -> Vec<Lease> {
        let mut leases = match self.queues.get(queue.name.as_ref()) {
            Some(Content::Grouped(queue)) => queue.leases_of(group, now_ms),
            Some(Content::Single(queue)) => queue.leases_of(group, now_ms),
            None => Vec::new(),
        };
        leases.retain(|lease| lease.valid);
        for lease in &mut leases {
            lease.queue = queue.name.to_string();
        }
        leases
    }

    pub(super) fn page(
        &self,
        queue: &Queue,
        group: Option<&str>,
        after: u64,
        limit: usize,
    ) -> Vec<Message> {
        let content = self.queues.get(queue.name.as_ref());
        content.map_or_else(Vec::new, |content| {
            content.messages().page(group, after, limit)
        })
    }

    pub(super) fn by_id(&self, queue: &Queue, ids: &[u64]) -> Vec<Message> {
        let content = self.queues.get(queue.name.as_ref());
        let found = content.map(|content| ids.iter().filter_map(|id| content.messages().get(*id)));
        found.into_iter().flatten().cloned().collect()
    }

    pub(super) fn by_key(&self, queue: &Queue, group: &str, key: &str) -> Vec<Message> {
        let content = self.queues.get(queue.name.as_ref());
        let ids = content.map_or_else(Vec::new, |content| content.messages().of_key(group, key));
        self.by_id(queue, &ids)
    }

    pub(super) fn backlog(
        &self,
        queue: &Queue,
        limit: usize,
        count_max: u64,
        now_ms: u64,
    ) -> Vec<Backlog> {
        let mut backlog = match self.queues.get(queue.name.as_ref()) {
            Some(Content::Grouped(queue)) => queue.backlog(now_ms, count_max),
            Some(Content::Single(queue)) => queue.backlog(now_ms, count_max),
            None => Vec::new(),
        };
        backlog.truncate(limit);
        backlog
    }

    pub(super) fn depths(&self, queue: &Queue, now_ms: u64) -> Vec<Depth> {
        match self.queues.get(queue.name.as_ref()) {
            Some(Content::Grouped(queue)) => queue.depths(now_ms),
            Some(Content::Single(queue)) => queue.depths(now_ms),
            None => Vec::new(),
        }
    }

    fn content(&mut self, queue: &Queue) -> &mut Content {
        self.queues
            .entry(queue.name.to_string())
            .or_insert_with(|| match queue.delivery {
                Delivery::Grouped => Content::Grouped(Grouped::default()),
                Delivery::Single => Content::Single(Single::default()),
            })
    }
}

impl Content {
    fn messages(&self) -> &IndexedMessages {
        match self {
            Self::Grouped(queue) => &queue.messages,
            Self::Single(queue) => &queue.messages,
        }
    }

    fn remove(&mut self, ids: &[u64], now_ms: u64) -> u64 {
        match self {
            Self::Grouped(queue) => queue.remove(ids, now_ms),
            Self::Single(queue) => queue.remove(ids),
        }
    }
}
