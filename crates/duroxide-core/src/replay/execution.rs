//! One run of a handler, fed with events. The heart of replay: one loop, for recorded and new events alike.
//!
//! For each event: if the code is due a poll, poll it, then apply the event. A recorded decision consumes the oldest
//! request of the code and must be the same; an arrival answers the operation it belongs to and makes a poll due. When
//! recorded events and arrivals are used up, the code's own requests become the next events, one at a time, through the
//! very same step. So a turn that continues and a turn that replays cannot differ.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use semver::Version;

use super::divergence::Divergence;
use super::earlier_signals::EarlierSignals;
use super::handler_future::HandlerFuture;
use super::replaying;
use super::start::{ExecutionStart, ParentLink};
use crate::action::Action;
use crate::context::OrchestrationContext;
use crate::durable::{Cell, Identity, RecordedKv, SYSCALL_PATCHED, Shared, ShownToCode};
use crate::event::{Event, EventKind};
use crate::handler::OrchestrationHandler;
use crate::ids::INITIAL_EVENT_ID;
use crate::label::KnownLabels;
use crate::message::{KEYS_QUEUE, is_start_queue};
use crate::provider::KvEntry;
use crate::rewound::Rewound;
use crate::start::StartExtras;
use crate::trace_context::TraceContext;

/// Highest event id of a recorded history: stores hold signed 64-bit numbers, and a turn must be able to go on from it.
pub(super) const LAST_EVENT_ID: u64 = i64::MAX as u64 / 2;

/// The first version that checks the ids of children and detached starts.
const FIRST_TO_CHECK_IDS: Version = Version::new(0, 2, 0);

const IDS_MUST_INCREASE: &str = "corrupted history: event ids must increase";

/// Reason of cancel records that stem from the code dropping a future.
pub(crate) const DROPPED_FUTURE: &str = "dropped_future";

/// Whether an event was stored before this turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Recorded,
    New,
}

/// One run of a handler: its suspended code and everything it waits for.
pub struct Execution {
    /// The code's context holds it too.
    pub(super) shared: Arc<Shared>,
    pub(super) handler: HandlerFuture,
    /// A poll is due, because of an event of this origin. The journal writes it as it applies an event; `poll_if_due`
    /// takes it.
    pub(super) due: Option<Origin>,
    /// The last event that was applied, recorded or new.
    pub(super) last_event_id: u64,
    /// Read by the host, which answers the parent.
    pub(super) parent: Option<ParentLink>,
    /// When the execution began. Read by the host only.
    pub(super) started_at_ms: u64,
    /// Why the execution is asked to end: the first request, or the one to terminate. The journal writes it; admission
    /// and the end of a turn read it.
    pub(super) cancel_reason: Option<String>,
    /// The code watched for the request to cancel and has it; it ends by returning, or when it is terminated. Written
    /// with `cancel_reason`.
    pub(super) winds_down: bool,
    /// The code watched for a request to cancel when it returned or asked for another execution: since before that
    /// poll, or since it. `poll_if_due` writes it; a request that comes with the end is held against it.
    pub(super) ended_watching: bool,
    /// A client asked for the end at once; the code runs no more. Written with `cancel_reason`.
    pub(super) terminated: bool,
    /// The host sets it before the turn, where it blocks what does not fit; admission then notes a stray only.
    pub(super) ignores_strays: bool,
    /// Written by the journal for a terminal event, and by the end of a turn; nothing is admitted or polled after that.
    pub(super) ended: bool,
    /// Recorded patches that the code no longer asks about, by their events. The journal adds to it; their answers are
    /// let pass.
    pub(super) passed_over: HashSet<u64>,
    /// What it shares with an earlier execution, if it was rewound.
    pub(super) rewound: Option<Rewound>,
    /// What is to be asked for anew, by scheduling event, as the code asks for it. The journal collects it, admission
    /// takes it for the first turn.
    pub(super) again: BTreeMap<u64, Action>,
    /// Whether those requests were sent; a failure that arrives after that belongs to this execution. Admission writes
    /// it, and the journal, for a rewound record that goes on.
    pub(super) asked_again: bool,
    /// Signals that came before a rewind and have reached no wait since. The journal takes them out as it records
    /// waits.
    pub(super) earlier_signals: EarlierSignals,
    /// Turns that recorded the history, and this one. Read by the host for its log only.
    pub(super) turns: u64,
    /// Empty between turns; the end of a turn takes it.
    pub(super) turn: super::turn_state::TurnState,
}

