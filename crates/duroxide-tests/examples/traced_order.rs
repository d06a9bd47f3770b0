//! One trace from the web request to the last activity, exported with OpenTelemetry.
//!
//! The exporter here keeps the spans in memory and prints them as a tree; a service puts one for OTLP in its place,
//! behind a `BatchSpanProcessor`. Run it with `cargo run -p duroxide-tests --example traced_order`.

use std::error::Error;

use duroxide::TraceContext;
use duroxide::prelude::*;
use duroxide::runtime::observability::OpenTelemetrySpans;
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SimpleSpanProcessor, SpanData};

#[duroxide::activity]
async fn charge(ctx: ActivityContext, cents: u64) -> Result<u64, String> {
    // What a call to another service carries in its headers.
    let header = ctx.trace_context().map(TraceContext::traceparent);
    println!(
        "charging {cents} with traceparent {}",
        header.unwrap_or_default()
    );
    Ok(cents)
}

#[duroxide::orchestration]
async fn invoice(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
    Ok(ctx.call(charge, cents).await?)
}

#[duroxide::orchestration]
async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
    let now = ctx.child(invoice, cents / 2).await?;
    let later = ctx.child(invoice, cents - now).await?;
    Ok(now + later)
}

/// Prints the spans below one, the earliest first.
fn print(spans: &[SpanData], below: SpanId, depth: usize) {
    let mut children: Vec<_> = spans
        .iter()
        .filter(|span| span.parent_span_id == below)
        .collect();
    children.sort_by_key(|span| span.start_time);
    for span in children {
        println!("{}{}", "  ".repeat(depth), span.name);
        print(spans, span.span_context.span_id(), depth + 1);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let exporter = InMemorySpanExporter::default();
    let resource = Resource::builder().with_service_name("shop").build();
    let processor = SimpleSpanProcessor::new(exporter.clone());
    let app = Duroxide::open(format!(
        "sqlite:{}",
        folder.path().join("shop.db").display()
    ))
    .register(charge)
    .register(invoice)
    .register(order)
    .spans(OpenTelemetrySpans::new(processor, &resource))
    .start()
    .await?;

    // As it came with a request.
    let request = TraceContext::parse(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        None,
    )?;
    let start = app.client().start(order, 1_000).id("order-7");
    let order = start.trace_context(request.clone()).await?;
    println!("paid: {}", order.result().await?);
    app.shutdown().await;

    println!("request");
    let spans = exporter.get_finished_spans()?;
    print(&spans, SpanId::from(request.span_id()), 1);
    Ok(())
}
