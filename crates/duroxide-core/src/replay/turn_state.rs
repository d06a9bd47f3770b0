//! What a turn collects while it runs: the messages that wait, the events so far, what the code asked for.

use std::collections::{HashSet, VecDeque};

use super::cause::FailedBy;
use super::host::HostCall;
use super::notes::Notes;
use crate::action::Action;
use crate::event::{ErrorDetails, Event, EventKind};

/// What a turn has collected so far.
#[derive(Debug, Default)]
pub(super) struct TurnState {
    pub(super) now_ms: u64,
    /// The history delta.
    pub(super) events: Vec<Event>,
    /// The last event before this turn.
    pub(super) base_event_id: u64,
    /// What came in and is not in the delta yet, in the order of arrival.
    pub(super) incoming: VecDeque<Incoming>,
    /// How many of the delta's events have been applied.
    pub(super) applied: usize,
    /// What the recorded decisions ask the runtime to do.
    pub(super) actions: Vec<Action>,
    pub(super) host_calls: Vec<HostCall>,
    /// A failure that ends the execution whatever the code does.
    pub(super) abort: Option<(FailedBy, ErrorDetails)>,
    /// The turn's decisions were taken back.
    pub(super) taken_back: bool,
    /// Completions of this batch, so that a second one is recognised.
    pub(super) answered: HashSet<u64>,
    /// A request to cancel that came after the code had asked for another execution.
    pub(super) cancel_for_successor: Option<String>,
    pub(super) notes: Notes,
}

/// A message of the batch, as far as it has an effect.
#[derive(Debug)]
pub(super) enum Incoming {
    /// It becomes an event.
    Event {
        kind: EventKind,
        source_event_id: Option<u64>,
    },
    /// It fits no schedule. It ends the execution at its place in the order of arrival: what came before it counts.
    Stray(ErrorDetails),
}