impl Execution {
    /// An execution that begins now: its first turn records `OrchestrationStarted` and the carried messages.
    #[must_use]
    pub fn begin(
        start: ExecutionStart,
        handler: Arc<dyn OrchestrationHandler>,
        kv: HashMap<String, KvEntry>,
        now_ms: u64,
    ) -> Self {
        let mut carried = start.carried;
        let mut extras = StartExtras::take_from(&mut carried);
        extras.begin(now_ms);
        carried.extend(extras.carried());
        let kind = EventKind::OrchestrationStarted {
            name: start.name,
            version: start.version,
            input: start.input,
            parent_instance: start.parent.as_ref().map(|p| p.instance.clone()),
            parent_id: start.parent.as_ref().map(|p| p.id),
            parent_execution_id: start.parent.as_ref().and_then(|p| p.execution_id),
            carry_forward_events: (!carried.is_empty()).then(|| carried.clone()),
            initial_custom_status: start.custom_status,
        };
        let event = Event {
            event_id: INITIAL_EVENT_ID,
            source_event_id: None,
            instance_id: start.instance,
            execution_id: start.execution_id,
            timestamp_ms: now_ms,
            duroxide_version: crate::event::BUILD_VERSION.to_owned(),
            kind,
        };
        let mut execution = Self::opened(&event, handler, kv, Origin::New)
            .expect("the event above is an OrchestrationStarted");
        execution.turn.now_ms = now_ms;
        execution.shared.cell().set_time(now_ms, now_ms);
        execution.turn.events.push(event);
        match extras.deadline_ms {
            // Code whose executions take one turn each never gets to see a timer: its time is up where the next one
            // begins.
            Some(fire_at_ms) if fire_at_ms <= now_ms => {
                let fired = EventKind::TimerFired { fire_at_ms };
                execution.arrive(fired, Some(INITIAL_EVENT_ID));
            }
            // The deadline is a timer of the start itself; stores drop it with the execution, so each execution sets
            // it.
            Some(fire_at_ms) => execution.turn.actions.push(Action::CreateTimer {
                scheduling_event_id: INITIAL_EVENT_ID,
                fire_at_ms,
            }),
            None => {}
        }
        let messages = carried
            .into_iter()
            .filter(|(name, _)| !is_start_queue(name));
        for (name, data) in messages {
            if name == KEYS_QUEUE {
                // Known before the messages of this turn are looked at: a repeated one may come with the start.
                execution.shared.cell().operations.take_over_keys(&data);
            }
            execution.arrive(EventKind::QueueEventDelivered { name, data }, None);
        }
        execution
    }

    /// An execution brought to where its history ends.
    ///
    /// # Errors
    ///
    /// When the code decides something else than what is recorded.
    pub fn load(
        history: &[Event],
        handler: Arc<dyn OrchestrationHandler>,
        kv: HashMap<String, KvEntry>,
    ) -> Result<Self, Divergence> {
        let Some((first, rest)) = history.split_first() else {
            return Err(Divergence::new("corrupted history: empty"));
        };
        if first.event_id > LAST_EVENT_ID {
            return Err(Divergence::new(IDS_MUST_INCREASE).at(first));
        }
        let mut execution = Self::opened(first, handler, kv, Origin::Recorded)?;
        let presence = Arc::clone(&execution.shared.presence);
        let _driving = presence.enter();
        execution.turns = count_turns(history);
        execution.expect_kv(rest);
        execution.expect_patches(rest);
        for event in rest {
            execution.replay(event)?;
            if execution.ended {
                return Ok(execution);
            }
        }
        execution.poll_if_due();
        Ok(execution)
    }

