//! What a turn came to: its outcome, its events and what goes with them. Pure data: nothing here decides.

use super::cause::FailedBy;
use super::host::HostCall;
use super::notes::Notes;
use crate::action::Action;
use crate::event::{ErrorDetails, Event};

/// How far a turn got.
#[derive(Debug)]
pub enum Progress {
    /// The code waits for answers that the host can give at once; see
    /// [`Execution::answer_host`](super::Execution::answer_host).
    NeedsHost(Vec<HostCall>),
    /// The turn is over.
    Done(Box<Turn>),
}

/// What a turn decided. All of it is committed together or none of it.
#[derive(Debug)]
pub struct Turn {
    /// The events to append to the history.
    pub events: Vec<Event>,
    /// Work for the runtime: activities, timers, children and detached orchestrations to start.
    pub actions: Vec<Action>,
    /// Activities that are no longer wanted, by scheduling event.
    pub cancelled_activities: Vec<u64>,
    /// Children that are no longer wanted.
    pub cancelled_children: Vec<ChildCancel>,
    /// Questions to the host that this turn left open; their answers must be sent as completions.
    pub unanswered: Vec<HostCall>,
    /// The state of the execution after the turn.
    pub outcome: Outcome,
    /// Cause of the failure; `None` unless the outcome is [`Outcome::Failed`].
    pub failed_by: Option<FailedBy>,
    /// The reason of a request to cancel that the next execution gets; only with [`Outcome::ContinuedAsNew`].
    pub cancel_for_successor: Option<String>,
    /// Whether the code has unread queue messages and waits for none: further ones are of no use before the next turn.
    pub holds_queue_messages: bool,
    /// Facts for log and metrics, once it is committed.
    pub notes: Notes,
}

impl Turn {
    pub(super) fn nothing(notes: Notes) -> Self {
        Self {
            events: Vec::new(),
            actions: Vec::new(),
            cancelled_activities: Vec::new(),
            cancelled_children: Vec::new(),
            unanswered: Vec::new(),
            outcome: Outcome::Waiting,
            failed_by: None,
            cancel_for_successor: None,
            holds_queue_messages: false,
            notes,
        }
    }
}

/// A child that is no longer wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildCancel {
    /// Its recorded, short id.
    pub instance: String,
    /// The reason that the child receives.
    pub reason: String,
}

/// Where an execution stands after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It waits.
    Waiting,
    /// It returned a value.
    Completed {
        /// The value.
        output: String,
    },
    /// It ended without a value.
    Failed {
        /// The cause of the failure.
        details: ErrorDetails,
    },
    /// It asked for another execution.
    ContinuedAsNew {
        /// Input of the next one.
        input: String,
        /// Exact version, or `None` for the policy.
        version: Option<String>,
        /// Unread queue messages, oldest first.
        carried: Vec<(String, String)>,
        /// Custom status to begin with.
        custom_status: Option<String>,
    },
}
