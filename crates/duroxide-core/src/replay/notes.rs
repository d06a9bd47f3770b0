//! What a turn noticed besides its decisions: facts for logs and metrics. Never part of a history, never acted upon.

use crate::durable::OperationKind;
use crate::event::{ErrorDetails, EventKind};

/// What a turn noticed. Worth saying only once its turn is committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Messages that had no effect.
    pub unused: Vec<Unused>,
    /// Children whose result came in.
    pub children_ended: Vec<ChildEnded>,
    /// Completions that fit no schedule and were left out; see
    /// [`Execution::ignore_strays`](super::Execution::ignore_strays). Each is in `unused` as well.
    pub strays: Vec<Stray>,
}

/// A completion that fits no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The schedule it names.
    pub id: u64,
    /// The event that it would have become.
    pub kind: EventKind,
    /// Reason why it does not fit.
    pub why: String,
}

/// Why a message had no effect on the execution it was claimed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unused {
    /// A completion for another execution of the instance, usually the one before.
    AnotherExecution,
    /// A completion of something that is completed already.
    Duplicate,
    /// A completion that came together with the start. Schedules and their work are committed together, so it cannot
    /// belong to this execution: it was sent to an earlier instance of the same id, or by hand.
    NeverScheduled,
    /// A signal that the code does not wait for. It is recorded, and the code never sees it.
    NobodyWaits,
    /// A request to cancel or terminate after the one that counts.
    CancelledAlready,
    /// A request to cancel from an instance that took this one for its child.
    NotTheParent,
    /// A completion that fits no schedule, in an execution that goes on without it.
    Stray,
    /// A queue message whose key the instance has seen.
    Repeated,
    /// A message for an execution that has ended.
    Ended,
}

impl Unused {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::AnotherExecution,
        Self::Duplicate,
        Self::NeverScheduled,
        Self::NobodyWaits,
        Self::CancelledAlready,
        Self::NotTheParent,
        Self::Stray,
        Self::Repeated,
        Self::Ended,
    ];

    /// One word, for a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnotherExecution => "another_execution",
            Self::Duplicate => "duplicate",
            Self::NeverScheduled => "never_scheduled",
            Self::NobodyWaits => "nobody_waits",
            Self::CancelledAlready => "cancelled_already",
            Self::NotTheParent => "not_the_parent",
            Self::Stray => "stray",
            Self::Repeated => "repeated",
            Self::Ended => "ended",
        }
    }
}

/// A child whose result came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnded {
    /// Registered name of the child.
    pub name: String,
    /// `success`, `failed`, `cancelled` or `poison`.
    pub outcome: &'static str,
    /// Time from the event that scheduled it to its result.
    pub lived_ms: u64,
}

impl ChildEnded {
    /// The note for a child, or `None` if the operation is not one.
    pub(super) fn of(
        operation: &OperationKind,
        failure: Option<&ErrorDetails>,
        now_ms: u64,
    ) -> Option<Self> {
        let OperationKind::Child {
            name, scheduled_ms, ..
        } = operation
        else {
            return None;
        };
        let outcome = match failure {
            None => "success",
            Some(ErrorDetails::Poison { .. }) => "poison",
            Some(details) if details.is_cancelled() => "cancelled",
            Some(_) => "failed",
        };
        Some(Self {
            name: name.clone(),
            outcome,
            lived_ms: now_ms.saturating_sub(*scheduled_ms),
        })
    }
}
