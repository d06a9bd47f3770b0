//! What this process has itself committed about running instances. In: committed turns. Out: what claims and commits would
//! otherwise have to read, and whether an instance may be handed out ahead. Valid only inside the writer's transaction,
//! after it was made sure that nobody else has written; forgotten altogether at the first doubt.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use duroxide_core::provider::Incarnation;

use crate::connection::statements::Prepared;
use crate::kill;
use crate::tables::instances::Handler;
use crate::tx::Result;

/// How many instances are remembered; with more running than this, all are forgotten and learnt anew.
const MAX: usize = 8_192;
/// How long after an end without a farewell nothing is handed out ahead.
const CAUTION: Duration = Duration::from_secs(60);

/// How the last process that had the file open ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastEnd {
    /// It closed the file, or there was none.
    Orderly,
    /// It left its log behind, or still lives.
    Unknown,
}

/// What of an instance cannot be read, in SQLite's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    Messages(String),
    History(String),
}

/// Whether parts of deleted instances are still to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletions {
    None,
    Some,
}

/// What other connections did since the last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Nothing.
    Rested,
    /// They committed something, or may have.
    Wrote,
}

/// A running instance as its last commit left it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) handler: Handler,
    pub(crate) last_event_id: Option<u64>,
    /// Whether the row of its execution says that it runs.
    pub(crate) is_running: bool,
    /// Whether no message is queued for it, due or not.
    pub(crate) is_idle: bool,
}

pub(crate) struct Known {
    running: RefCell<HashMap<String, Entry>>,
    /// Instances that were handed out ahead in a transaction that never happened.
    doubtful: RefCell<HashSet<String>>,
    /// Instances some page of which cannot be read. SQLite does not commit a transaction that met such a page, so they are
    /// remembered and not touched again.
    damaged: RefCell<HashMap<String, Damage>>,
    /// Instances whose last claim took every message they have, and that got none since.
    taken_whole: RefCell<HashSet<String>>,
    /// No request to cancel is queued that was enqueued before this time, if that was read.
    cancels_from: Cell<Option<i64>>,
    /// Whether parts of deleted instances are still to go, if that was read.
    deletions: Cell<Option<Deletions>>,
    data_version: Cell<Option<i64>>,
    opened_at_ms: i64,
    trusts_from: Instant,
}

impl Known {
    /// For a store that is opened now.
    pub(crate) fn after(end: LastEnd, now_ms: i64) -> Self {
        let now = Instant::now();
        Self {
            running: RefCell::default(),
            doubtful: RefCell::default(),
            damaged: RefCell::default(),
            taken_whole: RefCell::default(),
            cancels_from: Cell::new(None),
            deletions: Cell::new(None),
            data_version: Cell::new(None),
            opened_at_ms: now_ms,
            trusts_from: match end {
                LastEnd::Orderly => now,
                LastEnd::Unknown if kill::is_careless() => now,
                LastEnd::Unknown => now + CAUTION,
            },
        }
    }

    /// The connection is a new one.
    pub(crate) fn begin_anew(&self) {
        self.data_version.set(None);
        self.forget_all();
    }

    /// Called in a transaction that has just begun to write: forgets everything if somebody else has committed.
    pub(crate) fn check(&self, statements: &dyn Prepared) -> Result<Others> {
        let version = statements.with("PRAGMA data_version", |statement| {
            statement.query_row([], |row| row.get(0))
        })?;
        if self.data_version.replace(Some(version)) != Some(version) {
            self.forget_all();
            return Ok(Others::Wrote);
        }
        Ok(Others::Rested)
    }

    /// The instance, if this process committed a turn of it.
    pub(crate) fn of(&self, instance: &str) -> Option<Entry> {
        self.running.borrow().get(instance).cloned()
    }

    /// Whether a turn of the instance may be handed out ahead. A turn that brings the process down is not counted then;
    /// so not soon after a crash, when the same may be asked for again. And not after a transaction that never happened:
    /// the turn may have been the reason, and could not be told.
    pub(crate) fn trusts(&self, instance: &str) -> bool {
        Instant::now() >= self.trusts_from && !self.doubtful.borrow().contains(instance)
    }

    /// What of the instance cannot be read, as far as it was met.
    pub(crate) fn damage(&self, instance: &str) -> Option<Damage> {
        let damaged = self.damaged.borrow();
        match damaged.is_empty() {
            true => None,
            false => damaged.get(instance).cloned(),
        }
    }

    /// A page of the instance could not be read.
    pub(crate) fn is_damaged(&self, instance: &str, damage: Damage) {
        let mut damaged = self.damaged.borrow_mut();
        if damaged.len() >= MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", instance_id = instance, ?damage, "part of an instance cannot be read; restore a backup");
        damaged.insert(instance.to_owned(), damage);
    }

    /// These were handed out ahead in vain.
    pub(crate) fn doubt(&self, instances: impl IntoIterator<Item = String>) {
        let mut doubtful = self.doubtful.borrow_mut();
        if doubtful.len() >= MAX {
            doubtful.clear();
        }
        doubtful.extend(instances);
    }

    /// A turn of the instance was committed.
    pub(crate) fn trust(&self, instance: &str) {
        let mut doubtful = self.doubtful.borrow_mut();
        if !doubtful.is_empty() {
            doubtful.remove(instance);
        }
    }

