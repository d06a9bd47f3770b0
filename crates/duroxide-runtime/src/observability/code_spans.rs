//! The spans in which the code of authors runs, so that every line that it logs, and every library it calls, says where
//! it belongs. In: what is known of a turn or an activity. Out: a span; one that costs nothing if no subscriber
//! listens.
//!
//! Fields are named as OpenTelemetry's conventions would: a namespace, dots between the parts. `traceparent` is left
//! empty for a W3C trace context.

use duroxide_core::provider::ScheduledActivityIdentifier;
use tracing::{Span, error_span, field};

/// The span of one turn. Its level is the highest, so that a filter that shows any line of the code shows where it
/// belongs.
pub(crate) fn turn(instance: &str, execution_id: u64, name: &str, attempt: u32) -> Span {
    error_span!(
        target: "duroxide::orchestration",
        "duroxide.turn",
        duroxide.instance.id = instance,
        duroxide.execution.id = execution_id,
        duroxide.orchestration.name = name,
        duroxide.attempt = attempt,
        traceparent = field::Empty,
    )
}

/// The span of one attempt of an activity.
pub(crate) fn activity(activity: &ScheduledActivityIdentifier, name: &str, attempt: u32) -> Span {
    error_span!(
        target: "duroxide::activity",
        "duroxide.activity",
        duroxide.instance.id = activity.instance.as_str(),
        duroxide.execution.id = activity.execution_id,
        duroxide.activity.name = name,
        duroxide.activity.id = activity.activity_id,
        duroxide.attempt = attempt,
        traceparent = field::Empty,
    )
}
