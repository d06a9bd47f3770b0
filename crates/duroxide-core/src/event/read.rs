//! Facts that can be read off a history without replaying it.

use super::{Event, EventKind};
use crate::provider::{InstanceOutcome, OutcomeStatus};

impl Event {
    /// Name and version of the handler, if this event began an execution.
    #[must_use]
    pub fn started_handler(&self) -> Option<(String, String)> {
        match &self.kind {
            EventKind::OrchestrationStarted { name, version, .. } => {
                Some((name.clone(), version.clone()))
            }
            _ => None,
        }
    }
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
