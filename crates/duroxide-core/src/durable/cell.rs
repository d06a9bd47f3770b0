//! The state that the author's context and the replay engine share during one execution.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::command::{Command, CommandKind};
use super::identity::Identity;
use super::machines::Resolution;
use super::operations::{OperationKind, Operations};
use super::presence::{CALLED, Presence};
use super::shields::Shields;
use crate::codec::same_meaning;
use crate::label::{KnownLabels, Labels};
use crate::provider::KvEntry;
use crate::start::StartExtras;
use crate::trace_context::TraceContext;

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
    /// When other code than the orchestration calls, after it was noted for the report. The panic is that caller's.
    /// While a thread unwinds already a second panic would end the process, so the call goes nowhere instead.
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
    /// The turn's time, as it is recorded: it does not go back. Replay writes it with each event and turn.
    pub(crate) now_ms: u64,
    /// What the clock shows, set back or not. Timers are due by the clock: computed from a recorded time that is ahead
    /// of it, they would be late by as much.
    pub(crate) clock_ms: u64,
    /// Whether the code is being fed events that were recorded before this turn. Replay writes it before each poll; the
    /// context reads it for `trace_*` and patches.
    pub(crate) replaying: bool,
    /// The execution has ended or was discarded; drops no longer mean anything. Replay writes it, futures that are
    /// dropped read it.
    pub(crate) closed: bool,
    /// The context adds to it, replay answers what it applies.
    pub(crate) operations: Operations,
    /// Asked for, not recorded yet. The context pushes, replay takes from the front.
    pub(crate) commands: VecDeque<Command>,
    /// As the code left them: replay begins with what the execution was given, and the context changes them.
    pub(crate) kv: BTreeMap<String, KvEntry>,
    /// Recorded key-value writes that the code has not repeated yet. Replay fills it once, `next_kv` takes from it.
    pub(crate) recorded_kv: VecDeque<RecordedKv>,
    /// The start gives it, the context changes it, and continue-as-new hands it on.
    pub(crate) custom_status: Option<String>,
    /// Those of the start, as the code changed them. What an operator changes is not here.
    pub(crate) labels: KnownLabels,
    /// What else the start gave. Nobody changes it.
    pub(crate) extras: StartExtras,
    /// The place of this execution in its trace. Replay reads it for the work that the code asks for.
    pub(crate) trace: Option<TraceContext>,
    /// What the code sees of all that. Replay writes it before each poll of a rewound execution, the context reads it.
    pub(crate) shown: ShownToCode,
    /// The next execution, once the code asked for one. The context writes it, replay reads it after a poll.
    pub(crate) next: Option<NextExecution>,
    /// Why the execution is asked to end, once it is. `request_cancellation` writes it, the context reads it.
    pub(crate) cancel_requested: Option<String>,
    /// The execution began on an engine that did not check the ids of children and detached starts.
    pub(crate) takes_any_id: bool,
    /// A misuse that was noticed where a panic would do harm. Futures and `amend` write it; the turn fails by it at its
    /// end.
    pub(crate) misuse: Option<String>,
    /// When the execution began. Random numbers and ids of the context, and its place in the trace, follow from it.
    pub(crate) started_ms: u64,
    /// The last event that the code was fed. Replay writes it before each poll, `history_length` reads it.
    pub(crate) last_event_id: u64,
    /// The latest time that the code has seen: `ctx.now` writes and reads it, and does not go back.
    pub(crate) seen_ms: u64,
    /// Deterministic values that the code drew so far. The context counts.
    pub(crate) drawn: u64,
    /// Patches that are recorded in this execution. Replay collects them when it loads a history.
    pub(crate) recorded_patches: HashSet<String>,
    /// Patches that the code asked about, and the answers. Only the context knows of them.
    pub(crate) patches: BTreeMap<String, bool>,
    /// Work that runs in place, by its slot, until the host takes it or its future is gone. The context puts it here;
    /// the host takes it through `Execution::take_in_place`.
    pub(crate) in_place: HashMap<usize, InPlace>,
    /// The groups of work that are being polled and end with a request to cancel, innermost last.
    /// `context/shielding.rs` adds and removes them.
    pub(crate) groups: Vec<Shields>,
    /// How much shielded work is being polled, one within the other: a request to cancel ends no group inside it.
    /// `context/shielding.rs` counts.
    pub(crate) shields: usize,
}

/// What the code sees of its execution. In the part of a record that a rewound execution shares with an earlier one,
/// the code sees what it saw there: it must decide the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownToCode {
    pub(crate) execution_id: u64,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) trace: Option<TraceContext>,
}

/// A future that the host drives within a turn.
pub type InPlaceFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Work of the author's code that runs in place.
pub(crate) struct InPlace {
    pub(crate) work: Box<dyn FnOnce() -> InPlaceFuture + Send>,
    /// How long it may take.
    pub(crate) limit: Option<Duration>,
}

impl fmt::Debug for InPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InPlace")
    }
}

