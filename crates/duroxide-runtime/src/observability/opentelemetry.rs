//! Spans for OpenTelemetry. In: finished spans of the runtime. Out: the same for a span processor of the SDK, and so
//! for any exporter.
//!
//! A tracer of the SDK draws ids by itself; these spans bring theirs along, so they go to a processor directly. Whether
//! a trace is recorded was decided where the trace began: spans of a trace that is not sampled are not handed on.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks, SpanProcessor};

use super::spans::{FinishedSpan, SpanOf, SpanSink};

/// Hands the spans of a runtime to a span processor of the OpenTelemetry SDK, which exports them.
///
/// ```
/// use duroxide::runtime::observability::OpenTelemetrySpans;
/// use opentelemetry_sdk::Resource;
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SimpleSpanProcessor};
///
/// // Here an exporter for OTLP would stand, behind a `BatchSpanProcessor`.
/// let exporter = InMemorySpanExporter::default();
/// let resource = Resource::builder().with_service_name("shop").build();
/// let spans = OpenTelemetrySpans::new(SimpleSpanProcessor::new(exporter), &resource);
/// # drop(spans);
/// ```
#[derive(Debug)]
pub struct OpenTelemetrySpans {
    processor: Box<dyn SpanProcessor>,
    scope: InstrumentationScope,
}

impl OpenTelemetrySpans {
    /// Hands spans to this processor, as those of this resource.
    pub fn new(mut processor: impl SpanProcessor + 'static, resource: &Resource) -> Self {
        processor.set_resource(resource);
        let scope = InstrumentationScope::builder("duroxide");
        Self {
            processor: Box::new(processor),
            scope: scope.with_version(env!("CARGO_PKG_VERSION")).build(),
        }
    }

    fn data(&self, span: FinishedSpan) -> SpanData {
        let mut attributes = vec![
            KeyValue::new("duroxide.instance_id", span.instance_id),
            KeyValue::new("duroxide.execution_id", number(span.execution_id)),
        ];
        if let Some(event_id) = span.event_id {
            attributes.push(KeyValue::new("duroxide.event_id", number(event_id)));
        }
        if let Some(attempt) = span.attempt {
            attributes.push(KeyValue::new("duroxide.attempt", i64::from(attempt)));
        }
        let state = span.context.tracestate();
        let state = state.and_then(|state| state.parse::<TraceState>().ok());
        SpanData {
            span_context: SpanContext::new(
                TraceId::from(span.context.trace_id()),
                SpanId::from(span.context.span_id()),
                TraceFlags::SAMPLED,
                false,
                state.unwrap_or_default(),
            ),
            parent_span_id: span.parent_span_id.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: span.of == SpanOf::Execution && span.parent_span_id.is_some(),
            span_kind: match span.of {
                SpanOf::Activity => SpanKind::Consumer,
                SpanOf::Execution | SpanOf::Turn => SpanKind::Internal,
            },
            name: Cow::Owned(format!("{} {}", span.of.as_str(), span.name)),
            start_time: time(span.start_ms),
            end_time: time(span.end_ms.max(span.start_ms)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

impl SpanSink for OpenTelemetrySpans {
    fn ended(&self, span: FinishedSpan) {
        if span.context.is_sampled() {
            self.processor.on_end(self.data(span));
        }
    }

    fn flush(&self) {
        if let Err(error) = self.processor.force_flush() {
            tracing::warn!(target: "duroxide::runtime", %error, "spans could not be exported");
        }
    }
}

impl Drop for OpenTelemetrySpans {
    fn drop(&mut self) {
        // A batch that is not full yet would be lost with its processor.
        self.flush();
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn time(ms: u64) -> SystemTime {
    let since = Duration::from_millis(ms);
    SystemTime::UNIX_EPOCH
        .checked_add(since)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
