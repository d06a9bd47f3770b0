//! What this process has itself committed about running instances. In: committed turns. Out: what a claim would
//! otherwise have to read, and whether an instance may be handed out ahead. Valid only inside the writer's transaction,
//! after it was made sure that nobody else has written; forgotten altogether at the first doubt.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::statements::Prepared;
use crate::tables::instances::Handler;
use crate::tx::Result;

/// How many instances are remembered; with more running than this, all are forgotten and learnt anew.
const MAX: usize = 8_192;
/// How long after an end without a farewell new instances are not handed out ahead.
const CAUTION: Duration = Duration::from_secs(60);

/// How the last process that had the file open ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastEnd {
    /// It closed the file, or there was none.
    Orderly,
    /// It left its log behind, or still lives.
    Unknown,
}

/// A running instance as its last commit left it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) handler: Handler,
    pub(crate) last_event_id: Option<u64>,
    /// Whether the row of its execution says that it runs.
    pub(crate) is_running: bool,
}

pub(crate) struct Known {
    running: RefCell<HashMap<String, Entry>>,
    data_version: Cell<Option<i64>>,
    opened_at_ms: i64,
    new_trusted_from: Instant,
}

impl Known {
    /// For a store that is opened now.
    pub(crate) fn after(end: LastEnd, now_ms: i64) -> Self {
        let now = Instant::now();
        Self {
            running: RefCell::default(),
            data_version: Cell::new(None),
            opened_at_ms: now_ms,
            new_trusted_from: match end {
                LastEnd::Orderly => now,
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
    pub(crate) fn check(&self, statements: &dyn Prepared) -> Result<()> {
        let version = statements.with("PRAGMA data_version", |statement| {
            statement.query_row([], |row| row.get(0))
        })?;
        if self.data_version.replace(Some(version)) != Some(version) {
            self.forget_all();
        }
        Ok(())
    }

    /// The instance, if this process committed a turn of it. A turn that brings the process down may then run ahead of
    /// its claim: the next process does not know the instance, and counts the attempt before it tries again.
    pub(crate) fn of(&self, instance: &str) -> Option<Entry> {
        self.running.borrow().get(instance).cloned()
    }

    /// Whether instances without any history may be handed out ahead. Not soon after a crash: what started it may be
    /// asked for again, bring the process down again, and would never be found poisonous.
    pub(crate) fn trusts_new(&self) -> bool {
        Instant::now() >= self.new_trusted_from
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
    }
}
