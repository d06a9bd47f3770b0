//! A queue that delivers whole groups.
//!
//! Every group with messages has exactly one slot in the schedule of its label: the time from which it can be claimed,
//! and its oldest due message. A claim takes the earliest slot; whatever changes a group moves its slot.

use std::collections::{BTreeMap, BTreeSet};

use super::shelf::{Shelf, remove_from};
use crate::lease::{After, Lease, LeaseToken};
use crate::queue::{Claim, Claimed, Depth, Message};
use crate::wake::Attempt;

#[derive(Debug, Default)]
pub(super) struct Grouped {
    pub(super) shelf: Shelf,
    groups: BTreeMap<String, Group>,
    tokens: BTreeMap<LeaseToken, String>,
    schedule: BTreeMap<Option<String>, BTreeSet<Slot>>,
}

type Slot = (u64, u64, String);

#[derive(Debug, Default)]
struct Group {
    /// Visible time and number of each message.
    due: BTreeSet<(u64, u64)>,
    label: Option<String>,
    lease: Option<GroupLease>,
    quiet_until: u64,
    slot: Option<(u64, u64)>,
}

#[derive(Debug)]
struct GroupLease {
    token: LeaseToken,
    until_ms: u64,
    claimed: Vec<u64>,
}

impl Grouped {
    pub(super) fn enqueue(&mut self, message: Message) {
        let name = message.group.clone();
        let group = self.groups.entry(name.clone()).or_default();
        group.due.insert((message.visible_at, message.id));
        group.quiet_until = 0;
        self.shelf.insert(message);
        self.reschedule(&name);
    }

    pub(super) fn claim(&mut self, claim: &Claim, now_ms: u64) -> Attempt<Vec<Claimed>> {
        let labels: Vec<_> = self
            .schedule
            .keys()
            .filter(|label| claim.labels.accepts(label.as_deref()))
            .cloned()
            .collect();
        let mut claimed = Vec::new();
        while claimed.len() < claim.max {
            match self.earliest(&labels) {
                Some((ready_at, _, group)) if ready_at <= now_ms => {
                    claimed.push(self.take(&group, claim.lease_ms, now_ms));
                }
                Some((due_ms, ..)) if claimed.is_empty() => {
                    let due_ms = Some(due_ms);
                    return Attempt::Nothing { due_ms };
                }
                _ => break,
            }
        }
        match claimed.is_empty() {
            true => Attempt::Nothing { due_ms: None },
            false => Attempt::Found(claimed),
        }
    }

    fn earliest(&self, labels: &[Option<String>]) -> Option<Slot> {
        let slots = labels
            .iter()
            .filter_map(|label| self.schedule.get(label)?.first());
        slots.min().cloned()
    }

    fn take(&mut self, name: &str, lease_ms: u64, now_ms: u64) -> Claimed {
        let group = self.groups.entry(name.to_owned()).or_default();
        let visible = group.due.range(..=(now_ms, u64::MAX));
        let mut ids: Vec<u64> = visible.map(|(_, id)| *id).collect();
        ids.sort_unstable();
        let token = LeaseToken::random();
        let lease = GroupLease {
            token: token.clone(),
            until_ms: now_ms.saturating_add(lease_ms),
            claimed: ids.clone(),
        };
        group.quiet_until = 0;
        if let Some(lapsed) = group.lease.replace(lease) {
            self.tokens.remove(&lapsed.token);
        }
        self.tokens.insert(token.clone(), name.to_owned());
        self.reschedule(name);
        Claimed {
            token,
            group: name.to_owned(),
            messages: ids.into_iter().filter_map(|id| self.count(id)).collect(),
            attached: None,
        }
    }

    fn count(&mut self, id: u64) -> Option<Message> {
        let message = self.shelf.get_mut(id)?;
        message.attempts = message.attempts.saturating_add(1);
        Some(message.clone())
    }

    pub(super) fn lease(&self, token: &LeaseToken, now_ms: u64) -> Option<Lease> {
        let name = self.tokens.get(token)?;
        let held = self.groups.get(name)?.lease.as_ref()?;
        Some(Lease {
            queue: String::new(),
            group: name.clone(),
            until_ms: held.until_ms,
            valid: held.until_ms > now_ms,
            claimed: held.claimed.clone(),
        })
    }

    /// Removes the claimed messages; returns how many, and whether others of the group remain.
    pub(super) fn complete(&mut self, token: &LeaseToken) -> (u64, bool) {
        let Some((name, held)) = self.end(token) else {
            return (0, false);
        };
        let removed = self.remove(&held.claimed);
        self.reschedule(&name);
        let more = self.groups.get(&name).is_some_and(|g| !g.due.is_empty());
        (removed, more)
    }

