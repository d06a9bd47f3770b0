//! A queue that delivers whole groups.
//!
//! A group that can be claimed stands in the ready line of its label and kind, ordered by the time from which it could
//! be; a group that cannot is in the waiting line, ordered by the time at which it must be looked at again. Whatever
//! changes a group places it anew. What stands in the ready line stays there, whatever the clock says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use duroxide_core::defect::Defect;

use super::group::{Group, GroupLease, Place};
use super::indexed_messages::{IndexedMessages, remove_from};
use crate::budget::Budget;
use crate::lease::{After, Lease, LeaseToken, UNDISTURBED};
use crate::message::{Backlog, Claim, Claimed, Depth, Message, later_ms, opens_at_ms};
use crate::poll::Attempt;

#[derive(Debug, Default)]
pub(super) struct Grouped {
    pub(super) messages: IndexedMessages,
    groups: BTreeMap<String, Group>,
    tokens: BTreeMap<LeaseToken, String>,
    ready: BTreeMap<(Label, Label), BTreeSet<Slot>>,
    waiting: BTreeSet<(u64, String)>,
    /// Groups that stand in the ready line and have a visible alarm, by label and time of the alarm.
    alarms: BTreeMap<Label, BTreeSet<Slot>>,
}

type Label = Option<String>;
type Slot = (u64, u64, String);

/// Which line a candidate stands in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Ready(Label, Label),
    Alarms(Label),
}

impl Grouped {
    pub(super) fn enqueue(&mut self, message: Message, now_ms: u64) {
        let name = message.group.clone();
        let group = self.groups.entry(name.clone()).or_default();
        group.add(&message);
        self.messages.insert(message);
        self.place(&name, now_ms);
    }

    pub(super) fn has_lead(&self, name: &str) -> bool {
        self.groups.get(name).is_some_and(Group::has_lead)
    }

    pub(super) fn claim(&mut self, claim: &Claim, now_ms: u64) -> Attempt<Vec<Claimed>> {
        self.promote(now_ms);
        let mut claimed: Vec<Claimed> = Vec::new();
        let mut budget = Budget::default();
        let mut heads = self.heads(claim, now_ms);
        while claimed.len() < claim.max
            && !budget.is_spent(claim)
            && let Some(Reverse((_, (_, _, name), line))) = heads.pop()
        {
            if let Some(one) = self.take(&name, claim, now_ms) {
                budget.spend(&one.messages);
                claimed.push(one);
            }
            heads.extend(self.head(line, claim, now_ms));
        }
        if claimed.is_empty() {
            Attempt::Nothing {
                due_ms: self.due_ms(claim),
            }
        } else {
            Attempt::Found(claimed)
        }
    }

    /// The first of every line that the claim may take from.
    fn heads(&self, claim: &Claim, now_ms: u64) -> BinaryHeap<Reverse<(u64, Slot, Line)>> {
        let ready = self.ready.keys().filter(|(label, kind)| {
            claim.labels.accepts(label.as_deref()) && claim.kinds.accepts(kind.as_deref())
        });
        let ready = ready.map(|(label, kind)| Line::Ready(label.clone(), kind.clone()));
        let lines = ready.chain(self.alarm_labels(claim).map(Line::Alarms));
        lines
            .filter_map(|line| self.head(line, claim, now_ms))
            .collect()
    }

    fn alarm_labels(&self, claim: &Claim) -> impl Iterator<Item = Label> {
        let opens = claim.any_kind_after_ms.is_some();
        let labels = self
            .alarms
            .keys()
            .filter(move |label| opens && claim.labels.accepts(label.as_deref()));
        labels.cloned()
    }

    fn head(&self, line: Line, claim: &Claim, now_ms: u64) -> Option<Reverse<(u64, Slot, Line)>> {
        let (rank, slot) = match &line {
            Line::Ready(label, kind) => {
                let slot = self.ready.get(&(label.clone(), kind.clone()))?.first()?;
                (slot.0, slot)
            }
            Line::Alarms(label) => {
                let slot = self.alarms.get(label)?.first()?;
                let after_ms = claim.any_kind_after_ms?;
                let opens_at = opens_at_ms(slot.0, after_ms);
                (opens_at <= now_ms).then_some((opens_at, slot))?
            }
        };
        Some(Reverse((rank, slot.clone(), line)))
    }

    /// When something may become claimable by itself.
    fn due_ms(&self, claim: &Claim) -> Option<u64> {
        let waiting = self.waiting.first().map(|(at, _)| *at);
        let after = claim.any_kind_after_ms.unwrap_or_default();
        let alarms = self.alarm_labels(claim).filter_map(|label| {
            let (from_ms, ..) = self.alarms.get(&label)?.first()?;
            Some(opens_at_ms(*from_ms, after))
        });
        waiting.into_iter().chain(alarms).min()
    }

