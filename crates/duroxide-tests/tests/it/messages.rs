//! Messages without effect are counted once each, and so are the ends of children.

use duroxide::providers::WorkItem;
use duroxide::{OrchestrationContext, RuntimeOptions};

use crate::samples::Samples;
use crate::support::{World, activities, orchestrations, quick, until};

const DROPPED: &str = "duroxide_dropped_messages_total";

async fn world() -> World {
    let registry = orchestrations()
        .register("waits", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .register("fails", |_: OrchestrationContext, _| async {
            Err("no".to_owned())
        })
        .register("parent", |ctx: OrchestrationContext, _| async move {
            let failed = ctx.schedule_sub_orchestration("fails", "").await;
            ctx.schedule_sub_orchestration_with_id("waits", "child", "")
                .await?;
            ctx.schedule_wait("end").await;
            Ok(failed.unwrap_err())
        })
        .build();
    // Nothing is kept in memory: every turn replays what came before.
    let options = RuntimeOptions {
        sticky_instances_max: 0,
        ..quick()
    };
    World::with_options(activities().build(), registry, options).await
}

fn completion(instance: &str, execution_id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.into(),
        execution_id,
        id: 2,
        result: String::new(),
    }
}

async fn send(world: &World, message: WorkItem) {
    let sent = world.store.enqueue_for_orchestrator(message, None).await;
    sent.unwrap();
}

async fn raise(world: &World, instance: &str, name: &str) {
    world.raise(instance, name, "data").await;
}

#[tokio::test]
async fn each_message_without_effect_is_counted_once_with_its_reason() {
    let samples = Samples::default();
    samples.install();
    let world = world().await;
    let early = completion("i", 1);
    send(&world, early).await;
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    send(&world, completion("i", 7)).await;
    raise(&world, "i", "nobody waits").await;
    raise(&world, "i", "go").await;
    world.outcome("i").await;
    raise(&world, "i", "too late").await;
    until("the last one is consumed", async || {
        samples.total(DROPPED, &[("reason", "ended")]) > 0.0
    })
    .await;
    let snapshot = world.stopped().await;
    for reason in [
        "never_scheduled",
        "another_execution",
        "nobody_waits",
        "ended",
    ] {
        assert_eq!(
            samples.total(DROPPED, &[("reason", reason)]),
            1.0,
            "{reason}"
        );
    }
    assert_eq!(snapshot.dropped_messages, 4);
}

#[tokio::test]
async fn what_has_its_effect_is_not_counted_as_dropped() {
    let world = world().await;
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    raise(&world, "i", "go").await;
    world.outcome("i").await;
    assert_eq!(world.stopped().await.dropped_messages, 0);
}

#[tokio::test]
async fn the_life_of_each_child_is_measured_once() {
    let samples = Samples::default();
    samples.install();
    let world = world().await;
    world.begin("i", "parent", "").await;
    world.waits_for("child", "go").await;
    raise(&world, "child", "go").await;
    world.waits_for("i", "end").await;
    raise(&world, "i", "end").await;
    world.outcome("i").await;
    world.stop().await;
    let lives = samples.of("duroxide_suborchestration_duration_seconds");
    let labels: Vec<(&str, &str, &str)> = lives
        .iter()
        .map(|sample| {
            let label = |name: &str| sample.labels[name].as_str();
            (
                label("parent_orchestration"),
                label("child_orchestration"),
                label("outcome"),
            )
        })
        .collect();
    let expected = [
        ("parent", "fails", "failed"),
        ("parent", "waits", "success"),
    ];
    assert_eq!(labels, expected);
    assert!(lives.iter().all(|sample| sample.value >= 0.0));
}
