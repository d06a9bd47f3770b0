//! Spans of what was committed: turns, activities, executions. In: what a commit or a stored result says. Out: one
//! finished span for the sink of the runtime. Never: a span of something that was not stored, so a replay or a second
//! attempt doubles none.

use std::fmt;

use duroxide_core::TraceContext;

/// What a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanOf {
    /// One execution of an instance, from its first turn to its end.
    Execution,
    /// One turn, from its claim to its commit.
    Turn,
    /// One activity: the attempt whose result was stored.
    Activity,
}

impl SpanOf {
    /// `orchestration`, `turn` or `activity`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Execution => "orchestration",
            Self::Turn => "turn",
            Self::Activity => "activity",
        }
    }
}

/// A span that has ended. Its ids follow from the history: the same thing has the same ids wherever and however often
/// it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedSpan {
    /// Subject of the span.
    pub of: SpanOf,
    /// Trace and span.
    pub context: TraceContext,
    /// The span that it is part of; `None` if the trace begins with it.
    pub parent_span_id: Option<u64>,
    /// The orchestration or the activity.
    pub name: String,
    /// The instance.
    pub instance_id: String,
    /// Its execution.
    pub execution_id: u64,
    /// For an activity its scheduling event, for a turn its first event.
    pub event_id: Option<u64>,
    /// For an activity, which attempt gave the result.
    pub attempt: Option<u32>,
    /// Time at which it began, in milliseconds since the Unix epoch.
    pub start_ms: u64,
    /// Time at which it ended, in milliseconds since the Unix epoch.
    pub end_ms: u64,
    /// Reason of the failure, if it failed.
    pub error: Option<String>,
}

/// Takes the spans of a runtime. Called right after a commit, on the thread that made it: it must neither block nor
/// panic.
///
/// ```
/// use duroxide::runtime::observability::{FinishedSpan, SpanSink};
///
/// #[derive(Debug)]
/// struct Log;
///
/// impl SpanSink for Log {
///     fn ended(&self, span: FinishedSpan) {
///         println!("{} {} took {} ms", span.of.as_str(), span.name, span.end_ms - span.start_ms);
///     }
/// }
/// ```
pub trait SpanSink: fmt::Debug + Send + Sync {
    /// A span has ended and is stored.
    fn ended(&self, span: FinishedSpan);

    /// A runtime shuts down: what is kept back should go out. May block; more spans may come, from other runtimes.
    fn flush(&self) {}
}
