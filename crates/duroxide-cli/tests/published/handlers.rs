//! Orchestrations that can be stopped in every state. This file is compiled twice: against the published crate, which
//! begins the instances, and against ours, which goes on with them.

use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

type Outcome = Result<String, String>;

/// `holds` says whether the activity `hold` never answers.
pub(crate) fn activities(holds: bool) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("echo", |_: ActivityContext, input: String| async move {
            Ok(input)
        })
        .register("refuse", |_: ActivityContext, _: String| async move {
            Err::<String, String>("refused".to_owned())
        })
        .register(
            "hold",
            move |_: ActivityContext, input: String| async move {
                if holds {
                    std::future::pending::<()>().await;
                }
                Ok(format!("held {input}"))
            },
        )
        .build()
}

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("echoes", echoes)
        .register("refuses", refuses)
        .register("holds", holds)
        .register("sleeps", sleeps)
        .register("asks", asks)
        .register("reads", reads)
        .register("counts", counts)
        .register("raises", raises)
        .register("serves", serves)
        .build()
}

async fn echoes(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.schedule_activity("echo", input).await
}

async fn refuses(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.schedule_activity("refuse", input).await
}

async fn holds(ctx: OrchestrationContext, input: String) -> Outcome {
    let first = ctx.schedule_activity("echo", input).await?;
    ctx.schedule_activity("hold", first).await
}

async fn sleeps(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.schedule_timer(Duration::from_secs(20)).await;
    Ok(input)
}

async fn asks(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.set_custom_status("asked");
    let answer = ctx.schedule_wait("answer").await;
    Ok(format!("{input} {answer}"))
}

async fn reads(ctx: OrchestrationContext, _: String) -> Outcome {
    let first = ctx.dequeue_event("letters").await;
    let second = ctx.dequeue_event("letters").await;
    Ok(format!("{first}, {second}"))
}

/// Continues as new twice, then waits; the key-values of all three executions are the result.
async fn counts(ctx: OrchestrationContext, input: String) -> Outcome {
    let round: u32 = input.parse().map_err(|_| "a number".to_owned())?;
    ctx.set_kv_value(format!("round-{round}"), "seen");
    if round < 3 {
        return ctx.continue_as_new((round + 1).to_string()).await;
    }
    let answer = ctx.schedule_wait("answer").await;
    let mut keys = ctx.get_kv_all_keys();
    keys.sort();
    Ok(format!("{} {answer}", keys.join(" ")))
}

/// Two activities of one session, of which the second one is held.
async fn serves(ctx: OrchestrationContext, input: String) -> Outcome {
    let first = ctx
        .schedule_activity_on_session("echo", input, "desk")
        .await?;
    ctx.schedule_activity_on_session("hold", first, "desk")
        .await
}

async fn raises(ctx: OrchestrationContext, input: String) -> Outcome {
    let child = ctx.schedule_sub_orchestration("asks", input).await?;
    Ok(format!("child said {child}"))
}
