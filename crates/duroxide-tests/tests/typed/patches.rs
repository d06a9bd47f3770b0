//! Changing code that has running instances.

use std::sync::Arc;
use std::time::Duration;

use duroxide::EventKind;
use duroxide::prelude::*;
use duroxide::testing::{Harness, replay};
use duroxide_core::TypedOrchestration;

#[duroxide::activity]
async fn step(what: String) -> Result<String, String> {
    Ok(what)
}

/// The code as it was first released.
mod first {
    use super::*;

    #[duroxide::orchestration]
    pub(super) async fn order(ctx: OrchestrationContext) -> Result<String, String> {
        ctx.call(step, "charge").await?;
        ctx.sleep(Duration::from_secs(60)).await;
        Ok(ctx.call(step, "ship").await?)
    }
}

/// With a check in front of everything, and another one in front of the shipping.
mod second {
    use super::*;

    #[duroxide::orchestration]
    pub(super) async fn order(ctx: OrchestrationContext) -> Result<String, String> {
        if ctx.patched("fraud-check") {
            ctx.call(step, "check").await?;
        }
        ctx.call(step, "charge").await?;
        ctx.sleep(Duration::from_secs(60)).await;
        if ctx.patched("fraud-check") {
            ctx.call(step, "check again").await?;
        }
        if ctx.patched("weigh") {
            ctx.call(step, "weigh").await?;
        }
        Ok(ctx.call(step, "ship").await?)
    }
}

/// When no instance without the patch is left.
mod third {
    use super::*;

    #[duroxide::orchestration]
    pub(super) async fn order(ctx: OrchestrationContext) -> Result<String, String> {
        ctx.deprecate_patch("fraud-check");
        ctx.call(step, "check").await?;
        ctx.call(step, "charge").await?;
        ctx.sleep(Duration::from_secs(60)).await;
        ctx.call(step, "check again").await?;
        ctx.call(step, "weigh").await?;
        Ok(ctx.call(step, "ship").await?)
    }
}

fn steps(harness: &Harness) -> Vec<String> {
    harness.inputs_of(step)
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_takes_the_patched_way_in_every_replay() {
    let code = Handlers::new().register(step).register(second::order);
    let mut harness = Harness::builder().handlers(code).start().await;
    // What follows is decided by a process that replays.
    harness.crash_after_commit(2);
    harness.execute(second::order, ()).await.unwrap();
    let mut steps = steps(&harness);
    // The activity in flight was killed and ran again.
    steps.dedup();
    assert_eq!(steps, ["check", "charge", "check again", "weigh", "ship"]);
    let markers = harness.history("run-1").await;
    let markers = markers.iter().filter(|event| {
        matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name.ends_with(":patched"))
    });
    assert_eq!(markers.count(), 2, "one for each patch");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_passed_the_place_already_keeps_the_old_way() {
    let code = Handlers::new().register(step).register(first::order);
    let mut harness = Harness::builder().handlers(code).start().await;
    let handle = harness.client().start(first::order, ()).id("old").await;
    harness.advance(Duration::from_secs(30)).await;
    let code = Handlers::new().register(step).register(second::order);
    harness.deploy(code).await;
    harness.wait("old").await;
    harness.assert_deterministic("old").await;
    // What lies behind it stays as it was; a place that it has not reached is patched.
    assert_eq!(steps(&harness), ["charge", "weigh", "ship"]);
    assert_eq!(handle.unwrap().result().await.unwrap(), "ship");
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_deprecated_and_then_removed() {
    let code = Handlers::new().register(step).register(second::order);
    let mut harness = Harness::builder().handlers(code).start().await;
    harness.execute(second::order, ()).await.unwrap();
    let history = serde_json::to_string(&harness.history("run-1").await).unwrap();
    // Code that deprecates one patch and has removed the other fits what was recorded with both.
    replay(&history, Arc::new(TypedOrchestration(third::order {}))).unwrap();
    // Code that never had the steps does not.
    let error = replay(&history, Arc::new(TypedOrchestration(first::order {}))).unwrap_err();
    assert!(error.to_string().contains("charge"), "{error}");
}
