//! What is too large, too long or too many.

use std::time::{Duration, Instant};

use duroxide::{ActivityContext, ClientError, OrchestrationContext, RuntimeOptions};

use super::echo;
use crate::support::{World, activities, failure, orchestrations, output, quick};

#[tokio::test]
async fn a_payload_of_100_mb_is_refused_at_once() {
    let world = World::start(activities().build(), echo()).await;
    let huge = "x".repeat(100 * 1024 * 1024);
    let client = &world.client;
    let begun = Instant::now();
    let refused = [
        client
            .start_orchestration("i", "leaf", huge.as_str())
            .await
            .unwrap_err(),
        client
            .raise_event("i", "go", huge.as_str())
            .await
            .unwrap_err(),
        client
            .enqueue_event("i", "q", huge.as_str())
            .await
            .unwrap_err(),
        client
            .cancel_instance("i", huge.as_str())
            .await
            .unwrap_err(),
    ];
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    for error in refused {
        let text = error.to_string();
        assert!(
            text.contains("size (104857600 bytes) exceeds limit (2097152 bytes)"),
            "{text}"
        );
    }
    for refused in [
        client.start_orchestration("i", huge.as_str(), "").await,
        client.raise_event("i", huge.as_str(), "").await,
        client.enqueue_event("i", huge.as_str(), "").await,
        client.raise_event(huge.as_str(), "go", "").await,
        client.cancel_instance(huge.as_str(), "").await,
    ] {
        assert!(matches!(refused, Err(ClientError::InvalidInput { .. })));
    }
    let typed = client
        .start_orchestration_typed("i", "leaf", &huge)
        .await
        .unwrap_err();
    assert!(matches!(typed, ClientError::InvalidInput { .. }));
    assert_eq!(
        client.get_queue_depths().await.unwrap().orchestrator_queue,
        0
    );
    world.stop().await;
}

#[tokio::test]
async fn a_payload_that_is_too_large_inside_is_a_recorded_failure_that_stores_nothing_of_it() {
    let options = RuntimeOptions {
        payload_bytes_max: 1_000,
        ..quick()
    };
    let world = World::with_options(
        activities()
            .register("big", |_: ActivityContext, _| async {
                Ok("x".repeat(1_001))
            })
            .register("big error", |_: ActivityContext, _| async {
                Err("x".repeat(1_001))
            })
            .build(),
        orchestrations()
            .register("input", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("big", "x".repeat(1_001)).await
            })
            .register("output", |_: OrchestrationContext, _| async {
                Ok("x".repeat(1_001))
            })
            .register("child", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_sub_orchestration("output", "x".repeat(1_001))
                    .await
            })
            .register("continue", |ctx: OrchestrationContext, _| async move {
                ctx.continue_as_new("x".repeat(1_001)).await
            })
            .register("result", |ctx: OrchestrationContext, _| async move {
                let one = ctx.schedule_activity("big", "").await.unwrap_err();
                let two = ctx.schedule_activity("big error", "").await.unwrap_err();
                Ok(format!("{one}; {two}"))
            })
            .register("exactly", |_: OrchestrationContext, _| async {
                Ok("x".repeat(1_000))
            })
            .build(),
        options,
    )
    .await;
    for (name, what) in [
        ("input", "Activity 'big' input"),
        ("output", "Orchestration output"),
        ("child", "Sub-orchestration 'output' input"),
        ("continue", "Continue-as-new input"),
    ] {
        let text = failure(&world.run(name, name, "").await);
        assert_eq!(
            text,
            format!("{what} size (1001 bytes) exceeds limit (1000 bytes)")
        );
        let stored = serde_json::to_string(&world.history(name).await).unwrap();
        assert!(stored.len() < 2_000, "{} bytes", stored.len());
    }
    let status = world.run("result", "result", "").await;
    assert_eq!(
        output(&status),
        "Activity 'big' result size (1001 bytes) exceeds limit (1000 bytes); Activity 'big error' result size (1001 bytes) exceeds limit (1000 bytes)"
    );
    assert_eq!(
        output(&world.run("exactly", "exactly", "").await).len(),
        1_000
    );
    world.stop().await;
}

#[tokio::test]
async fn a_history_that_grows_too_long_is_a_clear_failure() {
    let options = RuntimeOptions {
        history_events_max: Some(20),
        ..quick()
    };
    let world = World::with_options(
        activities()
            .register("a", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("endless", |ctx: OrchestrationContext, _| async move {
                loop {
                    ctx.schedule_activity("a", "").await?;
                }
            })
            .build(),
        options,
    )
    .await;
    let text = failure(&world.run("i", "endless", "").await);
    assert!(
        text.contains("exceeds limit (20 events); use continue_as_new"),
        "{text}"
    );
    world.stop().await;
}

#[tokio::test]
async fn more_children_than_any_batch_complete_with_ordinary_combinators() {
    for count in [1_023, 1_025] {
        let world = World::start(
            activities()
                .register("echo", |_, input| async move { Ok(input) })
                .build(),
            orchestrations()
                .register(
                    "fan",
                    |ctx: OrchestrationContext, count: String| async move {
                        let count: usize = count.parse().map_err(|_| "count")?;
                        let work = (0..count).map(|n| ctx.schedule_activity("echo", n.to_string()));
                        let results = futures::future::join_all(work).await;
                        let good = results
                            .iter()
                            .enumerate()
                            .filter(|(n, r)| r.as_deref() == Ok(n.to_string().as_str()));
                        Ok(good.count().to_string())
                    },
                )
                .build(),
        )
        .await;
        let status = world.run("i", "fan", &count.to_string()).await;
        assert_eq!(output(&status), count.to_string());
        world.stop().await;
    }
}
