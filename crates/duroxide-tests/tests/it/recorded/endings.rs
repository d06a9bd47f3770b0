//! The ways an execution ends: continued, cancelled, failed, and on which version.

use duroxide::{Either2, OrchestrationContext, OrchestrationRegistryBuilder};

use super::Step::{Cancel, Pass, Post, Terminate};
use super::{Case, HOUR, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("continue_as_new", "3"),
    case("continue_as_new_carries", "first").steps(&[
        Pass(SECOND),
        Post("inbox", "1"),
        Post("inbox", "2"),
        Post("inbox", "3"),
    ]),
    case("continue_as_new_leaves_nothing_open", "first"),
    case("upgrade_at_continue_as_new", "").version("1.0.0"),
    case("upgrade_pins_what_runs", "").version("1.0.0"),
    case("cancelled", "").steps(&[Pass(SECOND), Cancel("enough")]),
    case("cancelled_and_compensated", "").steps(&[Pass(SECOND), Cancel("enough")]),
    case("cancelled_twice", "").steps(&[
        Pass(SECOND),
        Cancel("enough"),
        Pass(SECOND),
        Cancel("enough, I said"),
        Pass(SECOND),
        Terminate("at once"),
    ]),
    case("failed_by_error", "bad input"),
    case("failed_by_panic", "bad input"),
    case("failed_by_limit", ""),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("continue_as_new", continue_as_new)
        .register("continue_as_new_carries", carries)
        .register("continue_as_new_leaves_nothing_open", leaves_nothing_open)
        .register_versioned("upgrade_at_continue_as_new", "1.0.0", upgrade_v1)
        .register_versioned("upgrade_at_continue_as_new", "2.0.0", upgrade_v2)
        .register_versioned("upgrade_pins_what_runs", "1.0.0", pinned_v1)
        .register_versioned("upgrade_pins_what_runs", "2.0.0", |_, _| async {
            Err("it began on 1.0.0".to_owned())
        })
        .register("cancelled", cancelled)
        .register("cancelled_and_compensated", compensated)
        .register("cancelled_twice", cancelled_twice)
        .register("failed_by_error", |_, input: String| async move {
            Err(format!("refused: {input}"))
        })
        .register("failed_by_panic", failed_by_panic)
        .register("failed_by_limit", failed_by_limit)
}

async fn continue_as_new(ctx: OrchestrationContext, input: String) -> Outcome {
    let left: u32 = input.parse().map_err(|_| format!("no number: {input}"))?;
    ctx.schedule_activity("echo", input).await?;
    if left == 0 {
        return Ok(format!("execution {}", ctx.execution_id()));
    }
    ctx.continue_as_new_typed(&(left - 1)).await
}

/// Unread messages, status and key-values cross into the next execution.
async fn carries(ctx: OrchestrationContext, input: String) -> Outcome {
    if input == "first" {
        ctx.set_custom_status("carried");
        ctx.set_kv_value("kept", "yes");
        let _read = ctx.dequeue_event("inbox").await;
        ctx.schedule_timer(SECOND).await;
        return ctx.continue_as_new("second").await;
    }
    let rest = [
        ctx.dequeue_event("inbox").await,
        ctx.dequeue_event("inbox").await,
    ];
    let (status, kept) = (ctx.get_custom_status(), ctx.get_kv_value("kept"));
    Ok(format!("{rest:?} {status:?} {kept:?}"))
}

/// What is open is cancelled, a detached start is sent all the same.
async fn leaves_nothing_open(ctx: OrchestrationContext, input: String) -> Outcome {
    if input != "first" {
        return Ok("clean".into());
    }
    let _held = ctx.schedule_activity("hold", "");
    let _wait = ctx.schedule_wait("go");
    let _message = ctx.dequeue_event("inbox");
    let _child = ctx.schedule_sub_orchestration("sleeper", "");
    ctx.schedule_timer(SECOND).await;
    ctx.schedule_orchestration("greet", "sent at the end", "you");
    ctx.continue_as_new("second").await
}

async fn upgrade_v1(ctx: OrchestrationContext, _: String) -> Outcome {
    let old = ctx.schedule_activity("echo", "from 1.0.0").await?;
    ctx.continue_as_new(old).await
}

async fn upgrade_v2(ctx: OrchestrationContext, input: String) -> Outcome {
    let new = ctx.schedule_activity("echo", "on 2.0.0").await?;
    let version = ctx.orchestration_version();
    Ok(format!("{input} {new} {version}"))
}

async fn pinned_v1(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_timer(SECOND).await;
    ctx.schedule_activity("echo", ctx.orchestration_version())
        .await
}

async fn cancelled(ctx: OrchestrationContext, _: String) -> Outcome {
    let _held = ctx.schedule_activity("hold", "");
    let _child = ctx.schedule_sub_orchestration("sleeper", "");
    let _message = ctx.dequeue_event("inbox");
    ctx.schedule_wait("go").await;
    Ok("not cancelled".into())
}

async fn compensated(ctx: OrchestrationContext, _: String) -> Outcome {
    let asked = ctx.cancellation_requested();
    let sleep = ctx.schedule_timer(HOUR);
    if ctx.select2(asked, sleep).await.is_first() {
        ctx.schedule_activity("echo", "undo").await?;
        return Ok("put right".into());
    }
    Ok("not cancelled".into())
}

async fn cancelled_twice(ctx: OrchestrationContext, _: String) -> Outcome {
    let asked = ctx.cancellation_requested();
    let sleep = ctx.schedule_timer(HOUR);
    if let Either2::First(reason) = ctx.select2(asked, sleep).await {
        ctx.set_custom_status(reason);
    }
    ctx.schedule_timer(HOUR).await;
    Ok("took its time".into())
}

async fn failed_by_panic(ctx: OrchestrationContext, input: String) -> Outcome {
    let _held = ctx.schedule_activity("hold", "");
    ctx.schedule_timer(SECOND).await;
    assert!(input.is_empty(), "cannot work with {input}");
    Ok(input)
}

async fn failed_by_limit(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_activity("echo", "").await?;
    ctx.set_kv_value("big", "x".repeat(70_000));
    Ok("never".into())
}
