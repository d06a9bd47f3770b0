//! The orchestrations that the cases run.

use std::time::Duration;

use duroxide_core::{Either2, OrchestrationContext};
use duroxide_runtime::OrchestrationRegistry;

use crate::ProviderFactory;

const NEVER_REACHED: Duration = Duration::from_secs(600);

type Answer = Result<String, String>;

/// Waits for `go`, then tells its version and input.
async fn pinned(ctx: OrchestrationContext, input: String) -> Answer {
    ctx.schedule_wait("go").await;
    Ok(format!("{}:{input}", ctx.orchestration_version()))
}

pub(super) fn two_versions() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_versioned("Pinned", "1.0.0", pinned)
        .register_versioned("Pinned", "2.0.0", pinned)
        .register("Other", |_, _: String| async { Ok("other".to_owned()) })
        .build()
}

/// Version 1 waits for `go` and continues as version 2, which this program may not have.
async fn first_link(ctx: OrchestrationContext, _input: String) -> Answer {
    ctx.schedule_wait("go").await;
    ctx.continue_as_new_versioned("2.0.0", "linked").await
}

/// Reads two messages.
async fn second_link(ctx: OrchestrationContext, _input: String) -> Answer {
    let one = ctx.dequeue_event("inbox").await;
    let two = ctx.dequeue_event("inbox").await;
    Ok(format!("{one},{two}"))
}

pub(super) fn first_link_only() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_versioned("Chain", "1.0.0", first_link)
        .build()
}

pub(super) fn both_links() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_versioned("Chain", "1.0.0", first_link)
        .register_versioned("Chain", "2.0.0", second_link)
        .build()
}

/// Ends with its input; its parent tells what came of a child with an id that is taken.
pub(super) fn colliding() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("TestOrch", |_, input: String| async { Ok(input) })
        .register(
            "Parent",
            |ctx: OrchestrationContext, taken: String| async move {
                match ctx
                    .schedule_sub_orchestration_with_id("TestOrch", taken, "child")
                    .await
                {
                    Ok(output) => Ok(format!("unexpected: {output}")),
                    Err(error) => Ok(error),
                }
            },
        )
        .build()
}

/// What the second execution does with what arrived before it.
pub(super) fn successors() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "TestOrch",
            |ctx: OrchestrationContext, shape: String| async move {
                match shape.as_str() {
                    "queue" => {
                        let one = ctx.dequeue_event("inbox").await;
                        let two = ctx.dequeue_event("inbox").await;
                        Ok(format!("{one},{two}"))
                    }
                    "race" => {
                        let one = next_or_timeout(&ctx, NEVER_REACHED).await;
                        let two = next_or_timeout(&ctx, NEVER_REACHED).await;
                        Ok(format!("{one},{two}"))
                    }
                    "mixed-stale" => Ok(ctx.dequeue_event("inbox").await),
                    "signal" => Ok(ctx.schedule_wait("go").await),
                    "cancel" => {
                        ctx.schedule_timer(NEVER_REACHED).await;
                        Ok("not cancelled".to_owned())
                    }
                    "future-completion" => ctx.schedule_activity("Echo", "real").await,
                    _ => Ok("fresh".to_owned()),
                }
            },
        )
        .build()
}

async fn next_or_timeout(ctx: &OrchestrationContext, patience: Duration) -> String {
    let message = ctx.dequeue_event("inbox");
    match ctx.select2(message, ctx.schedule_timer(patience)).await {
        Either2::First(message) => message,
        Either2::Second(()) => "timeout".to_owned(),
    }
}

async fn signal_or_timeout(ctx: &OrchestrationContext, patience: Duration) -> String {
    let signal = ctx.schedule_wait("step");
    match ctx.select2(signal, ctx.schedule_timer(patience)).await {
        Either2::First(data) => data,
        Either2::Second(()) => "timeout".to_owned(),
    }
}

/// A timer that fires while a case waits for it, and not before the turn that set it is stored.
fn short<F: ProviderFactory + ?Sized>(factory: &F) -> Duration {
    factory.wake_latency() * 2
}

/// Orchestrations that race, and then wait for `end` so that their history can be taken elsewhere.
pub(super) fn racing<F: ProviderFactory + ?Sized>(factory: &F) -> OrchestrationRegistry {
    let short = short(factory);
    OrchestrationRegistry::builder()
        .register(
            "MessageWins",
            |ctx: OrchestrationContext, _: String| async move {
                let one = next_or_timeout(&ctx, NEVER_REACHED).await;
                let two = next_or_timeout(&ctx, NEVER_REACHED).await;
                ctx.schedule_wait("end").await;
                Ok(format!("{one},{two}"))
            },
        )
        .register(
            "TimerWins",
            move |ctx: OrchestrationContext, _: String| async move {
                let one = next_or_timeout(&ctx, short).await;
                let two = next_or_timeout(&ctx, NEVER_REACHED).await;
                ctx.schedule_wait("end").await;
                Ok(format!("{one},{two}"))
            },
        )
        .register(
            "MessageHeld",
            move |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_wait("begin").await;
                let one = next_or_timeout(&ctx, NEVER_REACHED).await;
                let two = next_or_timeout(&ctx, short).await;
                ctx.schedule_wait("end").await;
                Ok(format!("{one},{two}"))
            },
        )
        .register("Steps", |ctx: OrchestrationContext, _: String| async move {
            let one = signal_or_timeout(&ctx, NEVER_REACHED).await;
            let two = signal_or_timeout(&ctx, NEVER_REACHED).await;
            ctx.schedule_wait("end").await;
            Ok(format!("{one},{two}"))
        })
        .build()
}

/// Reads one message of three, loses a race, continues, and reads the rest.
pub(super) fn carrying<F: ProviderFactory + ?Sized>(factory: &F) -> OrchestrationRegistry {
    let short = short(factory);
    OrchestrationRegistry::builder()
        .register(
            "TestOrch",
            move |ctx: OrchestrationContext, input: String| async move {
                if input == "rest" {
                    let two = ctx.dequeue_event("inbox").await;
                    let three = ctx.dequeue_event("inbox").await;
                    let other = ctx.dequeue_event("other").await;
                    return Ok(format!("{two},{three},{other}"));
                }
                let _unread = ctx.dequeue_event("inbox").await;
                let nothing = ctx.dequeue_event("nothing");
                ctx.select2(nothing, ctx.schedule_timer(short)).await;
                ctx.schedule_wait("go").await;
                ctx.continue_as_new("rest").await
            },
        )
        .build()
}
