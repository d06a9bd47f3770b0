//! What is said about a committed turn: log lines and metrics, one per fact.

use duroxide_core::replay::{Notes, Outcome};
use duroxide_core::{AppErrorKind, ErrorDetails, WorkItem};

use super::plan::{Author, TurnCommit};
use crate::engine::Engine;

/// Names of the children that a turn starts.
pub(super) fn started_children(commit: &TurnCommit) -> Vec<String> {
    let child = |item: &WorkItem| match item {
        WorkItem::StartOrchestration {
            orchestration,
            parent_instance: Some(_),
            ..
        } => Some(orchestration.clone()),
        _ => None,
    };
    commit.to_orchestrators.iter().filter_map(child).collect()
}

/// Counts what a committed turn noticed besides its decisions.
pub(super) fn note_asides(engine: &Engine, author: &Author, notes: &Notes) {
    for unused in &notes.unused {
        engine.metrics.record_dropped_message(unused.as_str());
    }
    for child in &notes.children_ended {
        engine.metrics.record_suborchestration_duration(
            &author.name,
            &child.name,
            child.outcome,
            child.lived_ms as f64 / 1_000.0,
        );
    }
}

/// What is known about an execution that has just begun.
#[derive(Debug)]
pub(super) struct FirstTurn {
    initiated_by: &'static str,
}

impl FirstTurn {
    pub(super) fn of(continues: bool) -> Self {
        let initiated_by = if continues { "continueAsNew" } else { "client" };
        Self { initiated_by }
    }
}

/// What is said about a committed turn.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) version: String,
    pub(super) started_at_ms: u64,
    pub(super) history_events: u64,
    pub(super) turns: u64,
    pub(super) worker_id: &'a str,
}

impl Facts<'_> {
    /// Says it, once the turn is committed.
    pub(super) fn note(
        &self,
        engine: &Engine,
        author: &Author,
        first: Option<&FirstTurn>,
        outcome: &Outcome,
    ) {
        if let Some(first) = first {
            engine.metrics.record_orchestration_start(
                &author.name,
                &self.version,
                first.initiated_by,
            );
            if author.execution_id == duroxide_core::INITIAL_EXECUTION_ID {
                engine.metrics.increment_active_orchestrations();
            }
            tracing::debug!(
                target: "duroxide::runtime",
                instance_id = %author.instance, execution_id = author.execution_id,
                orchestration_name = %author.name, orchestration_version = %self.version,
                worker_id = %self.worker_id,
                is_continue_as_new = first.initiated_by == "continueAsNew",
                "Orchestration started"
            );
        }
        let status = match outcome {
            Outcome::Waiting => return,
            Outcome::Completed { .. } => {
                self.log_end(author, "Orchestration completed");
                "success"
            }
            Outcome::ContinuedAsNew { .. } => {
                self.log_end(author, "Orchestration continued as new");
                engine.metrics.record_continue_as_new(&author.name);
                "continuedAsNew"
            }
            Outcome::Failed { details } => {
                self.log_failure(author, details);
                engine
                    .metrics
                    .record_orchestration_failure(&author.name, &self.version, details);
                match details {
                    ErrorDetails::Application {
                        kind: AppErrorKind::Cancelled { .. },
                        ..
                    } => "cancelled",
                    ErrorDetails::Poison { .. } => "poison",
                    _ => "failed",
                }
            }
        };
        if status != "continuedAsNew" {
            engine.metrics.decrement_active_orchestrations();
        }
        let lived_ms = engine.clock.now_ms().saturating_sub(self.started_at_ms);
        engine.metrics.record_orchestration_completion(
            &author.name,
            &self.version,
            status,
            lived_ms as f64 / 1_000.0,
            self.turns,
            self.history_events,
        );
    }

    fn log_end(&self, author: &Author, message: &str) {
        tracing::debug!(
            target: "duroxide::runtime",
            instance_id = %author.instance, execution_id = author.execution_id,
            orchestration_name = %author.name, orchestration_version = %self.version,
            worker_id = %self.worker_id, history_events = self.history_events,
            "{message}"
        );
    }

    fn log_failure(&self, author: &Author, details: &ErrorDetails) {
        macro_rules! line {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    target: "duroxide::runtime",
                    instance_id = %author.instance, execution_id = author.execution_id,
                    orchestration_name = %author.name, orchestration_version = %self.version,
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
