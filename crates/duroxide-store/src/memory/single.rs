//! A queue that delivers single messages.
//!
//! Every message stands in one of two places: in the ready bucket of its label and affinity, ordered by number, or in
//! the waiting line, ordered by the time at which it becomes visible or its lease lapses.

use std::collections::{BTreeMap, BTreeSet};

use super::shelf::{Shelf, remove_from};
use crate::lease::{After, Lease, LeaseToken, Owner};
use crate::queue::{Claim, Claimed, Depth, Message};
use crate::wake::Attempt;

#[derive(Debug, Default)]
pub(super) struct Single {
    pub(super) shelf: Shelf,
    held: BTreeMap<u64, ItemLease>,
    tokens: BTreeMap<LeaseToken, u64>,
    ready: BTreeMap<Bucket, BTreeSet<u64>>,
    waiting: BTreeSet<(u64, u64)>,
    /// Where each message stands: `None` in its ready bucket, else its time in the waiting line.
    places: BTreeMap<u64, Option<u64>>,
    affinities: BTreeMap<String, Affinity>,
}

/// Label and affinity.
type Bucket = (Option<String>, Option<String>);

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
        self.shelf.insert(message);
        self.place(id, now_ms);
    }

    pub(super) fn claim(&mut self, claim: &Claim, now_ms: u64) -> Attempt<Vec<Claimed>> {
        self.promote(now_ms);
        let mut claimed = Vec::new();
        while claimed.len() < claim.max {
            let (next, due_ms) = self.choose(claim, now_ms);
            match next.and_then(|id| self.take(id, claim, now_ms)) {
                Some(taken) => claimed.push(taken),
                None if claimed.is_empty() => return Attempt::Nothing { due_ms },
                None => break,
            }
        }
        match claimed.is_empty() {
            true => Attempt::Nothing { due_ms: None },
            false => Attempt::Found(claimed),
        }
    }

    /// The lowest eligible number, and the next time at which more may become eligible by itself.
    fn choose(&self, claim: &Claim, now_ms: u64) -> (Option<u64>, Option<u64>) {
        let mut due_ms = self.waiting.first().map(|(at, _)| *at);
        let mut lowest: Option<u64> = None;
        for ((label, affinity), ids) in &self.ready {
            if !claim.labels.accepts(label.as_deref()) {
                continue;
            }
            match self.reserved_until(affinity.as_deref(), claim.owner.as_ref(), now_ms) {
                Some(u64::MAX) => continue,
                Some(until_ms) => {
                    due_ms = Some(due_ms.map_or(until_ms, |due| due.min(until_ms)));
                    continue;
                }
                None => {}
            }
            let first = ids.first().copied();
            lowest = lowest.into_iter().chain(first).min();
        }
        (lowest, due_ms)
    }

    /// Until when somebody else holds the affinity key; for ever if the caller names no owner.
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
        let message = self.shelf.get_mut(id)?;
        message.attempts = message.attempts.saturating_add(1);
        let message = message.clone();
        if let (Some(affinity), Some(owner)) = (&message.affinity, &claim.owner) {
            let reserved = Affinity {
                owner: owner.id.clone(),
                until_ms: now_ms.saturating_add(owner.lease_ms),
                active_at: now_ms,
            };
            self.affinities.insert(affinity.clone(), reserved);
        }
        let token = LeaseToken::random();
        let lease = ItemLease {
            token: token.clone(),
            until_ms: now_ms.saturating_add(claim.lease_ms),
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
            attached: None,
        })
    }

    pub(super) fn lease(&self, token: &LeaseToken, now_ms: u64) -> Option<Lease> {
        let id = *self.tokens.get(token)?;
        let held = self.held.get(&id)?;
        let message = self.shelf.get(id)?;
        Some(Lease {
            queue: String::new(),
            group: message.group.clone(),
            until_ms: held.until_ms,
            valid: held.until_ms > now_ms,
            claimed: vec![id],
        })
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
        let Some(message) = self.shelf.get_mut(id) else {
            return 0;
        };
        if forgive {
            message.attempts = message.attempts.saturating_sub(1);
        }
        match after {
            After::Now => {}
            After::DelayMs(delay) | After::QuietMs(delay) => {
                message.visible_at = now_ms.saturating_add(delay);
            }
        }
        self.place(id, now_ms);
        1
    }

    /// Removes messages with their leases.
    pub(super) fn remove(&mut self, ids: &[u64]) -> u64 {
        let mut removed = 0;
        for id in ids {
            self.unplace(*id);
            if let Some(held) = self.held.remove(id) {
                self.tokens.remove(&held.token);
            }
            removed += u64::from(self.shelf.remove(*id).is_some());
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
            .shelf
            .iter()
            .filter_map(|message| message.affinity.as_deref())
            .collect();
        self.affinities
            .retain(|key, held| held.until_ms > now_ms || named.contains(key.as_str()));
        (before - self.affinities.len()) as u64
    }

    pub(super) fn depths(&self, now_ms: u64) -> Vec<Depth> {
        let mut depths: BTreeMap<Option<&str>, Depth> = BTreeMap::new();
        for message in self.shelf.iter() {
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

    fn touch_affinity(&mut self, id: u64, now_ms: u64) {
        let affinity = self.shelf.get(id).and_then(|m| m.affinity.as_ref());
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
        let (Some(message), Some(bucket)) = (self.shelf.get(id), self.bucket(id)) else {
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
        let message = self.shelf.get(id)?;
        Some((message.label.clone(), message.affinity.clone()))
    }
}