    /// Whether something was written since this process opened the store.
    pub(crate) fn is_of_this_life(&self, created_at_ms: i64) -> bool {
        created_at_ms >= self.opened_at_ms
    }

    /// Whether the row of this execution says that it runs.
    pub(crate) fn is_running(&self, instance: &str, execution_id: u64) -> bool {
        self.running
            .borrow()
            .get(instance)
            .is_some_and(|entry| entry.is_running && entry.handler.execution_id == execution_id)
    }

    /// A turn of this execution was committed; whether the instance is known, and was changed.
    pub(crate) fn change(
        &self,
        instance: &str,
        execution_id: u64,
        change: impl FnOnce(&mut Entry),
    ) -> bool {
        let mut running = self.running.borrow_mut();
        let entry = running.get_mut(instance);
        match entry.filter(|entry| entry.handler.execution_id == execution_id) {
            Some(entry) => {
                change(entry);
                true
            }
            None => false,
        }
    }

    pub(crate) fn learn(&self, instance: &str, entry: Entry) {
        let mut running = self.running.borrow_mut();
        if running.len() >= MAX {
            running.clear();
        }
        running.insert(instance.to_owned(), entry);
    }

    /// The instance ended, or was changed by something other than a turn.
    pub(crate) fn forget(&self, instance: &str) {
        self.running.borrow_mut().remove(instance);
    }

    /// Nobody knows what is stored.
    pub(crate) fn forget_all(&self) {
        self.running.borrow_mut().clear();
        self.taken_whole.borrow_mut().clear();
        self.cancels_from.set(None);
        self.deletions.set(None);
    }

    /// The life of the instance, `None` if the instance is not known.
    pub(crate) fn life(&self, instance: &str) -> Option<Option<Incarnation>> {
        let running = self.running.borrow();
        Some(running.get(instance)?.handler.incarnation)
    }

    /// The instance was claimed, with every message it has or with some of them.
    pub(crate) fn claimed(&self, instance: &str, with_all: bool) {
        let mut taken = self.taken_whole.borrow_mut();
        if taken.len() >= MAX {
            taken.clear();
        }
        match with_all {
            true => drop(taken.insert(instance.to_owned())),
            false => drop(taken.remove(instance)),
        }
    }

    /// The messages of the last claim go; whether it is certain that none are left.
    pub(crate) fn leaves_nothing(&self, instance: &str) -> bool {
        self.taken_whole.borrow_mut().remove(instance)
    }

    /// A message for the instance is enqueued; returns the lane of the instance and whether this is its only message.
    pub(crate) fn enqueues(&self, instance: &str) -> Option<(String, bool)> {
        self.taken_whole.borrow_mut().remove(instance);
        let mut running = self.running.borrow_mut();
        let entry = running.get_mut(instance)?;
        let was_idle = std::mem::replace(&mut entry.is_idle, false);
        Some((entry.handler.lane.clone(), was_idle))
    }

    /// The instance needs other code from here on.
    pub(crate) fn move_to_lane(&self, instance: &str, lane: &str) {
        if let Some(entry) = self.running.borrow_mut().get_mut(instance) {
            lane.clone_into(&mut entry.handler.lane);
        }
    }

    /// A time before which no request to cancel was enqueued that is still queued, if that was read.
    pub(crate) fn cancels_from(&self) -> Option<i64> {
        self.cancels_from.get()
    }

    pub(crate) fn set_cancels_from(&self, from: i64) {
        self.cancels_from.set(Some(from));
    }

    /// What is known of them may be outdated.
    pub(crate) fn forget_cancels(&self) {
        self.cancels_from.set(None);
    }

    /// A request to cancel was enqueued.
    pub(crate) fn cancel_enqueued(&self, at: i64) {
        let from = self.cancels_from.get();
        self.cancels_from.set(from.map(|from| from.min(at)));
    }

    /// Whether parts of deleted instances are still to go, if that was read.
    pub(crate) fn deletions(&self) -> Option<Deletions> {
        self.deletions.get()
    }

    pub(crate) fn set_deletions(&self, deletions: Option<Deletions>) {
        self.deletions.set(deletions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            handler: Handler {
                name: "a".to_owned(),
                version: None,
                execution_id: 1,
                pinned: None,
                incarnation: None,
                lane: "lane".to_owned(),
            },
            last_event_id: None,
            is_running: true,
            is_idle: true,
        }
    }

    #[test]
    fn only_the_first_message_after_a_rest_is_the_only_one() {
        let known = Known::after(LastEnd::Orderly, 0);
        known.learn("a", entry());
        assert_eq!(known.enqueues("a"), Some(("lane".to_owned(), true)));
        assert_eq!(known.enqueues("a"), Some(("lane".to_owned(), false)));
        assert_eq!(known.enqueues("b"), None);
    }

    #[test]
    fn a_message_that_comes_after_a_claim_is_left_when_the_claim_goes() {
        let known = Known::after(LastEnd::Orderly, 0);
        known.claimed("a", true);
        assert!(known.leaves_nothing("a"));
        assert!(!known.leaves_nothing("a"), "said once for each claim");
        known.claimed("a", true);
        known.enqueues("a");
        assert!(!known.leaves_nothing("a"));
        known.claimed("a", true);
        known.claimed("a", false);
        assert!(!known.leaves_nothing("a"));
        known.claimed("a", true);
        known.forget_all();
        assert!(!known.leaves_nothing("a"));
    }
}
