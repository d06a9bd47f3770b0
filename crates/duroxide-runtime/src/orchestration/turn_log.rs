//! The log lines and metrics of a committed turn, one per fact. In: facts that `after` and `forced` collect. Decides
//! nothing.

use duroxide_core::clock::Clock;
use duroxide_core::provider::TurnWrites;
use duroxide_core::replay::{Notes, Outcome};
use duroxide_core::{AppErrorKind, ErrorDetails, WorkItem};

use super::plan::ExecutionRef;
use crate::engine::Engine;
use crate::observability::ExecutionEnd;

/// Names of the children that a turn starts.
pub(super) fn started_children(writes: &TurnWrites) -> Vec<String> {
    let child = |item: &WorkItem| match item {
        WorkItem::StartOrchestration {
            orchestration,
            parent_instance: Some(_),
            ..
        } => Some(orchestration.clone()),
        _ => None,
    };
    writes.to_orchestrators.iter().filter_map(child).collect()
}

/// Counts what a committed turn noticed besides its decisions.
pub(super) fn count_notes(engine: &Engine, of: &ExecutionRef, notes: &Notes) {
    for unused in &notes.unused {
        engine.metrics.record_dropped_message(unused.as_str());
    }
    for child in &notes.children_ended {
        engine.metrics.record_suborchestration_duration(
            &of.name,
            &child.name,
            child.outcome,
            child.lived_ms as f64 / 1_000.0,
        );
    }
}

/// What began an execution, as the published metric tells them apart: a child counts as started by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartedBy {
    Client,
    ContinueAsNew,
}

impl StartedBy {
    pub(super) fn of(continues: bool) -> Self {
        if continues {
            Self::ContinueAsNew
        } else {
            Self::Client
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::ContinueAsNew => "continueAsNew",
        }
    }
}

/// What is said about a committed turn.
#[derive(Debug)]
pub(super) struct TurnReport<'a> {
    pub(super) version: String,
    pub(super) started_at_ms: u64,
    pub(super) history_events: u64,
    pub(super) turns: u64,
    pub(super) worker_id: &'a str,
}

impl TurnReport<'_> {
    /// Says it, once the turn is committed.
    pub(super) fn note(
        &self,
        engine: &Engine,
        of: &ExecutionRef,
        began: Option<StartedBy>,
        outcome: &Outcome,
    ) {
        if let Some(by) = began {
            engine
                .metrics
                .record_orchestration_start(&of.name, &self.version, by.as_str());
            if of.execution_id == duroxide_core::INITIAL_EXECUTION_ID {
                engine.metrics.increment_active_orchestrations();
            }
            tracing::debug!(
                target: "duroxide::runtime",
                instance_id = %of.instance, execution_id = of.execution_id,
                orchestration_name = %of.name, orchestration_version = %self.version,
                worker_id = %self.worker_id,
                is_continue_as_new = by == StartedBy::ContinueAsNew,
                "Orchestration started"
            );
        }
        match outcome {
            Outcome::Waiting => return,
            Outcome::Completed { .. } => self.log_end(of, "Orchestration completed"),
            Outcome::ContinuedAsNew { .. } => {
                self.log_end(of, "Orchestration continued as new");
                engine.metrics.record_continue_as_new(&of.name);
            }
            Outcome::Failed { details } => self.log_failure(of, details),
        }
        if !matches!(outcome, Outcome::ContinuedAsNew { .. }) {
            engine.metrics.decrement_active_orchestrations();
        }
    }

    /// Counts the end of an execution, if it is one. Called before the commit, whose waiting clients may look at the
    /// counters at once; taken back if the commit does not happen.
    pub(super) fn count_end(
        &self,
        engine: &Engine,
        of: &ExecutionRef,
        outcome: &Outcome,
    ) -> CountedEnd {
        let (status, failure) = match outcome {
            Outcome::Waiting => return CountedEnd(None),
            Outcome::Completed { .. } => ("success", None),
            Outcome::ContinuedAsNew { .. } => ("continuedAsNew", None),
            Outcome::Failed { details } => (failure_status(details), Some(details.clone())),
        };
        let lived_ms = engine.clock.now_ms().saturating_sub(self.started_at_ms);
        let end = ExecutionEnd {
            name: of.name.clone(),
            version: self.version.clone(),
            status,
            failure,
            seconds: lived_ms as f64 / 1_000.0,
            turns: self.turns,
            history_events: self.history_events,
        };
        engine.metrics.count_end(&end);
        CountedEnd(Some(end))
    }

    fn log_end(&self, of: &ExecutionRef, message: &str) {
        tracing::debug!(
            target: "duroxide::runtime",
            instance_id = %of.instance, execution_id = of.execution_id,
            orchestration_name = %of.name, orchestration_version = %self.version,
            worker_id = %self.worker_id, history_events = self.history_events,
            "{message}"
        );
    }

    fn log_failure(&self, of: &ExecutionRef, details: &ErrorDetails) {
        macro_rules! line {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    target: "duroxide::runtime",
                    instance_id = %of.instance, execution_id = of.execution_id,
                    orchestration_name = %of.name, orchestration_version = %self.version,
                    worker_id = %self.worker_id, history_events = self.history_events,
                    error_type = details.category(), error = %details.display_message(),
                    $message
                )
            };
        }
        match details {
            ErrorDetails::Application { .. } => {
                line!(warn, "Orchestration failed (application error)");
            }
            ErrorDetails::Infrastructure { .. }
            | ErrorDetails::Configuration { .. }
            | ErrorDetails::Poison { .. } => line!(error, "Orchestration failed"),
        }
    }
}

fn failure_status(details: &ErrorDetails) -> &'static str {
    match details {
        ErrorDetails::Application {
            kind: AppErrorKind::Cancelled { .. },
            ..
        } => "cancelled",
        ErrorDetails::Poison { .. } => "poison",
        _ => "failed",
    }
}

/// An end that was counted before it was committed.
#[must_use]
pub(super) struct CountedEnd(Option<ExecutionEnd>);

impl CountedEnd {
    /// The commit did not happen.
    pub(super) fn take_back(self, engine: &Engine) {
        if let Some(end) = &self.0 {
            engine.metrics.take_back_end(end);
        }
    }
}
