//! Flaws of claims that only show in company: a clock that was set back, an older start, a carried queue, a crowd of
//! early messages, a child that never began.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use duroxide_core::WorkItem;
use duroxide_core::clock::Clock as _;
use duroxide_core::provider::CLAIM_MESSAGES_MAX;

use super::holds::Holds;
use super::{Flaw, Mutant};
use crate::reference::MovableClock;

/// What these flaws go by.
pub(super) struct Seen {
    clock: Arc<MovableClock>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    /// The latest that the clock ever showed.
    latest_ms: u64,
    /// Queue messages sent, by instance.
    queued: HashMap<String, Vec<WorkItem>>,
    /// Children that were started, by parent and operation.
    children: HashMap<(String, u64), String>,
    /// Instances that were claimed.
    claimed: HashSet<String>,
    /// Whether a claim with a start was full.
    crowded: bool,
    holds: Holds,
}

impl Seen {
    pub(super) fn by(clock: Arc<MovableClock>) -> Self {
        Self {
            clock,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics under this lock")
    }

    /// Looks at the clock; tells whether it shows less than it once did.
    pub(super) fn is_set_back(&self) -> bool {
        let mut inner = self.lock();
        let now_ms = self.clock.now_ms();
        inner.latest_ms = inner.latest_ms.max(now_ms);
        now_ms < inner.latest_ms
    }

    /// Notes a commit that asked for a hold, and whether it had its lease.
    pub(super) fn note_hold(&self, leased: bool) {
        let holds = &mut self.lock().holds;
        holds.ever |= leased;
        holds.now |= leased;
        holds.unleased |= !leased;
    }

    /// Notes a plain commit; tells what was noted before.
    pub(super) fn end_hold(&self) -> Holds {
        let holds = &mut self.lock().holds;
        let before = Holds { ..*holds };
        holds.now = false;
        before
    }

    pub(super) fn has_held(&self) -> bool {
        self.lock().holds.ever
    }

    /// Notes a message that is sent.
    pub(super) fn note_sent(&self, item: &WorkItem) {
        self.is_set_back();
        let mut inner = self.lock();
        match item {
            WorkItem::QueueMessage { instance, .. } => {
                let queued = inner.queued.entry(instance.clone()).or_default();
                queued.push(item.clone());
            }
            WorkItem::StartOrchestration {
                instance,
                parent_instance: Some(parent),
                parent_id: Some(id),
                ..
            } => {
                let operation = (parent.clone(), *id);
                inner.children.insert(operation, instance.clone());
            }
            _ => {}
        }
    }
}

fn continues(item: &WorkItem) -> bool {
    matches!(item, WorkItem::ContinueAsNew { .. })
}

fn carries(item: &WorkItem) -> bool {
    matches!(item, WorkItem::ContinueAsNew { carry_forward_events, .. } if !carry_forward_events.is_empty())
}

fn starts(item: &WorkItem) -> bool {
    matches!(item, WorkItem::StartOrchestration { .. })
}

impl Mutant {
    /// Whether a claim finds nothing because of the flaw.
    pub(super) fn is_blind(&self) -> bool {
        let set_back = self.seen.is_set_back();
        match self.flaw {
            Flaw::LeaseOutlivesStepBack => set_back && self.notes.holds_leases(),
            Flaw::EarlyMessagesStall => self.seen.lock().crowded,
            Flaw::HoldStopsAll => self.seen.lock().holds.now,
            // All that is queued bears a stamp that the clock has yet to show.
            Flaw::StampsAtOnce => set_back,
            _ => false,
        }
    }

    /// Whether a timer of a commit fires at once because its time was once reached.
    pub(super) fn fires_early(&self, item: &WorkItem) -> bool {
        let WorkItem::TimerFired { fire_at_ms, .. } = item else {
            return false;
        };
        self.seen.is_set_back() && *fire_at_ms <= self.seen.lock().latest_ms
    }

    /// Spoils what a claim hands out of one instance.
    pub(super) fn spoil(&self, instance: &str, messages: &mut Vec<WorkItem>) {
        self.spoil_queue_messages(messages);
        let mut seen = self.seen.lock();
        seen.claimed.insert(instance.to_owned());
        match self.flaw {
            Flaw::OldestLeadWins if messages.iter().any(starts) => {
                messages.retain(|item| !continues(item));
            }
            Flaw::CarriedQueueGrows if messages.iter().any(carries) => {
                messages.extend(seen.queued.remove(instance).unwrap_or_default());
            }
            Flaw::EarlyMessagesStall => {
                seen.crowded |= messages.iter().any(starts) && messages.len() >= CLAIM_MESSAGES_MAX;
            }
            Flaw::UnreadableStartIsLost => {
                let began = |parent: &str, id: u64| {
                    let child = seen.children.get(&(parent.to_owned(), id));
                    child.is_none_or(|child| seen.claimed.contains(child))
                };
                messages.retain(|item| match item {
                    WorkItem::SubOrchFailed {
                        parent_instance,
                        parent_id,
                        ..
                    } => began(parent_instance, *parent_id),
                    _ => true,
                });
            }
            _ => {}
        }
    }
}
