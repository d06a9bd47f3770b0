//! A queue that delivers single messages.
//!
//! Every message stands in one of two places: in the ready bucket of its label, kind and affinity, ordered by number,
//! or in the waiting line, ordered by the time at which it becomes visible or its lease runs out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use duroxide_core::defect::Defect;

use super::indexed_messages::{IndexedMessages, remove_from};
use crate::lease::{After, Lease, LeaseToken, Owner};
use crate::message::{Backlog, Claim, Claimed, Depth, Message, later_ms};
use crate::poll::Attempt;

#[derive(Debug, Default)]
pub(super) struct Single {
    pub(super) messages: IndexedMessages,
    held: BTreeMap<u64, ItemLease>,
    tokens: BTreeMap<LeaseToken, u64>,
    ready: BTreeMap<Bucket, BTreeSet<u64>>,
    waiting: BTreeSet<(u64, u64)>,
    /// Where each message stands: `None` in its ready bucket, else its time in the waiting line.
    places: BTreeMap<u64, Option<u64>>,
    affinities: BTreeMap<String, Affinity>,
}

/// Label, kind and affinity.
type Bucket = (Option<String>, Option<String>, Option<String>);
type Heads = BinaryHeap<Reverse<(u64, Bucket)>>;

#[derive(Debug)]
struct ItemLease {
    token: LeaseToken,
    until_ms: u64,
}

#[derive(Debug)]
struct Affinity {
    owner: String,
    until_ms: u64,
    active_at: u64,
}

impl Single {
    pub(super) fn enqueue(&mut self, message: Message, now_ms: u64) {
        let id = message.id;
        self.messages.insert(message);
        self.place(id, now_ms);
    }

    pub(super) fn claim(&mut self, claim: &Claim, now_ms: u64) -> Attempt<Vec<Claimed>> {
        self.promote(now_ms);
        let (mut heads, due_ms) = self.heads(claim, now_ms);
        let mut claimed = Vec::new();
        let mut new_keys = 0;
        while claimed.len() < claim.max
            && let Some(Reverse((id, bucket))) = heads.pop()
        {
            if let (Some(affinity), Some(owner)) = (&bucket.2, &claim.owner)
                && !self.holds(owner, affinity, now_ms)
            {
                if new_keys >= owner.new_keys_max {
                    continue;
                }
                new_keys += 1;
            }
            claimed.extend(self.take(id, claim, now_ms));
            let next = self.ready.get(&bucket).and_then(|ids| ids.first());
            heads.extend(next.map(|id| Reverse((*id, bucket))));
        }
        if claimed.is_empty() {
            Attempt::Nothing { due_ms }
        } else {
            Attempt::Found(claimed)
        }
    }

    /// The lowest number of every eligible bucket, and the next time at which more may become eligible by itself.
    fn heads(&self, claim: &Claim, now_ms: u64) -> (Heads, Option<u64>) {
        let mut due_ms = self.waiting.first().map(|(at, _)| *at);
        let mut heads = Heads::new();
        for (bucket, ids) in &self.ready {
            let (label, kind, affinity) = bucket;
            if !claim.labels.accepts(label.as_deref()) || !claim.kinds.accepts(kind.as_deref()) {
                continue;
            }
            match self.reserved_until(affinity.as_deref(), claim.owner.as_ref(), now_ms) {
                None => heads.extend(ids.first().map(|id| Reverse((*id, bucket.clone())))),
                Some(u64::MAX) => {}
                Some(until_ms) => due_ms = due_ms.into_iter().chain([until_ms]).min(),
            }
        }
        (heads, due_ms)
    }

    fn holds(&self, owner: &Owner, affinity: &str, now_ms: u64) -> bool {
        let held = self.affinities.get(affinity);
        held.is_some_and(|held| held.owner == owner.id && held.until_ms > now_ms)
    }

    /// Until when another owner holds the affinity key; for ever if the caller names no owner.
    fn reserved_until(
        &self,
        affinity: Option<&str>,
        owner: Option<&Owner>,
        now_ms: u64,
    ) -> Option<u64> {
        let affinity = affinity?;
        let Some(owner) = owner else {
            return Some(u64::MAX);
        };
        let held = self.affinities.get(affinity)?;
        (held.owner != owner.id && held.until_ms > now_ms).then_some(held.until_ms)
    }

