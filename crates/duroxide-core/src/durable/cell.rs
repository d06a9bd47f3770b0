//! The state that the author's context and the replay engine share during one execution.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::command::{Command, CommandKind};
use super::identity::Identity;
use super::operations::{OperationKind, Operations};
use super::presence::{CALLED, Presence};
use crate::codec::same_meaning;
use crate::provider::KvEntry;

/// Identity and guarded state of one execution.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Arc<Identity>,
    pub(crate) presence: Arc<Presence>,
    cell: Mutex<Cell>,
    /// Where a foreign call goes that cannot be refused by a panic.
    limbo: OnceLock<Mutex<Cell>>,
}

impl Shared {
    /// The state of an execution that the engine drives.
    pub(crate) fn driven(identity: Identity, cell: Cell) -> Self {
        let identity = Arc::new(identity);
        Self::new(Arc::clone(&identity), Presence::driven(identity), cell)
    }

    /// The state of a context of its own.
    pub(crate) fn of_nobody(identity: Identity, cell: Cell) -> Self {
        let identity = Arc::new(identity);
        Self::new(Arc::clone(&identity), Presence::of_nobody(identity), cell)
    }

    fn new(identity: Arc<Identity>, presence: Presence, cell: Cell) -> Self {
        Self {
            identity,
            presence: Arc::new(presence),
            cell: Mutex::new(cell),
            limbo: OnceLock::new(),
        }
    }

    /// The state, for a call of the author's code that decides something.
    ///
    /// # Panics
    ///
    /// When other code than the orchestration calls, after it was noted for the report. The panic is that caller's. While a thread unwinds already a
    /// second panic would end the process, so the call goes nowhere instead.
    pub(crate) fn deciding(&self, location: &'static Location<'static>) -> MutexGuard<'_, Cell> {
        if self.presence.is_here() {
            self.presence.called_at(location);
            return self.cell();
        }
        self.presence.report(CALLED);
        assert!(std::thread::panicking(), "{CALLED}");
        let limbo = self.limbo.get_or_init(Mutex::default);
        limbo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state. A panic of the author's code while it is held leaves it usable: every method below finishes its
    /// change before it can panic.
    pub(crate) fn cell(&self) -> MutexGuard<'_, Cell> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next execution, if the code asked for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NextExecution {
    pub(crate) input: String,
    pub(crate) version: Option<String>,
}

/// A recorded key-value write.
#[derive(Debug)]
pub(crate) struct RecordedKv {
    pub(crate) key: String,
    pub(crate) entry: KvEntry,
}

/// What changes while the code runs.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    /// The turn's time.
    pub(crate) now_ms: u64,
    /// Whether the code is being fed events that were recorded before this turn.
    pub(crate) replaying: bool,
    /// The execution is over or set aside; drops no longer mean anything.
    pub(crate) closed: bool,
    pub(crate) operations: Operations,
    /// Asked for, not recorded yet.
    pub(crate) commands: VecDeque<Command>,
    pub(crate) kv: BTreeMap<String, KvEntry>,
    /// Recorded key-value writes that the code has not repeated yet.
    pub(crate) recorded_kv: VecDeque<RecordedKv>,
    pub(crate) custom_status: Option<String>,
    pub(crate) next: Option<NextExecution>,
    /// Why the execution is asked to end, once it is.
    pub(crate) cancel_requested: Option<String>,
    /// The execution began on an engine that did not check the ids of children and detached starts.
    pub(crate) takes_any_id: bool,
    /// A misuse that was noticed where a panic would do harm.
    pub(crate) misuse: Option<String>,
}

impl Cell {
    /// Records a request that has an answer; returns its slot.
    pub(crate) fn call(
        &mut self,
        operation: OperationKind,
        kind: CommandKind,
        location: &'static Location<'static>,
    ) -> usize {
        let slot = self.operations.issue(operation);
        self.commands.push_back(Command {
            operation: Some(slot),
            kind,
            location,
            may_come_later: false,
        });
        slot
    }

    /// The requests of these operations come from a call whose future is not polled yet.
    pub(crate) fn may_come_later(&mut self, slots: &[usize]) {
        for command in &mut self.commands {
            command.may_come_later |= command.operation.is_some_and(|s| slots.contains(&s));
        }
    }

    /// The future of that call is polled: what is not recorded yet takes its place behind everything asked for until now.
    pub(crate) fn come_now(&mut self, slots: &[usize]) {
        let of_call = |c: &Command| c.operation.is_some_and(|slot| slots.contains(&slot));
        let (mut moved, rest): (VecDeque<_>, _) = std::mem::take(&mut self.commands)
            .into_iter()
            .partition(of_call);
        self.commands = rest;
        for command in &mut moved {
            command.may_come_later = false;
        }
        self.commands.append(&mut moved);
    }

    /// Records a request without an answer.
    pub(crate) fn tell(&mut self, kind: CommandKind, location: &'static Location<'static>) {
        self.commands.push_back(Command {
            operation: None,
            kind,
            location,
            may_come_later: false,
        });
    }

    /// A request to cancel arrived; false if the code does not watch for it.
    pub(crate) fn request_cancellation(&mut self, reason: &str) -> bool {
        self.cancel_requested
            .get_or_insert_with(|| reason.to_owned());
        self.operations.request_cancellation(reason)
    }

    /// The next key-value write. What is recorded governs when the write is repeated: its stamp, and its text if the code
    /// wrote the same value in another way, so that the code reads the same text in every replay.
    pub(crate) fn next_kv(&mut self, key: &str, value: String) -> KvEntry {
        let Some(recorded) = self.recorded_kv.pop_front() else {
            return KvEntry {
                value,
                last_updated_at_ms: self.now_ms,
            };
        };
        let repeats = recorded.key == key && same_meaning(&recorded.entry.value, &value);
        KvEntry {
            value: if repeats { recorded.entry.value } else { value },
            last_updated_at_ms: recorded.entry.last_updated_at_ms,
        }
    }
}
