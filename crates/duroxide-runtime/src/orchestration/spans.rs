//! Spans of turns and executions, once they are committed. In: the execution in its trace and what the turn wrote. Out:
//! spans for the sink of the runtime, if it has one.

use duroxide_core::clock::Clock;
use duroxide_core::provider::Incarnation;
use duroxide_core::replay::{Execution, Outcome, trace_of_execution};
use duroxide_core::{Event, StartExtras, TraceContext};

use super::plan::ExecutionRef;
use crate::engine::Engine;
use crate::observability::{FinishedSpan, SpanOf};

/// An execution in its trace.
pub(super) struct Placed {
    context: TraceContext,
    parent_span_id: Option<u64>,
    started_ms: u64,
}

impl Placed {
    pub(super) fn of(execution: &Execution) -> Option<Self> {
        let context = execution.trace_context()?;
        let given = execution.extras();
        Some(Self::within(given, context, execution.started_at_ms()))
    }

    /// The execution that begins with this event.
    pub(super) fn of_first(first: &Event) -> Option<Self> {
        let context = trace_of_execution(first)?;
        let given = StartExtras::recorded_in(&first.kind);
        Some(Self::within(given, context, first.timestamp_ms))
    }

    fn within(given: StartExtras, context: TraceContext, started_ms: u64) -> Self {
        let starter = given.trace.filter(|_| !given.begins_trace);
        Self {
            context,
            parent_span_id: starter.map(|starter| starter.span_id()),
            started_ms,
        }
    }
}

/// The spans that a turn leaves if it is committed.
pub(super) struct TurnSpans {
    turn: FinishedSpan,
    /// That of the execution, if it ends with this turn.
    execution: Option<FinishedSpan>,
}

impl TurnSpans {
    /// `None` if the runtime has no sink for spans, or the instance belongs to no trace.
    pub(super) fn of(
        engine: &Engine,
        of: &ExecutionRef,
        placed: impl FnOnce() -> Option<Placed>,
        delta: &[Event],
        outcome: &Outcome,
    ) -> Option<Box<Self>> {
        engine.spans.as_ref()?;
        let Placed {
            context,
            parent_span_id,
            started_ms,
        } = placed()?;
        let begun = delta.first()?;
        let error = match outcome {
            Outcome::Failed { details } => Some(details.display_message()),
            Outcome::Waiting | Outcome::Completed { .. } | Outcome::ContinuedAsNew { .. } => None,
        };
        let event_id = begun.event_id;
        let turn = FinishedSpan {
            of: SpanOf::Turn,
            parent_span_id: Some(context.span_id()),
            context: context.within(&["turn", &event_id.to_string()]),
            name: of.name.clone(),
            instance_id: of.instance.clone(),
            execution_id: of.execution_id,
            event_id: Some(event_id),
            attempt: None,
            start_ms: begun.timestamp_ms,
            end_ms: begun.timestamp_ms,
            error: None,
        };
        let execution = (*outcome != Outcome::Waiting).then(|| FinishedSpan {
            of: SpanOf::Execution,
            parent_span_id,
            context,
            event_id: None,
            start_ms: started_ms,
            error,
            ..turn.clone()
        });
        Some(Box::new(Self { turn, execution }))
    }

    /// The turn is committed.
    pub(super) fn end(self, engine: &Engine) {
        let Some(sink) = &engine.spans else {
            return;
        };
        let end_ms = engine.clock.now_ms();
        for span in [Some(self.turn), self.execution].into_iter().flatten() {
            sink.ended(FinishedSpan {
                end_ms: end_ms.max(span.start_ms),
                ..span
            });
        }
    }
}

/// Begins a trace for an instance that was started without one, if the runtime has a sink for spans.
pub(super) fn begin_trace(
    engine: &Engine,
    instance: &str,
    incarnation: Option<Incarnation>,
    carried: &mut Vec<(String, String)>,
) {
    if engine.spans.is_some() {
        let incarnation = incarnation.map_or(0, Incarnation::to_stored).to_string();
        let now = engine.clock.now_ms().to_string();
        StartExtras::begin_trace(carried, &[instance, &incarnation, &now]);
    }
}