    fn take(&mut self, id: u64, claim: &Claim, now_ms: u64) -> Option<Claimed> {
        let message = self.messages.get_mut(id)?;
        message.attempts = message.attempts.saturating_add(1);
        // It was visible and stays so, should it be given back after the clock was set back.
        message.visible_at = 0;
        let message = message.clone();
        if let (Some(affinity), Some(owner)) = (&message.affinity, &claim.owner) {
            let reserved = Affinity {
                owner: owner.id.clone(),
                until_ms: later_ms(now_ms, owner.lease_ms),
                active_at: now_ms,
            };
            self.affinities.insert(affinity.clone(), reserved);
        }
        let token = LeaseToken::random();
        let lease = ItemLease {
            token: token.clone(),
            until_ms: later_ms(now_ms, claim.lease_ms.max(1)),
        };
        if let Some(lapsed) = self.held.insert(id, lease) {
            self.tokens.remove(&lapsed.token);
        }
        self.tokens.insert(token.clone(), id);
        self.place(id, now_ms);
        Some(Claimed {
            token,
            group: message.group.clone(),
            messages: vec![message],
            lead_to_come: false,
            attached: None,
        })
    }

    pub(super) fn lease(&self, token: &LeaseToken, now_ms: u64) -> Option<Lease> {
        let id = *self.tokens.get(token)?;
        let held = self.held.get(&id)?;
        let message = self.messages.get(id)?;
        Some(Lease {
            queue: String::new(),
            group: message.group.clone(),
            until_ms: held.until_ms,
            valid: held.until_ms > now_ms,
            claimed: vec![id],
        })
    }

    pub(super) fn leases_of(&self, group: &str, now_ms: u64) -> Vec<Lease> {
        let ids = self.messages.of_group(group).into_iter();
        let held = ids.filter_map(|id| self.held.get(&id));
        held.filter_map(|held| self.lease(&held.token, now_ms))
            .collect()
    }

    pub(super) fn complete(&mut self, token: &LeaseToken, now_ms: u64) -> u64 {
        let Some(id) = self.tokens.get(token).copied() else {
            return 0;
        };
        self.touch_affinity(id, now_ms);
        self.remove(&[id])
    }

    pub(super) fn renew(&mut self, token: &LeaseToken, until_ms: u64, now_ms: u64) -> u64 {
        let Some(id) = self.tokens.get(token).copied() else {
            return 0;
        };
        if let Some(held) = self.held.get_mut(&id) {
            held.until_ms = until_ms;
        }
        self.touch_affinity(id, now_ms);
        self.place(id, now_ms);
        1
    }

    pub(super) fn release(
        &mut self,
        token: &LeaseToken,
        after: After,
        forgive: bool,
        now_ms: u64,
    ) -> u64 {
        let Some(id) = self.tokens.remove(token) else {
            return 0;
        };
        self.held.remove(&id);
        let Some(message) = self.messages.get_mut(id) else {
            return 0;
        };
        let mut forgives = forgive;
        forgives &= !Defect::ForgivenessForgotten.is_on();
        if forgives {
            message.attempts = message.attempts.saturating_sub(1);
        }
        match after {
            After::Now => {}
            After::DelayMs(delay) | After::QuietMs(delay) => {
                message.visible_at = later_ms(now_ms, delay);
            }
        }
        self.place(id, now_ms);
        1
    }

    /// Makes messages visible that are not yet.
    pub(super) fn show(&mut self, ids: &[u64], now_ms: u64) -> u64 {
        let mut shown = 0;
        for id in ids {
            if let Some(message) = self.messages.get_mut(*id)
                && message.visible_at > now_ms
            {
                message.visible_at = now_ms;
                self.place(*id, now_ms);
                shown += 1;
            }
        }
        shown
    }

    /// Removes messages with their leases.
    pub(super) fn remove(&mut self, ids: &[u64]) -> u64 {
        let mut removed = 0;
        for id in ids {
            self.unplace(*id);
            if let Some(held) = self.held.remove(id) {
                self.tokens.remove(&held.token);
            }
            removed += u64::from(self.messages.remove(*id).is_some());
        }
        removed
    }