    fn opened(
        first: &Event,
        handler: Arc<dyn OrchestrationHandler>,
        kv: HashMap<String, KvEntry>,
        origin: Origin,
    ) -> Result<Self, Divergence> {
        let EventKind::OrchestrationStarted {
            name,
            version,
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
            initial_custom_status,
            ..
        } = &first.kind
        else {
            return Err(Divergence::new(
                "corrupted history: first event must be OrchestrationStarted",
            ));
        };
        let identity = Identity {
            instance_id: first.instance_id.clone(),
            execution_id: first.execution_id,
            name: name.clone(),
            version: version.clone(),
        };
        let cell = Cell {
            kv: kv.into_iter().collect(),
            custom_status: initial_custom_status.clone(),
            ..cell_of(first)
        };
        let rewound = Rewound::recorded_in(&first.kind);
        let shared = Arc::new(Shared::driven(identity, cell));
        let presence = Arc::clone(&shared.presence);
        let ctx = OrchestrationContext::of(Arc::clone(&shared));
        let parent = parent_instance.as_ref().map(|instance| ParentLink {
            instance: instance.clone(),
            id: parent_id.unwrap_or_default(),
            execution_id: *parent_execution_id,
        });
        Ok(Self {
            shared,
            handler: HandlerFuture::new(handler, ctx, input.clone(), presence),
            due: Some(origin),
            last_event_id: first.event_id,
            parent,
            started_at_ms: first.timestamp_ms,
            cancel_reason: None,
            winds_down: false,
            ended_watching: false,
            terminated: false,
            ignores_strays: false,
            ended: false,
            passed_over: HashSet::new(),
            earlier_signals: EarlierSignals::of(rewound.as_ref()),
            rewound,
            again: BTreeMap::new(),
            asked_again: false,
            turns: 0,
            turn: super::turn_state::TurnState::default(),
        })
    }

    /// Collects the recorded patches, so that the code gets the same answers.
    fn expect_patches(&mut self, history: &[Event]) {
        let recorded = history.iter().filter_map(|event| match &event.kind {
            EventKind::ActivityScheduled { name, input, .. } if name == SYSCALL_PATCHED => {
                Some(input.clone())
            }
            _ => None,
        });
        self.shared.cell().recorded_patches = recorded.collect();
    }

    fn expect_kv(&mut self, history: &[Event]) {
        self.shared.cell().recorded_kv = history
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => Some(RecordedKv {
                    key: key.clone(),
                    entry: KvEntry {
                        value: value.clone(),
                        last_updated_at_ms: *last_updated_at_ms,
                    },
                }),
                _ => None,
            })
            .collect();
    }

    /// A recorded event. The code sees the time that the event was recorded at.
    fn replay(&mut self, event: &Event) -> Result<(), Divergence> {
        if event.event_id <= self.last_event_id || event.event_id > LAST_EVENT_ID {
            return Err(Divergence::new(IDS_MUST_INCREASE).at(event));
        }
        self.step(event, Origin::Recorded)?;
        self.shared
            .cell()
            .set_time(event.timestamp_ms, event.timestamp_ms);
        Ok(())
    }

    /// The one step of replay: give the code its poll, then apply the event.
    pub(super) fn step(&mut self, event: &Event, origin: Origin) -> Result<(), Divergence> {
        if is_up_from_the_start(event) {
            self.due = None;
        }
        self.poll_if_due();
        self.apply(event, origin)?;
        self.last_event_id = self.last_event_id.max(event.event_id);
        Ok(())
    }

    pub(super) fn poll_if_due(&mut self) {
        let Some(origin) = self.due.take() else {
            return;
        };
        if !self.handler.is_suspended() || self.turn.abort.is_some() || self.terminated {
            return;
        }
        let (commands_before, watched) = {
            let mut cell = self.shared.cell();
            cell.replaying = origin == Origin::Recorded;
            cell.last_event_id = self.last_event_id;
            if let Some(rewound) = &self.rewound {
                // What is decided now was decided there, if the next event is one that both have.
                let first = rewound.first_with(self.last_event_id + 1);
                let own = self.shared.identity.execution_id;
                show_execution(
                    &mut cell,
                    &self.shared.identity,
                    rewound,
                    first.unwrap_or(own),
                );
            }
            let watches = cell.operations.watches_cancellation();
            let begun = cell.operations.watches_begun();
            (cell.commands.len(), (watches, begun))
        };
        let was_undecided = self.is_undecided();
        let replaying = replaying::mark(origin == Origin::Recorded);
        self.handler.poll();
        drop(replaying);
        if was_undecided && !self.is_undecided() {
            let (watches, begun) = watched;
            let begins = self.shared.cell().operations.watches_begun() > begun;
            self.ended_watching = watches || begins;
        }
        if matches!(self.handler, HandlerFuture::Panicked(_)) {
            // A poll that panics decides nothing.
            self.shared.cell().commands.truncate(commands_before);
        }
    }
}