/// What an author reads who sets an option on a call that is recorded already.
const TOO_LATE: &str = "an option was set on a durable call after it was recorded; set it right after the call, before the next await";

impl Cell {
    /// The time that is recorded, and what the clock shows.
    pub(crate) fn set_time(&mut self, now_ms: u64, clock_ms: u64) {
        (self.now_ms, self.clock_ms) = (now_ms, clock_ms);
    }

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

    /// The future of that call is polled: what is not recorded yet takes its place behind everything asked for until
    /// now.
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

    /// What an operation asked for, while it is not recorded.
    pub(crate) fn asked(&mut self, slot: usize) -> Option<CommandKind> {
        let asked = self.place_of(slot).map(|at| self.commands[at].kind.clone());
        if asked.is_none() {
            self.misuse.get_or_insert_with(|| TOO_LATE.to_owned());
        }
        asked
    }

    /// Changes what an operation asked for. Too late once it is recorded, which is noted.
    pub(crate) fn amend(&mut self, slot: usize, change: impl Fn(&mut CommandKind)) {
        match self.place_of(slot) {
            Some(at) => change(&mut self.commands[at].kind),
            // A panic here would unwind through the code's other futures; the turn reports the misuse instead.
            None => {
                self.misuse.get_or_insert_with(|| TOO_LATE.to_owned());
            }
        }
    }

    /// Changes the id of a detached start. Too late once it is recorded, which is noted.
    pub(crate) fn rename_detached(&mut self, from: &str, to: &str) {
        let asked = self
            .commands
            .iter_mut()
            .rev()
            .find_map(|c| match &mut c.kind {
                CommandKind::Detached { instance, .. } if instance == from => Some(instance),
                _ => None,
            });
        match asked {
            Some(instance) => to.clone_into(instance),
            None => {
                self.misuse.get_or_insert_with(|| TOO_LATE.to_owned());
            }
        }
    }

    /// Labels and extras of the detached start of this id. Too late once it is recorded, which is noted.
    fn detached_mut(&mut self, id: &str) -> Option<(&mut Labels, &mut StartExtras)> {
        let mut commands = self.commands.iter_mut().rev();
        let asked = commands.find_map(|c| match &mut c.kind {
            CommandKind::Detached {
                instance,
                labels,
                extras,
                ..
            } if instance == id => Some((labels, extras)),
            _ => None,
        });
        if asked.is_none() {
            self.misuse.get_or_insert_with(|| TOO_LATE.to_owned());
        }
        asked
    }

    /// Labels a detached start, and returns its labels.
    pub(crate) fn label_detached(&mut self, id: &str, key: &str, value: &str) -> Option<Labels> {
        let (labels, _) = self.detached_mut(id)?;
        labels.insert(key.to_owned(), value.to_owned());
        Some(labels.clone())
    }

    /// Changes what a detached start carries.
    pub(crate) fn extend_detached(
        &mut self,
        id: &str,
        change: impl FnOnce(StartExtras) -> Result<StartExtras, String>,
    ) -> Result<(), String> {
        if let Some((_, extras)) = self.detached_mut(id) {
            *extras = change(extras.clone())?;
        }
        Ok(())
    }

    /// Takes a request back that is not recorded.
    pub(crate) fn take_back(&mut self, slot: usize) {
        self.commands.retain(|c| c.operation != Some(slot));
    }

    /// Puts the request of one operation in front of another's.
    pub(crate) fn ask_before(&mut self, slot: usize, other: usize) {
        let (Some(from), Some(to)) = (self.place_of(slot), self.place_of(other)) else {
            return;
        };
        if let Some(command) = self.commands.remove(from) {
            self.commands.insert(to, command);
        }
    }

    fn place_of(&self, slot: usize) -> Option<usize> {
        // The request is among the last: calls are changed right after they are made.
        self.commands
            .iter()
            .rposition(|c| c.operation == Some(slot))
    }

    /// Records a request without an answer.
    pub(crate) fn record(&mut self, kind: CommandKind, location: &'static Location<'static>) {
        self.commands.push_back(Command {
            operation: None,
            kind,
            location,
            may_come_later: false,
        });
    }

    /// What became of an operation, once that is known. Code that polls a watch learns of the request with it.
    pub(crate) fn poll(&mut self, slot: usize, waker: &Waker) -> Option<Resolution> {
        let resolution = self.operations.poll(slot, waker)?;
        if self.operations.is_watch(slot) {
            self.hear_request();
        }
        Some(resolution)
    }

    /// The code is shown the request to cancel: from here on it may shield what puts things right.
    pub(crate) fn hear_request(&self) {
        self.groups.iter().for_each(Shields::hear);
    }

    /// A request to cancel arrived; false if the code does not watch for it.
    pub(crate) fn request_cancellation(&mut self, reason: &str) -> bool {
        self.cancel_requested
            .get_or_insert_with(|| reason.to_owned());
        self.operations.request_cancellation(reason)
    }

    /// The next key-value write. What is recorded governs when the write is repeated: its stamp, and its text if the
    /// code wrote the same value in another way, so that the code reads the same text in every replay.
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