    pub(super) fn renew_affinities(
        &mut self,
        owners: &[String],
        until_ms: u64,
        idle_ms: u64,
        now_ms: u64,
    ) -> u64 {
        let mut renewed = 0;
        for held in self.affinities.values_mut() {
            let active = now_ms.saturating_sub(held.active_at) < idle_ms;
            if active && held.until_ms > now_ms && owners.contains(&held.owner) {
                held.until_ms = until_ms;
                renewed += 1;
            }
        }
        renewed
    }

    pub(super) fn sweep_affinities(&mut self, now_ms: u64) -> u64 {
        let before = self.affinities.len();
        let named: BTreeSet<&str> = self
            .messages
            .iter()
            .filter_map(|message| message.affinity.as_deref())
            .collect();
        self.affinities
            .retain(|key, held| held.until_ms > now_ms || named.contains(key.as_str()));
        (before - self.affinities.len()) as u64
    }

    pub(super) fn depths(&self, now_ms: u64) -> Vec<Depth> {
        let mut depths: BTreeMap<Option<&str>, Depth> = BTreeMap::new();
        for message in self.messages.iter() {
            let depth = depths.entry(message.label.as_deref()).or_default();
            let held = self.held.get(&message.id);
            if held.is_some_and(|held| held.until_ms > now_ms) {
                depth.leased += 1;
            } else if message.visible_at <= now_ms {
                depth.ready += 1;
            } else {
                depth.delayed += 1;
            }
        }
        super::labelled(depths)
    }

    /// What can be claimed now, including what is not in its bucket yet.
    pub(super) fn backlog(&self, now_ms: u64, count_max: u64) -> Vec<Backlog> {
        let mut found: BTreeMap<Option<String>, (u64, u64)> = BTreeMap::new();
        let mut add = |kind: &Option<String>, count: u64, since_ms: u64| {
            let (total, oldest) = found.entry(kind.clone()).or_insert((0, since_ms));
            *total = (*total + count).min(count_max);
            *oldest = (*oldest).min(since_ms);
        };
        let mut lines: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for ((label, kind, _), ids) in &self.ready {
            let (count, oldest) = lines.entry((label, kind)).or_insert((0, u64::MAX));
            *count += ids.len() as u64;
            *oldest = ids.first().map_or(*oldest, |id| (*oldest).min(*id));
        }
        for ((_, kind), (count, oldest)) in lines {
            let since_ms = self.messages.get(oldest).map_or(now_ms, Message::since_ms);
            add(kind, count, since_ms);
        }
        let due = self.waiting.iter().take_while(|(at, _)| *at <= now_ms);
        for (at, id) in due {
            if let Some(message) = self.messages.get(*id) {
                add(&message.kind, 1, *at);
            }
        }
        super::by_age(found)
    }

    fn touch_affinity(&mut self, id: u64, now_ms: u64) {
        let affinity = self.messages.get(id).and_then(|m| m.affinity.as_ref());
        if let Some(held) = affinity.and_then(|key| self.affinities.get_mut(key))
            && held.until_ms > now_ms
        {
            held.active_at = now_ms;
        }
    }

    fn promote(&mut self, now_ms: u64) {
        while let Some(&(at, id)) = self.waiting.first()
            && at <= now_ms
        {
            self.place(id, now_ms);
        }
    }

    fn unplace(&mut self, id: u64) {
        match self.places.remove(&id) {
            Some(Some(at)) => {
                self.waiting.remove(&(at, id));
            }
            Some(None) => {
                if let Some(bucket) = self.bucket(id) {
                    remove_from(&mut self.ready, &bucket, &id);
                }
            }
            None => {}
        }
    }

    /// Puts a message where it belongs now.
    fn place(&mut self, id: u64, now_ms: u64) {
        self.unplace(id);
        let (Some(message), Some(bucket)) = (self.messages.get(id), self.bucket(id)) else {
            return;
        };
        let leased_until = self.held.get(&id).map_or(0, |held| held.until_ms);
        let ready_at = message.visible_at.max(leased_until);
        if ready_at <= now_ms {
            self.ready.entry(bucket).or_default().insert(id);
            self.places.insert(id, None);
        } else {
            self.waiting.insert((ready_at, id));
            self.places.insert(id, Some(ready_at));
        }
    }

    fn bucket(&self, id: u64) -> Option<Bucket> {
        let message = self.messages.get(id)?;
        let (label, kind) = (message.label.clone(), message.kind.clone());
        Some((label, kind, message.affinity.clone()))
    }
}
