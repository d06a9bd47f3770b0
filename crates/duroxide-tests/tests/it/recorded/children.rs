//! Children and detached orchestrations.

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

use super::Step::{Cancel, Pass};
use super::{Case, HOUR, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("child_plain_typed_and_named", "a"),
    case("child_versioned", "a"),
    case("child_failure_handled", ""),
    case("child_failure_ends_the_parent", ""),
    case("child_system_failure_surfaced", ""),
    case("child_dropped", ""),
    case("child_continues_as_new", ""),
    case("child_cancelled_with_its_parent", "").steps(&[Pass(SECOND), Cancel("no longer needed")]),
    case("detached_start", "a"),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("child_plain_typed_and_named", plain_typed_and_named)
        .register("child_versioned", versioned)
        .register("child_failure_handled", failure_handled)
        .register("child_failure_ends_the_parent", failure_ends_the_parent)
        .register("child_system_failure_surfaced", system_failure_surfaced)
        .register("child_dropped", dropped)
        .register("child_continues_as_new", continues)
        .register("child_cancelled_with_its_parent", cancelled_with_its_parent)
        .register("detached_start", detached)
        .register("greet", greet)
        .register_typed("double", double)
        .register_versioned("pick", "1.0.0", |_, _| async {
            Ok("picked 1.0.0".to_owned())
        })
        .register_versioned("pick", "1.1.0", |_, _| async {
            Ok("picked 1.1.0".to_owned())
        })
        .register("give_up", |_, input: String| async move {
            Err(format!("gave up: {input}"))
        })
        .register(
            "sleeper",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_timer(HOUR).await;
                Ok("awake".to_owned())
            },
        )
        .register("countdown", countdown)
        .register("lost", |_, _| std::future::pending::<Outcome>())
}

async fn greet(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.schedule_activity("echo", format!("hello {input}"))
        .await
}

async fn double(ctx: OrchestrationContext, n: i64) -> Result<i64, String> {
    ctx.schedule_activity_typed("add", &(n, n)).await
}

async fn countdown(ctx: OrchestrationContext, input: String) -> Outcome {
    match input.parse::<u32>() {
        Ok(n) if n > 0 => ctx.continue_as_new((n - 1).to_string()).await,
        _ => Ok(format!("execution {}", ctx.execution_id())),
    }
}

async fn plain_typed_and_named(ctx: OrchestrationContext, input: String) -> Outcome {
    let plain = ctx
        .schedule_sub_orchestration("greet", input.as_str())
        .await?;
    let typed: i64 = ctx.schedule_sub_orchestration_typed("double", &21).await?;
    let named = ctx.schedule_sub_orchestration_with_id("greet", "its own child", input);
    Ok(format!("{plain}, {typed}, {}", named.await?))
}

async fn versioned(ctx: OrchestrationContext, input: String) -> Outcome {
    let exact = Some("1.0.0".to_owned());
    let old = ctx.schedule_sub_orchestration_versioned("pick", exact, input.as_str());
    let old = old.await?;
    let new = ctx.schedule_sub_orchestration("pick", input).await?;
    Ok(format!("{old}, {new}"))
}

async fn failure_handled(ctx: OrchestrationContext, _: String) -> Outcome {
    let error = ctx.schedule_sub_orchestration("give_up", "early").await;
    ctx.schedule_activity("echo", error.expect_err("it gives up"))
        .await
}

async fn failure_ends_the_parent(ctx: OrchestrationContext, _: String) -> Outcome {
    let beside = ctx.schedule_sub_orchestration("sleeper", "");
    ctx.schedule_sub_orchestration("lost", "").await?;
    beside.await
}

async fn system_failure_surfaced(ctx: OrchestrationContext, _: String) -> Outcome {
    let lost = ctx.schedule_sub_orchestration("lost", "");
    let error = lost.surface_system_failures().await;
    let error = error.expect_err("it waits for something that is not durable");
    Ok(error.split(':').next().unwrap_or_default().to_owned())
}

async fn dropped(ctx: OrchestrationContext, _: String) -> Outcome {
    let sleeper = ctx.schedule_sub_orchestration("sleeper", "");
    ctx.schedule_timer(SECOND).await;
    drop(sleeper);
    ctx.schedule_activity("echo", "went on").await
}

async fn continues(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_sub_orchestration("countdown", "2").await
}

async fn cancelled_with_its_parent(ctx: OrchestrationContext, _: String) -> Outcome {
    let inner = ctx.schedule_sub_orchestration_with_id("sleeper", "asleep", "");
    inner.await
}

async fn detached(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.schedule_orchestration("greet", "on its own", input.as_str());
    ctx.schedule_orchestration_versioned("pick", Some("1.0.0".to_owned()), "picked", input);
    Ok("not waited for".into())
}
