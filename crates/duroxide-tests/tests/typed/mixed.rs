//! Both interfaces in one program, and the same events from both.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::runtime::FnOrchestration;
use duroxide::testing::Harness;
use duroxide::{ActivityOptions, ActivityRegistry, Event, EventKind, OrchestrationRegistry};

const SECOND: Duration = Duration::from_secs(1);

#[duroxide::activity]
async fn greet(name: String) -> Result<String, String> {
    match name.as_str() {
        "nobody" => Err("there is nobody".to_owned()),
        _ => Ok(format!("Hello, {name}!")),
    }
}

#[duroxide::orchestration]
async fn typed(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    let greeting = ctx.call(greet, &name).await?;
    let loud = ctx.call(SHOUT, &greeting).await?;
    let limited = ctx
        .call(greet, &loud)
        .retry(RetryPolicy::exponential(3))
        .schedule_to_close(60 * SECOND)
        .queue_timeout(30 * SECOND);
    let limited = limited.await?;
    let failed = ctx.call(greet, "nobody").retry(RetryPolicy::exponential(2));
    let failed = failed.await.unwrap_err().to_string();
    ctx.sleep(SECOND).await;
    let child = ctx.child(PLAIN_CHILD, &failed).await?;
    Ok(format!("{limited} {child}"))
}

const SHOUT: ActivityRef<String, String> = ActivityRef::new("shout");
const PLAIN_CHILD: OrchestrationRef<String, String> = OrchestrationRef::new("child");

async fn plain(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    let greeting = ctx.schedule_activity("greet", name).await?;
    let loud = ctx.schedule_activity("shout", greeting).await?;
    let options = ActivityOptions::new()
        .with_total_timeout(60 * SECOND)
        .with_start_timeout(30 * SECOND);
    let policy = RetryPolicy::new(3);
    let limited = ctx.schedule_activity_with_retry_options("greet", loud, policy, options);
    let limited = limited.await?;
    let failed = ctx.schedule_activity_with_retry("greet", "nobody", RetryPolicy::new(2));
    let failed = failed.await.unwrap_err();
    ctx.schedule_timer(SECOND).await;
    let child = ctx.schedule_sub_orchestration("child", failed).await?;
    Ok(format!("{limited} {child}"))
}

fn code() -> Handlers {
    let shout = |_ctx: ActivityContext, text: String| async move { Ok(text.to_uppercase()) };
    let child = |_ctx: OrchestrationContext, why: String| async move { Ok(format!("({why})")) };
    let activities = ActivityRegistry::builder().register("shout", shout).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("plain", plain)
        .register("child", child)
        .build();
    Handlers::new()
        .activities(activities)
        .orchestrations(orchestrations)
        .register(greet)
        .register(typed)
}

fn decisions(history: &[Event]) -> Vec<EventKind> {
    let mut kinds: Vec<EventKind> = history.iter().map(|e| e.kind.clone()).collect();
    for kind in &mut kinds {
        match kind {
            EventKind::OrchestrationStarted { name, .. } => name.clear(),
            EventKind::TimerCreated { fire_at_ms } | EventKind::TimerFired { fire_at_ms } => {
                *fire_at_ms = 0;
            }
            _ => {}
        }
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn both_interfaces_record_the_same_events() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let one = harness.execute(typed, "Ada").await.unwrap();
    let status = harness.run("plain", "Ada").await;
    let duroxide::OrchestrationStatus::Completed { output, .. } = status else {
        panic!("{status:?}");
    };
    assert_eq!(one, output);
    let (typed, plain) = (
        harness.history("run-1").await,
        harness.history("run-2").await,
    );
    assert_eq!(decisions(&typed), decisions(&plain));
}

#[tokio::test(start_paused = true)]
async fn a_running_instance_moves_from_one_interface_to_the_other() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    harness.run("plain", "Ada").await;
    let history = serde_json::to_string(&harness.history("run-1").await).unwrap();
    let handler = duroxide_core::TypedOrchestration(typed {});
    duroxide::testing::replay(&history, std::sync::Arc::new(handler)).unwrap();
}

/// The program above; each call is the published one or the typed one, by its bit.
async fn partly(ctx: OrchestrationContext, name: String, typed: u32) -> Result<String, String> {
    let is_typed = |call: u32| typed & (1 << call) != 0;
    let greeting = if is_typed(0) {
        ctx.call(greet, &name).await?
    } else {
        ctx.schedule_activity("greet", name).await?
    };
    let loud = if is_typed(1) {
        ctx.call(SHOUT, &greeting).await?
    } else {
        ctx.schedule_activity("shout", greeting).await?
    };
    let failed = if is_typed(2) {
        let call = ctx.call(greet, "nobody").retry(RetryPolicy::exponential(2));
        call.await.unwrap_err().to_string()
    } else {
        let policy = RetryPolicy::new(2);
        let call = ctx.schedule_activity_with_retry("greet", "nobody", policy);
        call.await.unwrap_err()
    };
    if is_typed(3) {
        ctx.sleep(SECOND).await
    } else {
        ctx.schedule_timer(SECOND).await
    }
    let child = if is_typed(4) {
        ctx.child(PLAIN_CHILD, &failed).await?
    } else {
        ctx.schedule_sub_orchestration("child", failed).await?
    };
    Ok(format!("{loud} {child}"))
}

#[tokio::test(start_paused = true)]
async fn each_call_alone_may_move_over_in_either_direction() {
    const CALLS: u32 = 5;
    const ALL: u32 = (1 << CALLS) - 1;
    for recorded in [0, ALL] {
        let program = move |ctx, name| partly(ctx, name, recorded);
        let orchestrations = OrchestrationRegistry::builder().register("partly", program);
        let code = code().orchestrations(orchestrations.build());
        let mut harness = Harness::builder().handlers(code).start().await;
        harness.run("partly", "Ada").await;
        let history = serde_json::to_string(&harness.history("run-1").await).unwrap();
        for call in 0..CALLS {
            let moved = recorded ^ (1 << call);
            let handler = FnOrchestration(move |ctx, name| partly(ctx, name, moved));
            let replayed = duroxide::testing::replay(&history, std::sync::Arc::new(handler));
            assert!(
                replayed.is_ok(),
                "call {call} of {recorded:b}: {replayed:?}"
            );
        }
    }
}
