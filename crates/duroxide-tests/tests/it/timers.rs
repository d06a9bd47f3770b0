//! Timers, and waiting for what is not durable.

use std::time::{Duration, Instant};

use duroxide::{Either2, ErrorDetails, EventKind, OrchestrationContext};
use futures::future::BoxFuture;

use crate::support::{World, activities, details, failure, orchestrations, output};

#[tokio::test]
async fn a_timer_fires_when_it_is_due_and_not_before() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_timer(Duration::from_millis(120)).await;
                ctx.schedule_timer(Duration::ZERO).await;
                Ok("done".to_owned())
            })
            .build(),
    )
    .await;
    let begun = Instant::now();
    assert_eq!(output(&world.run("i", "o", "").await), "done");
    assert!(
        begun.elapsed() >= Duration::from_millis(119),
        "{:?}",
        begun.elapsed()
    );
    let history = world.history("i").await;
    let due = history.iter().find_map(|e| match e.kind {
        EventKind::TimerCreated { fire_at_ms } => Some(fire_at_ms),
        _ => None,
    });
    let fired = history.iter().find_map(|e| match e.kind {
        EventKind::TimerFired { .. } => Some(e.timestamp_ms),
        _ => None,
    });
    assert!(fired.unwrap() >= due.unwrap(), "{fired:?} {due:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_timer_bounds_a_wait_and_the_loser_is_recorded_as_dropped() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let approval = ctx.schedule_wait("approved");
                let limit = ctx.schedule_timer(Duration::from_millis(20));
                match ctx.select2(approval, limit).await {
                    Either2::First(by) => Ok(by),
                    Either2::Second(()) => Err("nobody answered".to_owned()),
                }
            })
            .build(),
    )
    .await;
    assert_eq!(failure(&world.run("i", "o", "").await), "nobody answered");
    let dropped = |e: &duroxide::Event| matches!(&e.kind, EventKind::ExternalSubscribedCancelled { reason } if reason == "dropped_future");
    assert!(world.history("i").await.iter().any(dropped));
    world.stop().await;
}

#[tokio::test]
async fn the_longest_timer_there_is_does_not_fire_at_once() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let never = ctx.schedule_timer(Duration::MAX);
                let soon = ctx.schedule_timer(Duration::from_millis(10));
                Ok(ctx.select2(never, soon).await.index().to_string())
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "1");
    world.stop().await;
}

#[tokio::test]
async fn an_orchestration_that_waits_for_something_not_durable_is_told_so() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("sleeps", |_: OrchestrationContext, _| async {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(String::new())
            })
            .register("forever", |_: OrchestrationContext, _| async {
                std::future::pending::<Result<String, String>>().await
            })
            .build(),
    )
    .await;
    for name in ["sleeps", "forever"] {
        let failed = world.run(name, name, "").await;
        let text = failure(&failed);
        assert!(text.contains("not durable"), "{text}");
        let details = details(failed);
        assert!(
            matches!(details, ErrorDetails::Configuration { .. }),
            "{details:?}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn something_not_durable_beside_a_durable_wait_is_reported_when_it_wakes() {
    type Code = fn(OrchestrationContext) -> BoxFuture<'static, String>;
    let foreign: [(&str, Code); 2] = [
        ("sleep", |_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                "slept".to_owned()
            })
        }),
        ("task", |ctx| {
            let task = tokio::spawn(async move { ctx.schedule_activity("a", "").await });
            Box::pin(async { format!("{:?}", task.await.map_err(|e| e.to_string())) })
        }),
    ];
    for (name, code) in foreign {
        let world = World::start(
            activities().build(),
            orchestrations()
                .register("o", move |ctx: OrchestrationContext, _| async move {
                    let durable = ctx.schedule_wait("never");
                    Ok(ctx.select2(durable, code(ctx.clone())).await.into_tuple().1)
                })
                .build(),
        )
        .await;
        let text = failure(&world.run("i", "o", "").await);
        assert!(text.starts_with("nondeterministic: "), "{name}: {text}");
        assert!(text.contains("last durable call: "), "{name}: {text}");
        assert!(text.contains("it/timers.rs:"), "{name}: {text}");
        world.stop().await;
    }
}
