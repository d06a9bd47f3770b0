//! Where an instance stands, without its history; and how to read that from a history, for stores that keep nothing
//! else.

use crate::event::{ErrorDetails, Event, EventKind};

/// Where an instance stands, read without its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceOutcome {
    /// The current execution.
    pub execution_id: u64,
    /// The status of that execution.
    pub status: OutcomeStatus,
    /// Custom status of the instance.
    pub custom_status: Option<String>,
    /// Number of changes of the custom status.
    pub custom_status_version: u64,
}

/// Where the current execution stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeStatus {
    /// Not ended, or ended in continue-as-new with the next execution still to come.
    Running,
    /// Ended with a value.
    Completed {
        /// The value.
        output: String,
    },
    /// Ended without a value.
    Failed {
        /// The cause of the failure.
        details: ErrorDetails,
    },
}

impl InstanceOutcome {
    /// Where the execution with this history stands; `None` if it never began. The custom status is left empty.
    #[must_use]
    pub fn of_history(history: &[Event]) -> Option<Self> {
        let ended = history.iter().rev().find_map(OutcomeStatus::of_event);
        let status = match ended {
            Some(status) => status,
            None if history.iter().any(|e| e.started_handler().is_some()) => OutcomeStatus::Running,
            None => return None,
        };
        Some(Self {
            execution_id: history.last().map_or(1, |e| e.execution_id),
            status,
            custom_status: None,
            custom_status_version: 0,
        })
    }
}

impl OutcomeStatus {
    /// How the execution ended, if this event ended it for good.
    #[must_use]
    pub fn of_event(event: &Event) -> Option<Self> {
        match &event.kind {
            EventKind::OrchestrationCompleted { output } => Some(Self::Completed {
                output: output.clone(),
            }),
            EventKind::OrchestrationFailed { details } => Some(Self::Failed {
                details: details.clone(),
            }),
            _ => None,
        }
    }
}
