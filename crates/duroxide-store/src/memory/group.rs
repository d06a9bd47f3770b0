//! One group of a grouped queue: its messages by when they are due, and where it belongs in the lines.

use std::collections::BTreeSet;

use super::indexed_messages::IndexedMessages;
use crate::lease::{LeaseToken, UNDISTURBED};
use crate::message::{Claim, Followers, Message, Role};

/// Messages that one step turns from due into ripe at most, so that no step grows with what is due.
const RIPEN_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Group {
    /// When each message is due, and its number; 0 once it is ripe: it was seen to be visible and stays so.
    pub(super) due: BTreeSet<(u64, u64)>,
    successors: BTreeSet<u64>,
    leads: BTreeSet<u64>,
    alarms: BTreeSet<u64>,
    urgent_alarms: BTreeSet<u64>,
    followers: BTreeSet<u64>,
    /// Followers that are ripe; they are not in `due`.
    pub(super) following: BTreeSet<u64>,
    /// Whether followers are held back.
    pub(super) holds: bool,
    pub(super) label: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) lease: Option<GroupLease>,
    pub(super) quiet_until: u64,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct GroupLease {
    pub(super) token: LeaseToken,
    pub(super) until_ms: u64,
    pub(super) claimed: Vec<u64>,
}

/// Where a group stands.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// In the ready line: since when, and its oldest message.
    pub(super) ready: Option<(u64, u64)>,
    /// In the ready line of which kind.
    pub(super) kind: Option<String>,
    /// In the waiting line: until when.
    pub(super) waiting: Option<u64>,
    /// Among the alarms: from when on its age counts, and its number.
    pub(super) alarm: Option<(u64, u64)>,
}

impl Group {
    pub(super) fn add(&mut self, message: &Message) {
        self.quiet_until = 0;
        match message.role {
            Role::Plain => {}
            Role::Follower => drop(self.followers.insert(message.id)),
            Role::Successor(_) => drop(self.successors.insert(message.id)),
            Role::Lead => drop(self.leads.insert(message.id)),
            Role::Alarm => drop(self.alarms.insert(message.id)),
            Role::UrgentAlarm => drop(self.urgent_alarms.insert(message.id)),
        }
        self.place_message((message.visible_at, message.id));
    }

    /// Puts a message where it belongs by its time; 0 for a ripe one.
    fn place_message(&mut self, due: (u64, u64)) {
        match due {
            (0, id) if self.followers.contains(&id) => drop(self.following.insert(id)),
            due => drop(self.due.insert(due)),
        }
    }

    /// Ends a rest; of a leased group, it stays known whether it was disturbed.
    pub(super) fn end_rest(&mut self) {
        if self.quiet_until != UNDISTURBED {
            self.quiet_until = 0;
        }
    }

    pub(super) fn forget(&mut self, message: &Message) {
        self.unplace_message(message);
        self.successors.remove(&message.id);
        self.leads.remove(&message.id);
        self.alarms.remove(&message.id);
        self.urgent_alarms.remove(&message.id);
        self.followers.remove(&message.id);
    }

    pub(super) fn unplace_message(&mut self, message: &Message) {
        self.due.remove(&(0, message.id));
        self.due.remove(&(message.visible_at, message.id));
        self.following.remove(&message.id);
    }

