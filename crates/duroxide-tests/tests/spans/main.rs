//! Spans of what was committed, as an exporter of OpenTelemetry gets them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::prelude::*;
use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::observability::OpenTelemetrySpans;
use duroxide::{AppBuilder, TraceContext};
use opentelemetry::trace::{SpanId, Status, TraceId};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, InMemorySpanExporter, SimpleSpanProcessor, SpanData,
};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[duroxide::activity]
async fn pay(ctx: ActivityContext, cents: u64) -> Result<String, String> {
    match cents {
        0 => Err("nothing to pay".to_owned()),
        _ => Ok(ctx.trace_context().unwrap().traceparent()),
    }
}

#[duroxide::orchestration]
async fn bill(ctx: OrchestrationContext, cents: u64) -> Result<String, String> {
    Ok(ctx.call(pay, cents).await?)
}

/// Two executions, with a child in the second.
#[duroxide::orchestration]
async fn order(ctx: OrchestrationContext, round: u64) -> Result<String, String> {
    match round {
        1 => ctx.continue_with(order, 2).await,
        _ => Ok(ctx.child(bill, 7).id("bill").await?),
    }
}

async fn app(store: &Arc<MemoryProvider>, exporter: &InMemorySpanExporter) -> duroxide::App {
    let resource = Resource::builder_empty().with_service_name("shop").build();
    let processor = SimpleSpanProcessor::new(exporter.clone());
    AppBuilder::on(store.clone())
        .register(pay)
        .register(bill)
        .register(order)
        .spans(OpenTelemetrySpans::new(processor, &resource))
        .start()
        .await
        .unwrap()
}

/// By id; a span that is exported twice fails the test.
fn spans(exporter: &InMemorySpanExporter) -> HashMap<SpanId, SpanData> {
    let mut spans = HashMap::new();
    for span in exporter.get_finished_spans().unwrap() {
        let id = span.span_context.span_id();
        let before = spans.insert(id, span);
        assert!(before.is_none(), "exported twice: {before:?}");
    }
    spans
}

