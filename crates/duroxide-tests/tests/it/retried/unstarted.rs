//! Instances that were ended before their code ran, and are retried.

use super::*;

/// Hands what it has not read to the next version.
async fn first_version(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.set_custom_status("handed on");
    let one = ctx.dequeue_event("post").await;
    ctx.continue_as_new_versioned("2.0.0", one).await
}

async fn second_version(ctx: OrchestrationContext, one: String) -> Result<String, String> {
    let two = ctx.dequeue_event("post").await;
    let status = ctx.get_custom_status().unwrap_or_default();
    Ok(format!("{one} {two} {status}"))
}

fn twice() -> RuntimeOptions {
    RuntimeOptions {
        max_attempts: 2,
        ..quick()
    }
}

#[tokio::test]
async fn one_that_was_poison_before_its_first_turn_runs_with_code_that_works() {
    let (store, outside) = (in_memory().await, Outside::default());
    let client = Client::new(store.clone());
    let started = client.start_orchestration("w", "waits", "");
    started.await.unwrap();
    client.enqueue_event("w", "post", "early").await.unwrap();
    tried_in_vain(store.as_ref(), 3).await;
    let code = orchestrations().register("waits", waits).build();
    let world = World::on(store, outside.activities(), code, twice()).await;
    let failed = failure(&world.outcome("w").await);
    assert!(failed.contains("poison"), "{failed}");
    let rewind = world.client.retry_instance("w").await.unwrap();
    taken(&world, &rewind).await;
    world.waits_for("w", "go").await;
    world.raise("w", "go", "on").await;
    assert_eq!(output(&world.outcome("w").await), "on");
    let info = world.client.get_instance_info("w").await.unwrap();
    assert_eq!(info.orchestration_version, "1.0.0", "chosen by the node");
}

#[tokio::test]
async fn one_that_was_poison_between_two_executions_keeps_what_it_carried() {
    let (store, outside) = (in_memory().await, Outside::default());
    let client = Client::new(store.clone());
    let started = client.start_orchestration_versioned("u", "upgrades", "1.0.0", "");
    started.await.unwrap();
    for data in ["one", "two"] {
        client.enqueue_event("u", "post", data).await.unwrap();
    }
    let old = orchestrations().register_versioned("upgrades", "1.0.0", first_version);
    let world = World::on(store.clone(), outside.activities(), old.build(), quick()).await;
    let continued =
        |kind: &EventKind| matches!(kind, EventKind::OrchestrationContinuedAsNew { .. });
    world.recorded("u", continued).await;
    world.stop().await;
    tried_in_vain(store.as_ref(), 3).await;
    // The code of the execution that ended is not needed any more.
    let new = orchestrations().register_versioned("upgrades", "2.0.0", second_version);
    let world = World::on(store, outside.activities(), new.build(), twice()).await;
    let failed = failure(&world.outcome("u").await);
    assert!(failed.contains("poison"), "{failed}");
    assert_eq!(output(&retried(&world, "u").await), "one two handed on");
}