    pub(super) fn renew(&mut self, token: &LeaseToken, until_ms: u64) -> u64 {
        let Some(name) = self.tokens.get(token).cloned() else {
            return 0;
        };
        if let Some(held) = self.groups.get_mut(&name).and_then(|g| g.lease.as_mut()) {
            held.until_ms = until_ms;
        }
        self.reschedule(&name);
        1
    }

    pub(super) fn release(
        &mut self,
        token: &LeaseToken,
        after: After,
        forgive: bool,
        now_ms: u64,
    ) -> u64 {
        let Some((name, held)) = self.end(token) else {
            return 0;
        };
        let group = self.groups.entry(name.clone()).or_default();
        if let After::QuietMs(rest) = after {
            group.quiet_until = now_ms.saturating_add(rest);
        }
        let mut released = 0;
        for id in held.claimed {
            let Some(message) = self.shelf.get_mut(id) else {
                continue;
            };
            released += 1;
            if forgive {
                message.attempts = message.attempts.saturating_sub(1);
            }
            if let After::DelayMs(delay) = after {
                group.due.remove(&(message.visible_at, id));
                message.visible_at = now_ms.saturating_add(delay);
                group.due.insert((message.visible_at, id));
            }
        }
        self.reschedule(&name);
        released
    }

    fn end(&mut self, token: &LeaseToken) -> Option<(String, GroupLease)> {
        let name = self.tokens.remove(token)?;
        let held = self.groups.get_mut(&name)?.lease.take()?;
        Some((name, held))
    }

    /// Removes messages; the group's lease, if any, stays.
    pub(super) fn remove(&mut self, ids: &[u64]) -> u64 {
        let mut removed = 0;
        for id in ids {
            let Some(message) = self.shelf.remove(*id) else {
                continue;
            };
            removed += 1;
            if let Some(group) = self.groups.get_mut(&message.group) {
                group.due.remove(&(message.visible_at, *id));
            }
            self.reschedule(&message.group);
        }
        removed
    }

    pub(super) fn delete_group(&mut self, name: &str) -> u64 {
        let ids = self.shelf.of_group(name);
        self.unschedule(name);
        if let Some(held) = self.groups.remove(name).and_then(|group| group.lease) {
            self.tokens.remove(&held.token);
        }
        ids.iter().filter_map(|id| self.shelf.remove(*id)).count() as u64
    }

    pub(super) fn set_label(&mut self, name: &str, label: Option<String>) {
        self.unschedule(name);
        self.groups.entry(name.to_owned()).or_default().label = label;
        self.reschedule(name);
    }

    pub(super) fn depths(&self, now_ms: u64) -> Vec<Depth> {
        let mut depths: BTreeMap<Option<&str>, Depth> = BTreeMap::new();
        for (name, group) in &self.groups {
            let held = group.lease.as_ref().filter(|held| held.until_ms > now_ms);
            let claimed: BTreeSet<u64> = held
                .into_iter()
                .flat_map(|held| held.claimed.iter().copied())
                .collect();
            for message in self.shelf.of_group(name) {
                let Some(message) = self.shelf.get(message) else {
                    continue;
                };
                let depth = depths.entry(message.label.as_deref()).or_default();
                if claimed.contains(&message.id) {
                    depth.leased += 1;
                } else if message.visible_at <= now_ms {
                    depth.ready += 1;
                } else {
                    depth.delayed += 1;
                }
            }
        }
        super::labelled(depths)
    }

    fn unschedule(&mut self, name: &str) {
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        if let Some((ready_at, id)) = group.slot.take() {
            let label = group.label.clone();
            let slot = (ready_at, id, name.to_owned());
            remove_from(&mut self.schedule, &label, &slot);
        }
    }

    /// Moves the group's slot to where it belongs, and forgets a group about which nothing is known.
    fn reschedule(&mut self, name: &str) {
        self.unschedule(name);
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        let leased_until = group.lease.as_ref().map_or(0, |held| held.until_ms);
        match group.due.first() {
            Some(&(visible_at, id)) => {
                let ready_at = visible_at.max(group.quiet_until).max(leased_until);
                group.slot = Some((ready_at, id));
                let label = group.label.clone();
                let slots = self.schedule.entry(label).or_default();
                slots.insert((ready_at, id, name.to_owned()));
            }
            None if group.label.is_none() && group.lease.is_none() => {
                self.groups.remove(name);
            }
            None => {}
        }
    }
}
