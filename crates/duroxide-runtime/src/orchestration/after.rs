//! What follows a commit: log lines, counters, spans. In: what a turn decided, before it is written. Out: log lines,
//! metrics and spans once the store has it, or the counters as they were.

use duroxide_core::provider::TurnWrites;
use duroxide_core::replay::{Execution, Notes, Outcome, Turn};

use super::claim_in_hand::ClaimInHand;
use super::plan::ExecutionRef;
use super::spans::{Placed, TurnSpans};
use super::turn_log::{CountedEnd, StartedBy, TurnReport, count_notes, started_children};
use crate::engine::Engine;

/// What a turn came to besides its writes.
pub(super) struct TurnSummary {
    outcome: Outcome,
    notes: Notes,
}

impl TurnSummary {
    pub(super) fn take(turn: &mut Turn) -> Self {
        Self {
            outcome: turn.outcome.clone(),
            notes: std::mem::take(&mut turn.notes),
        }
    }

    /// Of a turn without code: only its end is counted.
    pub(super) fn forced(turn: &Turn) -> Self {
        Self {
            outcome: turn.outcome.clone(),
            notes: Notes::default(),
        }
    }
}

/// A turn on its way to the store, and what to say once it is there.
pub(super) struct AfterCommit<'a> {
    summary: TurnSummary,
    children: Vec<String>,
    spans: Option<Box<TurnSpans>>,
    report: TurnReport<'a>,
    counted: CountedEnd,
}

impl<'a> AfterCommit<'a> {
    /// Of a turn of the code.
    pub(super) fn begin(
        engine: &Engine,
        claim: &ClaimInHand<'a>,
        of: &ExecutionRef,
        execution: &Execution,
        writes: &TurnWrites,
        summary: TurnSummary,
    ) -> Self {
        let report = TurnReport {
            version: execution.version().to_owned(),
            started_at_ms: execution.started_at_ms(),
            history_events: execution.last_event_id(),
            turns: execution.turns(),
            worker_id: claim.worker_id,
        };
        let placed = || Placed::of(execution);
        Self::of(engine, of, report, placed, writes, summary)
    }

    /// Collects what the commit takes with it. Counts an end at once: the commit itself wakes a client that waits for
    /// the end, and that client may look at the counters.
    pub(super) fn of(
        engine: &Engine,
        of: &ExecutionRef,
        report: TurnReport<'a>,
        placed: impl FnOnce() -> Option<Placed>,
        writes: &TurnWrites,
        summary: TurnSummary,
    ) -> Self {
        let outcome = &summary.outcome;
        Self {
            children: started_children(writes),
            spans: TurnSpans::of(engine, of, placed, &writes.history, outcome),
            counted: report.count_end(engine, of, outcome),
            report,
            summary,
        }
    }

    /// Whether the execution goes on with a later turn.
    pub(super) fn waits(&self) -> bool {
        matches!(self.summary.outcome, Outcome::Waiting)
    }

    /// The turn is committed.
    pub(super) fn committed(self, engine: &Engine, of: &ExecutionRef, began: Option<StartedBy>) {
        engine.blocked.remove(&of.instance);
        self.report.note(engine, of, began, &self.summary.outcome);
        if let Some(spans) = self.spans {
            spans.end(engine);
        }
        count_notes(engine, of, &self.summary.notes);
        for child in &self.children {
            engine.metrics.record_suborchestration_call(&of.name, child);
        }
    }

    /// The turn is not committed.
    pub(super) fn take_back(self, engine: &Engine) {
        self.counted.take_back(engine);
    }
}
