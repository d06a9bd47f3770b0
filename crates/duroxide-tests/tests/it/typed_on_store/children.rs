//! Children and detached orchestrations.

use duroxide::OrchestrationStatus;
use duroxide::prelude::*;

use super::{AGES, SOON, world};

/// Its id tells which attempt it is; the third one works.
#[duroxide::orchestration(version = "1.2.0")]
async fn flaky(ctx: OrchestrationContext) -> Result<String, String> {
    let id = ctx.instance_id();
    if id.ends_with("~3") {
        Ok(id)
    } else {
        Err(format!("{id} failed"))
    }
}

#[duroxide::orchestration]
async fn retrying(ctx: OrchestrationContext) -> Result<(String, String), String> {
    let chosen = ctx.child(flaky, ()).id("chosen");
    let chosen = chosen.retry(Retry::fixed(3, SOON)).await?;
    let generated = ctx.child(flaky, ()).retry(Retry::fixed(2, SOON)).await;
    Ok((chosen, generated.unwrap_err().to_string()))
}

#[tokio::test]
async fn a_child_that_failed_is_started_again() {
    let world = world(Handlers::new().register(flaky).register(retrying)).await;
    let parent = world.client.start(retrying, ()).id("p").await.unwrap();
    let (chosen, generated) = parent.result().await.unwrap();
    assert_eq!(chosen, "chosen~3");
    assert!(generated.starts_with("p::sub::"), "{generated}");
    let family = world.client.get_instance_tree("p").await.unwrap().all_ids;
    assert_eq!(family.len(), 1 + 3 + 2, "{family:?}");
    world.stop().await;
}

#[duroxide::orchestration]
async fn sleeper(ctx: OrchestrationContext) -> Result<(), String> {
    ctx.receive::<String>("wake").await?;
    Ok(())
}

#[duroxide::orchestration]
async fn leaving(ctx: OrchestrationContext) -> Result<(), String> {
    let _open = [
        ("asked", ParentClose::Request),
        ("terminated", ParentClose::Cancel),
        ("left", ParentClose::Abandon),
    ]
    .map(|(id, close)| ctx.child(sleeper, ()).id(id).on_parent_close(close));
    ctx.sleep(SOON).await;
    ctx.spawn(sleeper, ()).id("spawned");
    Ok(())
}

#[tokio::test]
async fn children_are_ended_with_their_parent_unless_they_are_abandoned() {
    let world = world(Handlers::new().register(sleeper).register(leaving)).await;
    let parent = world.client.start(leaving, ()).id("p").await.unwrap();
    parent.result().await.unwrap();
    for ended in ["asked", "terminated"] {
        let error = world.client.handle(sleeper, ended).result().await;
        assert_eq!(error.unwrap_err().code(), "D0912", "{ended}");
    }
    for alive in ["left", "spawned"] {
        let alive = world.client.handle(sleeper, alive);
        // A detached start may still be queued.
        crate::support::until("it runs", async || {
            let status = alive.status().await.unwrap();
            matches!(status, OrchestrationStatus::Running { .. })
        })
        .await;
        alive.send("wake", "now").await.unwrap();
        alive.result().await.unwrap();
    }
    world.stop().await;
}

#[duroxide::orchestration]
async fn slow(ctx: OrchestrationContext) -> Result<(), String> {
    ctx.sleep(AGES).await;
    Ok(())
}

#[duroxide::orchestration]
async fn impatient(ctx: OrchestrationContext) -> Result<(), OrchestrationError<String>> {
    ctx.child(slow, ()).timeout(SOON).memo("not so long").await
}

#[tokio::test]
async fn a_child_that_takes_too_long_has_timed_out() {
    let world = world(Handlers::new().register(slow).register(impatient)).await;
    let parent = world.client.start(impatient, ()).await.unwrap();
    let error = parent.result().await.unwrap_err();
    let own = error.failed();
    assert!(
        matches!(own, Some(OrchestrationError::TimedOut { .. })),
        "{own:?}"
    );
    world.stop().await;
}