fn named<'a>(spans: &'a HashMap<SpanId, SpanData>, name: &str) -> Vec<&'a SpanData> {
    spans.values().filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn one_trace_holds_what_an_instance_and_its_children_did() {
    let (store, exporter) = (
        Arc::new(MemoryProvider::new()),
        InMemorySpanExporter::default(),
    );
    let app = app(&store, &exporter).await;
    let trace = TraceContext::parse(TRACEPARENT, Some("vendor=7")).unwrap();
    let start = app.client().start(order, 1).id("order-7");
    let order = start.trace_context(trace).await.unwrap();
    let seen = order.result().await.unwrap();
    app.shutdown().await;
    let spans = spans(&exporter);
    for span in spans.values() {
        let trace = TraceId::from(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(span.span_context.trace_id(), trace, "{span:?}");
        assert_eq!(span.span_context.trace_state().header(), "vendor=7");
        assert!(span.end_time >= span.start_time);
        assert_eq!(span.status, Status::Unset);
    }
    // Both executions follow from the starter.
    let starter = SpanId::from(0x00f0_67aa_0ba9_02b7);
    let executions = named(&spans, "orchestration order");
    assert_eq!(executions.len(), 2);
    assert!(executions.iter().all(|one| one.parent_span_id == starter));
    // The child is part of the second, its activity part of the child.
    let child = named(&spans, "orchestration bill")[0];
    let parent = &spans[&child.parent_span_id];
    assert_eq!(parent.name, "orchestration order");
    let activity = named(&spans, "activity pay")[0];
    assert_eq!(activity.parent_span_id, child.span_context.span_id());
    let own = TraceContext::parse(&seen, None).unwrap();
    assert_eq!(SpanId::from(own.span_id()), activity.span_context.span_id());
    // Turns are parts of executions: one and two of the order, two of the bill.
    for turn in named(&spans, "turn order") {
        assert!(
            spans[&turn.parent_span_id]
                .name
                .starts_with("orchestration")
        );
    }
    assert_eq!(named(&spans, "turn bill").len(), 2);
}

#[tokio::test]
async fn an_instance_that_was_started_without_a_trace_begins_one() {
    let (store, exporter) = (
        Arc::new(MemoryProvider::new()),
        InMemorySpanExporter::default(),
    );
    let app = app(&store, &exporter).await;
    for id in ["one", "other"] {
        let bill = app.client().start(bill, 0).id(id).await.unwrap();
        bill.result().await.unwrap_err();
    }
    app.shutdown().await;
    let spans = spans(&exporter);
    let roots = named(&spans, "orchestration bill");
    assert_eq!(roots.len(), 2);
    let traces = [0, 1].map(|at| roots[at].span_context.trace_id());
    assert_ne!(traces[0], traces[1]);
    for root in roots {
        assert_eq!(root.parent_span_id, SpanId::INVALID);
        assert_eq!(root.status, Status::error("nothing to pay"));
    }
    for activity in named(&spans, "activity pay") {
        assert_eq!(activity.status, Status::error("nothing to pay"));
    }
}

#[tokio::test]
async fn a_shutdown_exports_what_a_batch_kept_back() {
    let (store, exporter) = (
        Arc::new(MemoryProvider::new()),
        InMemorySpanExporter::default(),
    );
    let hour = std::time::Duration::from_secs(3600);
    let batches = BatchConfigBuilder::default()
        .with_scheduled_delay(hour)
        .build();
    let processor = BatchSpanProcessor::builder(exporter.clone())
        .with_batch_config(batches)
        .build();
    let resource = Resource::builder_empty().build();
    let app = AppBuilder::on(store)
        .register(pay)
        .register(bill)
        .spans(OpenTelemetrySpans::new(processor, &resource))
        .start()
        .await
        .unwrap();
    let bill = app.client().start(bill, 7).await.unwrap();
    bill.result().await.unwrap();
    app.shutdown().await;
    assert_eq!(named(&spans(&exporter), "orchestration bill").len(), 1);
}

#[tokio::test]
async fn a_trace_that_is_not_sampled_is_not_exported() {
    let (store, exporter) = (
        Arc::new(MemoryProvider::new()),
        InMemorySpanExporter::default(),
    );
    let app = app(&store, &exporter).await;
    let unsampled = TRACEPARENT.replace("-01", "-00");
    let trace = TraceContext::parse(&unsampled, None).unwrap();
    let start = app.client().start(bill, 7).trace_context(trace);
    let seen = start.await.unwrap().result().await.unwrap();
    assert!(seen.ends_with("-00"), "it is kept all the same: {seen}");
    app.shutdown().await;
    assert!(spans(&exporter).is_empty());
}

#[tokio::test]
async fn what_runs_in_another_process_later_goes_on_in_the_same_trace() {
    #[duroxide::orchestration]
    async fn waits(ctx: OrchestrationContext) -> Result<String, String> {
        ctx.call(pay, 1).await?;
        ctx.receive::<String>("go").await?;
        Ok(ctx.call(pay, 2).await?)
    }
    let store = Arc::new(MemoryProvider::new());
    let exporter = InMemorySpanExporter::default();
    let mut spans_of_runs = Vec::new();
    for run in 0..2 {
        let resource = Resource::builder_empty().build();
        let processor = SimpleSpanProcessor::new(exporter.clone());
        let app = AppBuilder::on(store.clone())
            .register(pay)
            .register(waits)
            .spans(OpenTelemetrySpans::new(processor, &resource))
            .start()
            .await
            .unwrap();
        let handle = app.client().handle(waits, "slow");
        if run == 0 {
            app.client().start(waits, ()).id("slow").await.unwrap();
            let client = app.client();
            // The second turn, which asks for the message, is committed.
            loop {
                let why = client.explain("slow").await.unwrap().to_string();
                if why.contains("go") {
                    break;
                }
                tokio::task::yield_now().await;
            }
        } else {
            handle.send("go", "on").await.unwrap();
            handle.result().await.unwrap();
        }
        app.shutdown().await;
        spans_of_runs.push(spans(&exporter));
    }
    let (before, after) = (&spans_of_runs[0], &spans_of_runs[1]);
    assert!(before.len() < after.len());
    assert_eq!(named(after, "orchestration waits").len(), 1);
    assert_eq!(named(after, "activity pay").len(), 2);
    let trace = |span: &SpanData| span.span_context.trace_id();
    let first = after.values().next().map(trace);
    assert!(after.values().all(|span| Some(trace(span)) == first));
}
