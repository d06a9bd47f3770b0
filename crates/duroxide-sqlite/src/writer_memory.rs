//! What the writer remembers of the tables: running instances as this process last committed them, and whether anything
//! is paused, resting, held back, deleted or closed. In: committed turns, claims, enqueued messages. Out: what claims
//! and commits would otherwise have to read. Valid only inside the writer's transaction, after
//! [`WriterMemory::check`]: when another connection has written, everything is dropped.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use duroxide_core::provider::Incarnation;

use crate::connection::statements::Prepared;
use crate::error::Result;
use crate::tables::instances::Handler;
use crate::tx::{
    AwaitingStart, Closing, Deletions, Enqueued, HeldQueueMessages, Pauses, QueueMemory, Rests,
};

/// How many instances are kept; with more running than this, all are dropped and learnt anew.
const INSTANCES_MAX: usize = 8_192;

/// What other connections did since the last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherConnections {
    WroteNothing,
    /// They committed something, or may have. The change counter shows this now.
    MayHaveWritten(i64),
}

/// A running instance as its last commit left it.
#[derive(Debug, Clone)]
pub(crate) struct RecentInstance {
    pub(crate) handler: Handler,
    pub(crate) last_event_id: Option<u64>,
    /// Whether the row of its execution has the status `Running`.
    pub(crate) is_running: bool,
    /// Whether no message is queued for it, due or not.
    pub(crate) is_idle: bool,
    /// When a queued message that stands for it becomes visible, if one is known.
    pub(crate) head_at: Option<i64>,
}

/// What the writer thread remembers of its own commits.
#[derive(Default)]
pub(crate) struct WriterMemory {
    running: RefCell<HashMap<String, RecentInstance>>,
    /// Instances whose last claim took every message they have, and that got none since.
    claimed_whole: RefCell<HashSet<String>>,
    /// No request to cancel is queued that was enqueued before this time, if that was read.
    cancels_from: Cell<Option<i64>>,
    /// Whether parts of deleted instances are left, if that was read.
    deletions: Cell<Option<Deletions>>,
    /// Whether messages wait for the start of their instance, if that was read.
    awaiting_start: Cell<Option<AwaitingStart>>,
    /// Whether instances are paused, if that was read.
    pauses: Cell<Option<Pauses>>,
    /// Whether instances rest, if that was read.
    rests: Cell<Option<Rests>>,
    /// Whether instances hold queue messages back, if that was read.
    held_queue_messages: Cell<Option<HeldQueueMessages>>,
    /// Whether an operator closed the store, if that was read.
    closing: Cell<Option<Closing>>,
    /// The file's change counter at the last transaction.
    data_version: Cell<Option<i64>>,
}

impl WriterMemory {
    /// The writer has a new connection, whose change counter begins anew.
    pub(crate) fn connection_changed(&self) {
        self.data_version.set(None);
        self.forget_all();
    }

    /// Call in a transaction that holds the write lock. Forgets everything if another connection has committed since
    /// the last one, and says so until [`seen`](Self::seen) is called.
    pub(crate) fn check(&self, statements: &dyn Prepared) -> Result<OtherConnections> {
        let version = statements.with("PRAGMA data_version", |statement| {
            statement.query_row([], |row| row.get(0))
        })?;
        if self.data_version.get() != Some(version) {
            self.data_version.set(None);
            self.forget_all();
            return Ok(OtherConnections::MayHaveWritten(version));
        }
        Ok(OtherConnections::WroteNothing)
    }

    /// What the other connections did up to this state of the change counter is taken into account.
    pub(crate) fn seen(&self, version: i64) {
        self.data_version.set(Some(version));
    }

    /// The instance, if this process committed a turn of it.
    pub(crate) fn get(&self, instance: &str) -> Option<RecentInstance> {
        self.running.borrow().get(instance).cloned()
    }

    /// Whether the row of this execution has the status `Running`.
    pub(crate) fn is_running(&self, instance: &str, execution_id: u64) -> bool {
        self.running
            .borrow()
            .get(instance)
            .is_some_and(|entry| entry.is_running && entry.handler.execution_id == execution_id)
    }