/// What the code of an execution finds when it begins, as far as its first event says it.
fn cell_of(first: &Event) -> Cell {
    let extras = StartExtras::recorded_in(&first.kind);
    let trace = trace_of_execution(first);
    Cell {
        shown: ShownToCode {
            execution_id: first.execution_id,
            deadline_ms: extras.deadline_ms,
            trace: trace.clone(),
        },
        extras,
        trace,
        now_ms: first.timestamp_ms,
        clock_ms: first.timestamp_ms,
        labels: KnownLabels::at_start(&first.kind),
        started_ms: first.timestamp_ms,
        takes_any_id: began_before(&first.duroxide_version, &FIRST_TO_CHECK_IDS),
        ..Cell::default()
    }
}

/// Whether the time of the instance was up before this execution began: its code does not run at all. A first turn that
/// runs code records what that waits for, so nothing else leaves the deadline at this place.
fn is_up_from_the_start(event: &Event) -> bool {
    event.event_id == INITIAL_EVENT_ID + 1
        && event.source_event_id == Some(INITIAL_EVENT_ID)
        && matches!(event.kind, EventKind::TimerFired { .. })
}

/// Shows the code the number, deadline and trace of the execution in which it first ran.
fn show_execution(cell: &mut Cell, identity: &Identity, rewound: &Rewound, execution_id: u64) {
    if cell.shown.execution_id == execution_id {
        return;
    }
    let given = cell.extras.trace.as_ref();
    let place = |given| place_in_trace(given, &identity.instance_id, execution_id, cell.started_ms);
    cell.shown = ShownToCode {
        execution_id,
        deadline_ms: match rewound.deadlines.get(&execution_id) {
            Some(deadline_ms) => Some(*deadline_ms),
            None => cell.extras.deadline_ms,
        },
        trace: given.map(place),
    };
}

/// The place of an execution in the trace that its instance was started in. It follows from the first event.
#[must_use]
pub fn trace_of_execution(first: &Event) -> Option<TraceContext> {
    let given = StartExtras::recorded_in(&first.kind).trace?;
    let (id, execution, began) = (&first.instance_id, first.execution_id, first.timestamp_ms);
    Some(place_in_trace(&given, id, execution, began))
}

fn place_in_trace(given: &TraceContext, id: &str, execution: u64, began_ms: u64) -> TraceContext {
    given.within(&[id, &execution.to_string(), &began_ms.to_string()])
}

/// Whether the engine that began an execution is older than a version. What cannot be understood counts as older.
fn began_before(stamp: &str, version: &Version) -> bool {
    Version::parse(stamp).map_or(true, |stamped| stamped < *version)
}

/// How many turns recorded a history. All events of a turn have one time; turns within one millisecond count as one.
#[must_use]
pub fn count_turns(history: &[Event]) -> u64 {
    let mut turns = 0;
    let mut last = None;
    for event in history {
        if last != Some(event.timestamp_ms) {
            turns += 1;
            last = Some(event.timestamp_ms);
        }
    }
    turns
}

impl Drop for Execution {
    fn drop(&mut self) {
        // The code's locals are dropped with it; that is not the code's decision.
        let presence = Arc::clone(&self.shared.presence);
        let _driving = presence.enter();
        let mut cell = self.shared.cell();
        cell.closed = true;
        // Closures of the author may hold the context, which holds the cell: the circle is broken here.
        let in_place = std::mem::take(&mut cell.in_place);
        drop(cell);
        self.handler.discard();
        drop(in_place);
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("identity", &self.shared.identity)
            .field("last_event_id", &self.last_event_id)
            .finish_non_exhaustive()
    }
}
