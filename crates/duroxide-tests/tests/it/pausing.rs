//! Instances that an operator holds back.

use std::time::Duration;

use duroxide::{ActivityContext, OrchestrationContext, OrchestrationStatus};

use crate::support::{World, activities, failure, orchestrations, output};

async fn waits(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let said = ctx.schedule_wait("go").await;
    ctx.schedule_activity("say", said).await
}

async fn world() -> World {
    World::start(
        activities()
            .register(
                "say",
                |_: ActivityContext, said: String| async move { Ok(said) },
            )
            .build(),
        orchestrations().register("waits", waits).build(),
    )
    .await
}

/// Runs another instance to its end: nodes have looked at everything that was ready before it.
async fn others_go_on(world: &World, id: &str) {
    world.begin(id, "waits", "").await;
    world.waits_for(id, "go").await;
    world.client.raise_event(id, "go", "on").await.unwrap();
    assert_eq!(output(&world.outcome(id).await), "on");
}

#[tokio::test]
async fn a_paused_instance_goes_on_where_it_was_held_back() {
    let world = world().await;
    world.begin("still", "waits", "").await;
    world.waits_for("still", "go").await;
    assert!(world.client.pause_instance("still").await.unwrap());
    assert!(!world.client.pause_instance("still").await.unwrap());
    world
        .client
        .raise_event("still", "go", "now")
        .await
        .unwrap();
    others_go_on(&world, "other").await;
    let status = world.client.get_orchestration_status("still").await;
    assert!(matches!(status, Ok(OrchestrationStatus::Running { .. })));
    let why = world.client.explain("still").await.unwrap().to_string();
    assert!(why.contains("it was paused"), "{why}");
    assert!(!why.contains("no node"), "{why}");
    assert!(world.client.resume_instance("still").await.unwrap());
    assert_eq!(output(&world.outcome("still").await), "now");
    assert!(
        world.client.resume_instance("still").await.is_err(),
        "it ended"
    );
}

#[tokio::test]
async fn a_paused_instance_is_terminated_at_once() {
    let world = world().await;
    world.begin("still", "waits", "").await;
    world.waits_for("still", "go").await;
    world.client.pause_instance("still").await.unwrap();
    world
        .client
        .cancel_instance("still", "softly")
        .await
        .unwrap();
    others_go_on(&world, "other").await;
    let status = world.client.get_orchestration_status("still").await;
    assert!(matches!(status, Ok(OrchestrationStatus::Running { .. })));
    world
        .client
        .terminate_instance("still", "enough")
        .await
        .unwrap();
    let limit = Duration::from_secs(60);
    let ended = world.client.wait_for_orchestration("still", limit).await;
    let told = failure(&ended.unwrap());
    assert!(told.contains("enough"), "{told}");
}
