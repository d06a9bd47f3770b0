//! The state that the author's context and the replay engine share during one execution.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::command::{Command, CommandKind};
use super::operations::{OperationKind, Operations};
use crate::codec::same_meaning;
use crate::provider::KvEntry;

/// Who runs.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) instance_id: String,
    pub(crate) execution_id: u64,
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Identity and guarded state of one execution.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    cell: Mutex<Cell>,
}

impl Shared {
    pub(crate) fn new(identity: Identity, cell: Cell) -> Self {
        Self {
            identity,
            cell: Mutex::new(cell),
        }
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
        });
        slot
    }

    /// Records a request without an answer.
    pub(crate) fn tell(&mut self, kind: CommandKind, location: &'static Location<'static>) {
        self.commands.push_back(Command {
            operation: None,
            kind,
            location,
        });
    }

    /// Whether the code holds a wait for a signal of this name that is not recorded yet.
    pub(crate) fn has_asked_for(&self, signal: &str) -> bool {
        self.commands.iter().any(|command| {
            matches!(&command.kind, CommandKind::Wait { name } if name == signal)
                && command
                    .operation
                    .is_some_and(|slot| self.operations.get(slot).is_held())
        })
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
