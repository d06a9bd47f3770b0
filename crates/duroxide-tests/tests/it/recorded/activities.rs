//! Activities: plain, typed, failing, repeated, limited, on a session, with a tag.

use duroxide::{
    ActivityOptions, BackoffStrategy, OrchestrationContext, OrchestrationRegistryBuilder,
    RetryPolicy,
};

use super::{Case, HOUR, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("activity_plain", "hello"),
    case("activity_typed", "20"),
    case("activity_failure_handled", "x"),
    case("activity_panic_handled", "x"),
    case("activity_failure_returned", "x"),
    case("activity_retry_with_backoff", ""),
    case("activity_retry_with_timeout", ""),
    case("activity_session_and_tag", "job"),
    case("activity_start_timeout", ""),
    case("activity_total_timeout", ""),
    case("activity_poison_surfaced", ""),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("activity_plain", plain)
        .register_typed("activity_typed", typed)
        .register("activity_failure_handled", failure_handled)
        .register("activity_panic_handled", panic_handled)
        .register("activity_failure_returned", failure_returned)
        .register("activity_retry_with_backoff", retry_with_backoff)
        .register("activity_retry_with_timeout", retry_with_timeout)
        .register("activity_session_and_tag", session_and_tag)
        .register("activity_start_timeout", start_timeout)
        .register("activity_total_timeout", total_timeout)
        .register("activity_poison_surfaced", poison_surfaced)
}

async fn plain(ctx: OrchestrationContext, input: String) -> Outcome {
    let once = ctx.schedule_activity("echo", input).await?;
    ctx.schedule_activity("echo", format!("{once}, {once}"))
        .await
}

async fn typed(ctx: OrchestrationContext, input: i64) -> Result<i64, String> {
    let sum: i64 = ctx.schedule_activity_typed("add", &(input, 1)).await?;
    ctx.schedule_activity_typed("add", &(sum, sum)).await
}

async fn failure_handled(ctx: OrchestrationContext, input: String) -> Outcome {
    match ctx.schedule_activity("refuse", input).await {
        Ok(answer) => Err(format!("it answered {answer}")),
        Err(error) => ctx.schedule_activity("echo", error).await,
    }
}

async fn panic_handled(ctx: OrchestrationContext, input: String) -> Outcome {
    let error = ctx.schedule_activity("crash", input).await;
    Ok(error.expect_err("it panics for any input"))
}

async fn failure_returned(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.schedule_activity("refuse", input).await
}

async fn retry_with_backoff(ctx: OrchestrationContext, _: String) -> Outcome {
    let policy = RetryPolicy::new(5).with_backoff(BackoffStrategy::Fixed { delay: SECOND });
    ctx.schedule_activity_with_retry("third_time", "", policy)
        .await
}

async fn retry_with_timeout(ctx: OrchestrationContext, _: String) -> Outcome {
    let policy = RetryPolicy::new(3).with_timeout(SECOND);
    let error = ctx.schedule_activity_with_retry("hold", "", policy).await;
    Ok(error.expect_err("it answers only when it is cancelled"))
}

async fn session_and_tag(ctx: OrchestrationContext, input: String) -> Outcome {
    let on_session = ctx.schedule_activity_on_session("whereabouts", input.as_str(), "desk 7");
    let one = on_session.await?;
    let tagged = ctx
        .schedule_activity("whereabouts", input.as_str())
        .with_tag("gpu");
    let two = tagged.await?;
    let options = ActivityOptions::new()
        .with_tag("gpu")
        .on_session("desk 8")
        .with_start_timeout(HOUR);
    let three = ctx
        .schedule_activity_with_options("whereabouts", input, options)
        .await?;
    Ok([one, two, three].join("; "))
}

async fn start_timeout(ctx: OrchestrationContext, _: String) -> Outcome {
    let options = ActivityOptions::new()
        .with_tag("nobody")
        .with_start_timeout(SECOND);
    let error = ctx
        .schedule_activity_with_options("echo", "", options)
        .await;
    Ok(error.expect_err("no worker takes this tag"))
}

async fn total_timeout(ctx: OrchestrationContext, _: String) -> Outcome {
    let options = ActivityOptions::new().with_total_timeout(SECOND * 5);
    let policy = RetryPolicy::new(100).with_backoff(BackoffStrategy::Fixed { delay: SECOND * 2 });
    let error = ctx
        .schedule_activity_with_retry_options("refuse", "again", policy, options)
        .await;
    Ok(error.expect_err("it always refuses"))
}

async fn poison_surfaced(ctx: OrchestrationContext, _: String) -> Outcome {
    let unknown = ctx
        .schedule_activity("not registered", "")
        .surface_system_failures();
    let error = unknown.await;
    Ok(error.expect_err("nobody has registered it"))
}