    /// Whether it has no message, ripe or not.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.following.is_empty()
    }

    pub(super) fn is_forgotten(&self) -> bool {
        let is_known = self.label.is_some() || self.kind.is_some() || self.lease.is_some();
        self.is_empty() && !is_known && !self.holds
    }

    /// Numbers of the ripe messages that are not held back, ascending.
    pub(super) fn ripe(&self) -> impl Iterator<Item = u64> {
        let mut others = self
            .due
            .range(..=(0, u64::MAX))
            .map(|(_, id)| *id)
            .peekable();
        let following = self.following.iter().filter(|_| !self.holds);
        let mut following = following.copied().peekable();
        std::iter::from_fn(move || match (others.peek(), following.peek()) {
            (Some(other), Some(follower)) if follower < other => following.next(),
            (Some(_), _) => others.next(),
            (None, _) => following.next(),
        })
    }

    fn is_ripe(&self, id: u64) -> bool {
        self.due.contains(&(0, id))
    }

    /// Notes what has become visible; an end to any rest.
    pub(super) fn ripen(&mut self, now_ms: u64) {
        let visible = self.due.range((1, 0)..=(now_ms.max(1), u64::MAX));
        let visible: Vec<_> = visible.take(RIPEN_MAX).copied().collect();
        for due in visible {
            self.due.remove(&due);
            self.place_message((0, due.1));
            self.quiet_until = 0;
        }
    }

    /// Whether nothing arrived or became visible since the claim.
    pub(super) fn is_undisturbed(&self, now_ms: u64) -> bool {
        let due = self.due.range((1, 0)..=(now_ms.max(1), u64::MAX)).next();
        self.quiet_until == UNDISTURBED && due.is_none()
    }

    pub(super) fn has_lead(&self) -> bool {
        !self.leads.is_empty()
    }

    pub(super) fn has_lead_to_come(&self) -> bool {
        let mut all = self.successors.iter().chain(&self.leads);
        all.any(|id| !self.is_ripe(*id))
    }

    fn first_ripe(&self, ids: &BTreeSet<u64>) -> Option<u64> {
        ids.iter().copied().find(|id| self.is_ripe(*id))
    }

    /// The oldest ripe alarm, an urgent one if there is one.
    fn first_alarm(&self) -> Option<u64> {
        let urgent = self.first_ripe(&self.urgent_alarms);
        urgent.or_else(|| self.first_ripe(&self.alarms))
    }

    /// The group's own kind, else that of its oldest successor, else that of its oldest lead.
    pub(super) fn kind(&self, messages: &IndexedMessages) -> Option<String> {
        let lead = self.successors.first().or(self.leads.first());
        let lead = lead.and_then(|id| messages.get(*id));
        self.kind.clone().or_else(|| lead?.kind.clone())
    }

    /// The messages a claim takes, ascending: a prefix of what is ripe, the oldest successor or lead, the oldest alarm.
    pub(super) fn choose(&self, claim: &Claim, messages: &IndexedMessages) -> Vec<u64> {
        let successor = self.first_ripe(&self.successors);
        let role = successor.and_then(|id| messages.get(id)).map(|m| m.role);
        let alone = role == Some(Role::Successor(Followers::Stay));
        let mut chosen = Vec::new();
        let mut bytes = 0_usize;
        let mut followers = 0;
        for id in self.ripe().take(claim.messages_max.max(1)) {
            let message = messages.get(id);
            let follows = self.followers.contains(&id);
            if alone && follows {
                continue;
            }
            followers += usize::from(follows);
            bytes = bytes.saturating_add(message.map_or(0, |m| m.payload.len()));
            let is_full = bytes > claim.bytes_max || followers > claim.followers_max;
            if is_full && !chosen.is_empty() {
                break;
            }
            chosen.push(id);
        }
        let lead = successor.or_else(|| self.first_ripe(&self.leads));
        for special in lead.into_iter().chain(self.first_alarm()) {
            if let Err(position) = chosen.binary_search(&special) {
                chosen.insert(position, special);
            }
        }
        chosen
    }

    pub(super) fn find_place(&mut self, messages: &IndexedMessages, now_ms: u64) -> Place {
        self.ripen(now_ms);
        let leased_until = self.lease.as_ref().map_or(0, |held| held.until_ms);
        let next_due = self.due.range((1, 0)..).next().map(|(at, _)| *at);
        let waits_until = |until: Option<u64>| Place {
            waiting: until,
            ..Place::default()
        };
        if leased_until > now_ms && !self.is_empty() {
            return waits_until(Some(leased_until));
        }
        let oldest = self.ripe().next().and_then(|id| messages.get(id));
        let Some(oldest) = oldest else {
            return waits_until(next_due);
        };
        if self.quiet_until > now_ms && self.quiet_until != UNDISTURBED {
            let until = next_due.map_or(self.quiet_until, |due| due.min(self.quiet_until));
            return waits_until(Some(until));
        }
        let alarm = self.first_alarm();
        let mut alarms = self.urgent_alarms.iter().chain(&self.alarms);
        let unripe_alarm = alarms.any(|id| !self.is_ripe(*id));
        Place {
            ready: Some((oldest.since_ms().max(leased_until), oldest.id)),
            kind: self.kind(messages),
            waiting: next_due.filter(|due| *due > now_ms && alarm.is_none() && unripe_alarm),
            alarm: alarm
                .and_then(|id| messages.get(id))
                .map(|alarm| (alarm.rings_from_ms(), alarm.id)),
        }
    }
}