    /// A turn of this execution was committed. Returns whether the instance was remembered, and is changed.
    pub(crate) fn change(
        &self,
        instance: &str,
        execution_id: u64,
        change: impl FnOnce(&mut RecentInstance),
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

    pub(crate) fn insert(&self, instance: &str, entry: RecentInstance) {
        let mut running = self.running.borrow_mut();
        if running.len() >= INSTANCES_MAX {
            running.clear();
        }
        running.insert(instance.to_owned(), entry);
    }

    /// The instance ended, or was changed by something other than a turn.
    pub(crate) fn forget(&self, instance: &str) {
        self.running.borrow_mut().remove(instance);
    }

    /// What is stored is no longer certain.
    pub(crate) fn forget_all(&self) {
        self.running.borrow_mut().clear();
        self.claimed_whole.borrow_mut().clear();
        self.cancels_from.set(None);
        self.deletions.set(None);
        self.awaiting_start.set(None);
        self.pauses.set(None);
        self.rests.set(None);
        self.held_queue_messages.set(None);
        self.closing.set(None);
    }

    /// The life of the instance; `None` if the instance is not remembered.
    pub(crate) fn incarnation(&self, instance: &str) -> Option<Option<Incarnation>> {
        let running = self.running.borrow();
        Some(running.get(instance)?.handler.incarnation)
    }

    /// The instance was claimed, with every message it has or with some of them.
    pub(crate) fn claimed(&self, instance: &str, with_all: bool) {
        let mut claimed = self.claimed_whole.borrow_mut();
        if claimed.len() >= INSTANCES_MAX {
            claimed.clear();
        }
        if with_all {
            claimed.insert(instance.to_owned());
        } else {
            claimed.remove(instance);
        }
    }

    /// The messages of the last claim are deleted. Returns whether it is certain that none are left.
    pub(crate) fn claim_took_all(&self, instance: &str) -> bool {
        self.claimed_whole.borrow_mut().remove(instance)
    }

    /// The remembered time of the first request to cancel leads nowhere any more.
    pub(crate) fn forget_cancels(&self) {
        self.cancels_from.set(None);
    }

    /// The instance needs other code from here on.
    pub(crate) fn move_to_lane(&self, instance: &str, lane: &str) {
        if let Some(entry) = self.running.borrow_mut().get_mut(instance) {
            lane.clone_into(&mut entry.handler.lane);
        }
    }
}

impl QueueMemory for WriterMemory {
    fn message_enqueued(&self, instance: &str) -> Option<Enqueued> {
        self.claimed_whole.borrow_mut().remove(instance);
        let mut running = self.running.borrow_mut();
        let entry = running.get_mut(instance)?;
        Some(Enqueued {
            is_only_one: std::mem::replace(&mut entry.is_idle, false),
            lane: entry.handler.lane.clone(),
            head_at: entry.head_at,
        })
    }

    fn head_is(&self, instance: &str, visible_at: Option<i64>) {
        if let Some(entry) = self.running.borrow_mut().get_mut(instance) {
            entry.head_at = visible_at;
        }
    }

    fn cancel_enqueued(&self, at: i64) {
        let from = self.cancels_from.get();
        self.cancels_from.set(from.map(|from| from.min(at)));
    }

    fn cancels_from(&self) -> Option<i64> {
        self.cancels_from.get()
    }

    fn set_cancels_from(&self, from: i64) {
        self.cancels_from.set(Some(from));
    }

    fn deletions(&self) -> Option<Deletions> {
        self.deletions.get()
    }

    fn set_deletions(&self, deletions: Option<Deletions>) {
        self.deletions.set(deletions);
    }

    fn pauses(&self) -> Option<Pauses> {
        self.pauses.get()
    }

    fn set_pauses(&self, pauses: Option<Pauses>) {
        self.pauses.set(pauses);
    }

    fn closing(&self) -> Option<Closing> {
        self.closing.get()
    }

    fn set_closing(&self, closing: Option<Closing>) {
        self.closing.set(closing);
    }

    fn rests(&self) -> Option<Rests> {
        self.rests.get()
    }

    fn set_rests(&self, rests: Option<Rests>) {
        self.rests.set(rests);
    }

    fn held_queue_messages(&self) -> Option<HeldQueueMessages> {
        self.held_queue_messages.get()
    }

    fn set_held_queue_messages(&self, held: Option<HeldQueueMessages>) {
        self.held_queue_messages.set(held);
    }

    fn awaiting_start(&self) -> Option<AwaitingStart> {
        self.awaiting_start.get()
    }

    fn set_awaiting_start(&self, awaiting: Option<AwaitingStart>) {
        self.awaiting_start.set(awaiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> RecentInstance {
        RecentInstance {
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
            head_at: None,
        }
    }

    #[test]
    fn only_the_first_message_of_an_idle_instance_is_the_only_one() {
        let memory = WriterMemory::default();
        memory.insert("a", entry());
        let enqueued = |is_only_one| Enqueued {
            lane: "lane".to_owned(),
            is_only_one,
            head_at: None,
        };
        assert_eq!(memory.message_enqueued("a"), Some(enqueued(true)));
        assert_eq!(memory.message_enqueued("a"), Some(enqueued(false)));
        assert_eq!(memory.message_enqueued("b"), None);
    }

    #[test]
    fn a_message_that_comes_after_a_claim_is_left_when_the_claim_is_committed() {
        let memory = WriterMemory::default();
        memory.claimed("a", true);
        assert!(memory.claim_took_all("a"));
        assert!(!memory.claim_took_all("a"), "once for each claim");
        memory.claimed("a", true);
        memory.message_enqueued("a");
        assert!(!memory.claim_took_all("a"));
        memory.claimed("a", true);
        memory.claimed("a", false);
        assert!(!memory.claim_took_all("a"));
        memory.claimed("a", true);
        memory.forget_all();
        assert!(!memory.claim_took_all("a"));
    }
}