    /// Takes a group; nothing if it was taken from another line just before.
    fn take(&mut self, name: &str, claim: &Claim, now_ms: u64) -> Option<Claimed> {
        let group = self.groups.get_mut(name)?;
        group.place.ready?;
        group.ripen(now_ms);
        let ids = group.choose(claim, &self.messages);
        let token = LeaseToken::random();
        let lease = GroupLease {
            token: token.clone(),
            until_ms: later_ms(now_ms, claim.lease_ms.max(1)),
            claimed: ids.clone(),
        };
        group.quiet_until = UNDISTURBED;
        let lead_to_come = group.has_lead_to_come();
        if let Some(lapsed) = group.lease.replace(lease) {
            self.tokens.remove(&lapsed.token);
        }
        self.tokens.insert(token.clone(), name.to_owned());
        self.place(name, now_ms);
        Some(Claimed {
            token,
            group: name.to_owned(),
            messages: ids.into_iter().filter_map(|id| self.count(id)).collect(),
            lead_to_come,
            attached: None,
        })
    }

    fn count(&mut self, id: u64) -> Option<Message> {
        let message = self.messages.get_mut(id)?;
        message.attempts = message.attempts.saturating_add(1);
        Some(message.clone())
    }

    /// Whether nothing arrived for the leased group or became visible in it since the claim.
    pub(super) fn is_undisturbed(&self, token: &LeaseToken, now_ms: u64) -> Option<bool> {
        let name = self.tokens.get(token)?;
        Some(self.groups.get(name)?.is_undisturbed(now_ms))
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

    pub(super) fn leases_of(&self, name: &str, now_ms: u64) -> Vec<Lease> {
        let held = self.groups.get(name).and_then(|group| group.lease.as_ref());
        let lease = held.and_then(|held| self.lease(&held.token, now_ms));
        lease.into_iter().collect()
    }

    /// Removes the claimed messages; returns how many, and whether others of the group remain.
    pub(super) fn complete(&mut self, token: &LeaseToken, now_ms: u64) -> (u64, bool) {
        let Some((name, held)) = self.end(token) else {
            return (0, false);
        };
        let mut taken = held.claimed;
        if Defect::CommitTakesLaterMessages.is_on() {
            let all = self.messages.of_group(&name);
            taken = all.into_iter().chain(taken).collect();
        }
        if let Some(group) = self.groups.get_mut(&name) {
            group.holds = false;
        }
        let removed = self.remove(&taken, now_ms);
        self.place(&name, now_ms);
        let more = self.groups.get(&name).is_some_and(|g| !g.is_empty());
        (removed, more)
    }

    pub(super) fn renew(&mut self, token: &LeaseToken, until_ms: u64, now_ms: u64) -> u64 {
        let Some(name) = self.tokens.get(token).cloned() else {
            return 0;
        };
        if let Some(held) = self.groups.get_mut(&name).and_then(|g| g.lease.as_mut()) {
            held.until_ms = until_ms;
        }
        self.place(&name, now_ms);
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
        let rests = group.is_undisturbed(now_ms);
        group.ripen(now_ms);
        group.quiet_until = match after {
            After::QuietMs(rest) if rests => later_ms(now_ms, rest),
            _ => 0,
        };
        let mut released = 0;
        for id in held.claimed {
            let Some(message) = self.messages.get_mut(id) else {
                continue;
            };
            released += 1;
            let mut forgives = forgive;
            forgives &= !Defect::ForgivenessForgotten.is_on();
            if forgives {
                message.attempts = message.attempts.saturating_sub(1);
            }
            if let After::DelayMs(delay) = after {
                group.unplace_message(message);
                message.visible_at = later_ms(now_ms, delay);
                group.due.insert((message.visible_at, id));
            }
        }
        self.place(&name, now_ms);
        released
    }

    fn end(&mut self, token: &LeaseToken) -> Option<(String, GroupLease)> {
        let name = self.tokens.remove(token)?;
        let held = self.groups.get_mut(&name)?.lease.take()?;
        Some((name, held))
    }

    /// Removes messages; the group's lease, if any, stays.
    pub(super) fn remove(&mut self, ids: &[u64], now_ms: u64) -> u64 {
        let mut touched = BTreeSet::new();
        let mut removed = 0;
        for id in ids {
            let Some(message) = self.messages.remove(*id) else {
                continue;
            };
            removed += 1;
            if let Some(group) = self.groups.get_mut(&message.group) {
                group.forget(&message);
            }
            touched.insert(message.group);
        }
        for name in touched {
            self.place(&name, now_ms);
        }
        removed
    }

    pub(super) fn delete_group(&mut self, name: &str) -> u64 {
        let ids = self.messages.of_group(name);
        self.unplace(name);
        if let Some(held) = self.groups.remove(name).and_then(|group| group.lease) {
            self.tokens.remove(&held.token);
        }
        ids.iter()
            .filter_map(|id| self.messages.remove(*id))
            .count() as u64
    }

    pub(super) fn hold_followers(&mut self, name: &str, now_ms: u64) {
        self.unplace(name);
        self.groups.entry(name.to_owned()).or_default().holds = true;
        self.place(name, now_ms);
    }

    pub(super) fn set_label(&mut self, name: &str, label: Label, kind: Label, now_ms: u64) {
        self.unplace(name);
        let group = self.groups.entry(name.to_owned()).or_default();
        (group.label, group.kind) = (label, kind);
        group.end_rest();
        self.place(name, now_ms);
    }

    pub(super) fn depths(&self, now_ms: u64) -> Vec<Depth> {
        let mut depths: BTreeMap<Option<&str>, Depth> = BTreeMap::new();
        for group in self.groups.values() {
            let held = group.lease.as_ref().filter(|held| held.until_ms > now_ms);
            let claimed: BTreeSet<u64> = held
                .into_iter()
                .flat_map(|held| held.claimed.iter().copied())
                .collect();
            let following = group.following.iter().map(|id| (0, *id));
            for (at, id) in group.due.iter().copied().chain(following) {
                let Some(message) = self.messages.get(id) else {
                    continue;
                };
                let depth = depths.entry(message.label.as_deref()).or_default();
                if claimed.contains(&id) {
                    depth.leased += 1;
                } else if at <= now_ms {
                    depth.ready += 1;
                } else {
                    depth.delayed += 1;
                }
            }
        }
        super::labelled(depths)
    }

    /// Groups that can be claimed now, including those that are not in the ready line yet.
    pub(super) fn backlog(&self, now_ms: u64, count_max: u64) -> Vec<Backlog> {
        let mut found: BTreeMap<Label, (u64, u64)> = BTreeMap::new();
        let mut add = |kind: Label, count: u64, since_ms: u64| {
            let (total, oldest) = found.entry(kind).or_insert((0, since_ms));
            *total = (*total + count).min(count_max);
            *oldest = (*oldest).min(since_ms);
        };
        for ((_, kind), slots) in &self.ready {
            if let Some((since_ms, ..)) = slots.first() {
                add(kind.clone(), slots.len() as u64, *since_ms);
            }
        }
        let due = self.waiting.iter().take_while(|(at, _)| *at <= now_ms);
        for (at, name) in due {
            if let Some(group) = self.groups.get(name).filter(|g| g.place.ready.is_none()) {
                add(group.kind(&self.messages), 1, *at);
            }
        }
        super::by_age(found)
    }

    fn promote(&mut self, now_ms: u64) {
        while let Some((at, name)) = self.waiting.first().cloned()
            && at <= now_ms
        {
            self.place(&name, now_ms);
        }
    }

    fn unplace(&mut self, name: &str) {
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        let Place {
            ready,
            kind,
            waiting,
            alarm,
        } = std::mem::take(&mut group.place);
        let label = group.label.clone();
        if let Some((since, id)) = ready {
            let slot = (since, id, name.to_owned());
            remove_from(&mut self.ready, &(label.clone(), kind), &slot);
        }
        if let Some(at) = waiting {
            self.waiting.remove(&(at, name.to_owned()));
        }
        if let Some((at, id)) = alarm {
            remove_from(&mut self.alarms, &label, &(at, id, name.to_owned()));
        }
    }

    /// Puts the group where it belongs now, and forgets a group about which nothing is known.
    fn place(&mut self, name: &str, now_ms: u64) {
        self.unplace(name);
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        if group.is_forgotten() {
            self.groups.remove(name);
            return;
        }
        let place = group.find_place(&self.messages, now_ms);
        let slot = |(at, id)| (at, id, name.to_owned());
        if let Some(ready) = place.ready {
            let line = (group.label.clone(), place.kind.clone());
            self.ready.entry(line).or_default().insert(slot(ready));
        }
        if let Some(at) = place.waiting {
            self.waiting.insert((at, name.to_owned()));
        }
        if let Some(alarm) = place.alarm {
            let line = self.alarms.entry(group.label.clone()).or_default();
            line.insert(slot(alarm));
        }
        group.place = place;
    }
}
