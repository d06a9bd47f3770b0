//! What starts and calls carry beside their input: labels, a trace, a session, a limit on silence.

use duroxide::{
    ActivityError, ActivityRef, OrchestrationContext, OrchestrationRef,
    OrchestrationRegistryBuilder, Retry, TraceContext,
};

use super::{Beginning, Case, MINUTE, Outcome, SECOND, case};

const HOLD: ActivityRef<String, String> = ActivityRef::new("hold");
const REFUSE: ActivityRef<String, String> = ActivityRef::new("refuse");
const TRACEPARENT: ActivityRef<String, String> = ActivityRef::new("traceparent");
const WHEREABOUTS: ActivityRef<String, String> = ActivityRef::new("whereabouts");
pub(super) const LABELLED: OrchestrationRef<String, String> = OrchestrationRef::new("labelled");
const TRACED: OrchestrationRef<String, String> = OrchestrationRef::new("traced");

pub(super) const CASES: &[Case] = &[
    case("typed_labels", "x").begun(with_labels),
    case("typed_trace", "x").begun(in_a_trace),
    case("typed_session", "x"),
    case("typed_heartbeat_timeout", "x"),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("typed_labels", labels)
        .register("labelled", labelled)
        .register("typed_trace", trace)
        .register("traced", traced)
        .register("typed_session", session)
        .register("typed_heartbeat_timeout", heartbeat_timeout)
}

fn with_labels(start: Beginning) -> Beginning {
    start.label("customer", "acme").label("region", "eu")
}

fn in_a_trace(start: Beginning) -> Beginning {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::parse(header, Some("shop=7"));
    start.trace_context(trace.expect("the header is well formed"))
}

/// Has two executions: labels go with it into the second.
async fn labels(ctx: OrchestrationContext, input: String) -> Outcome {
    let number = ctx.execution_id();
    ctx.set_label("stage", "asked");
    let child = ctx
        .child(LABELLED, &input)
        .id(format!("child-{number}"))
        .label("asked-by", "typed_labels");
    let child = child.await?;
    ctx.spawn(LABELLED, &input)
        .id(format!("spawned-{number}"))
        .label("asked-by", "nobody");
    ctx.set_label("stage", format!("answered {number}"));
    ctx.remove_label("region");
    if number == 1 {
        return ctx.continue_as_new(child).await;
    }
    Ok(format!("{child}, {:?}", ctx.labels()))
}

async fn labelled(ctx: OrchestrationContext, input: String) -> Outcome {
    Ok(format!("{input} {:?}", ctx.labels()))
}

/// Has two executions: both belong to the trace.
async fn trace(ctx: OrchestrationContext, input: String) -> Outcome {
    let number = ctx.execution_id();
    let called = ctx.call(TRACEPARENT, &input).await?;
    let child = ctx.child(TRACED, &called).id(format!("traced-{number}"));
    let child = child.await?;
    ctx.spawn(TRACED, &input).id(format!("apart-{number}"));
    if number == 1 {
        return ctx.continue_as_new(child).await;
    }
    Ok(child)
}

async fn traced(ctx: OrchestrationContext, input: String) -> Outcome {
    let trace = ctx.trace_context().ok_or("it belongs to a trace")?;
    Ok(format!("{input} {}", trace.traceparent()))
}

async fn session(ctx: OrchestrationContext, input: String) -> Outcome {
    let first = ctx
        .call(WHEREABOUTS, &input)
        .session("s-7")
        .tag("gpu")
        .await?;
    let refused = ctx.call(REFUSE, &first).retry(Retry::fixed(2, SECOND));
    let refused = refused.session("s-7").await;
    Ok(format!("{first}, {refused:?}"))
}

async fn heartbeat_timeout(ctx: OrchestrationContext, input: String) -> Outcome {
    let held = ctx.call(HOLD, &input).heartbeat_timeout(SECOND);
    match held.retry(Retry::fixed(2, MINUTE)).await {
        Err(ActivityError::TimedOut { which }) => Ok(which.to_string()),
        other => Err(format!("{other:?}")),
    }
}
