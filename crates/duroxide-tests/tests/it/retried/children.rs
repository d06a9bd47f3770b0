//! Children of a retried instance.

use duroxide::OrchestrationRegistryBuilder;

use super::*;

/// Waits until the child of `h` runs and waits for its signal, and sends that: both end.
async fn the_child_goes_on(world: &World) {
    until("the child runs", async || {
        let status = world.client.get_orchestration_status("h::sub::2").await;
        matches!(status, Ok(OrchestrationStatus::Running { .. }))
    })
    .await;
    world.waits_for("h::sub::2", "go").await;
    world.raise("h::sub::2", "go", "gone").await;
    assert_eq!(output(&world.outcome("h").await), "gone it");
}

/// Runs `root` until it fails because the world is broken; its descendant `leaf` gets the signal that it waits for
/// before that.
async fn fails_though_its_leaf_went(world: &World, outside: &Outside, root: &str, leaf: &str) {
    world.waits_for(leaf, "go").await;
    outside.done.wait_for("try it").await;
    world.raise(leaf, "go", "went").await;
    assert_eq!(failure(&world.outcome(root).await), "broken");
}

async fn child(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("do", format!("{input} first"))
        .await?;
    ctx.schedule_activity("try", input).await
}

async fn parent(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let one = ctx.schedule_sub_orchestration("child", "one").await?;
    let done = ctx.schedule_activity("do", "last").await?;
    Ok(format!("{one} {done}"))
}

fn family() -> OrchestrationRegistry {
    let code = orchestrations().register("child", child);
    code.register("parent", parent).build()
}

#[tokio::test]
async fn a_failed_child_is_retried_with_its_parent() {
    let outside = Outside::default();
    let world = outside.with(family()).await;
    assert_eq!(failure(&world.run("p", "parent", "").await), "broken");
    outside.repair();
    assert_eq!(output(&retried(&world, "p").await), "one last");
    assert_eq!(
        outside.done.all(),
        ["do one first", "try one", "try one", "do last"]
    );
    let executions = world.client.list_executions("p::sub::2").await.unwrap();
    assert_eq!(executions, [1, 2]);
}

async fn careful_parent(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let slow = ctx.schedule_sub_orchestration("waits", "");
    let call = ctx.schedule_activity("try", "it");
    let both = ctx.join2(slow, call).await;
    Ok(format!("{} {}", both.0?, both.1?))
}

async fn hasty_parent(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let slow = ctx.schedule_sub_orchestration("waits", "");
    let it = ctx.schedule_activity("try", "it").await?;
    Ok(format!("{} {it}", slow.await?))
}

fn careful_family() -> OrchestrationRegistryBuilder {
    let code = orchestrations().register("waits", waits);
    code.register("careful", careful_parent)
}

fn hasty_family() -> OrchestrationRegistry {
    let code = orchestrations().register("waits", waits);
    code.register("hasty", hasty_parent).build()
}

#[tokio::test]
async fn a_child_that_the_failure_cancelled_goes_on() {
    let outside = Outside::default();
    let world = outside.with(hasty_family()).await;
    assert_eq!(failure(&world.run("h", "hasty", "").await), "broken");
    outside.repair();
    let rewind = world.client.retry_instance("h").await.unwrap();
    assert!(rewind.children.iter().all(|child| child.cancelled));
    taken(&world, &rewind).await;
    the_child_goes_on(&world).await;
    assert!(
        outside.done.count("do prepare") <= 2,
        "at most once in each execution"
    );
}

#[tokio::test]
async fn a_result_of_a_child_that_came_too_late_counts() {
    let outside = Outside::default();
    let world = outside.with(careful_family().build()).await;
    world.begin("c", "careful", "").await;
    fails_though_its_leaf_went(&world, &outside, "c", "c::sub::2").await;
    outside.repair();
    assert_eq!(output(&retried(&world, "c").await), "went it");
    assert_eq!(
        world.client.list_executions("c::sub::2").await.unwrap(),
        [1]
    );
}

async fn takes_its_id(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_sub_orchestration_with_id("do_it", "taken", "")
        .await
}

async fn do_it(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("try", "it").await
}

#[tokio::test]
async fn a_stranger_under_the_id_of_a_child_is_not_taken_for_it() {
    let outside = Outside::default();
    let registry = orchestrations()
        .register("do_it", do_it)
        .register("parent", takes_its_id);
    let world = outside.with(registry.build()).await;
    assert_eq!(failure(&world.run("taken", "do_it", "").await), "broken");
    assert!(failure(&world.run("p", "parent", "").await).contains("already exists"));
    outside.repair();
    assert!(failure(&retried(&world, "p").await).contains("already exists"));
    assert_eq!(
        world.client.list_executions("taken").await.unwrap(),
        [1],
        "nobody retried it"
    );
    assert_eq!(output(&retried(&world, "taken").await), "it");
    assert!(
        failure(&retried(&world, "p").await).contains("already exists"),
        "not its child"
    );
}

#[tokio::test]
async fn a_failure_of_a_cancelled_child_that_still_waits_does_not_count() {
    let outside = Outside::default();
    let store = in_memory().await;
    let (work, code) = (outside.activities(), hasty_family());
    let world = World::on(Arc::clone(&store), work, code, quick()).await;
    assert_eq!(failure(&world.run("h", "hasty", "").await), "broken");
    until("the child is cancelled", async || {
        let status = world.client.get_orchestration_status("h::sub::2").await;
        matches!(status, Ok(OrchestrationStatus::Failed { .. }))
    })
    .await;
    nothing_is_queued(&world).await;
    world.stop().await;
    // What a child told, and what an activity told, while no node had time for the parent.
    let details = duroxide::ErrorDetails::cancelled("parent failed");
    let told = WorkItem::SubOrchFailed {
        parent_instance: "h".into(),
        parent_execution_id: 1,
        parent_id: 2,
        details: details.clone(),
    };
    let client = Client::new(Arc::clone(&store));
    store
        .enqueue_for_orchestrator(told.clone(), None)
        .await
        .unwrap();
    let rewind = client.retry_instance("h").await.unwrap();
    store.enqueue_for_orchestrator(told, None).await.unwrap();
    outside.repair();
    let world = World::on(store, outside.activities(), hasty_family(), quick()).await;
    taken(&world, &rewind).await;
    the_child_goes_on(&world).await;
}

#[tokio::test]
async fn a_child_that_fails_again_tells_its_rewound_parent() {
    let outside = Outside::default();
    let world = outside.with(family()).await;
    assert_eq!(failure(&world.run("p", "parent", "").await), "broken");
    assert_eq!(
        failure(&retried(&world, "p").await),
        "broken",
        "nothing was repaired"
    );
    // Both at once, as a filter reaches them.
    world.client.retry_instance("p::sub::2").await.unwrap();
    assert_eq!(failure(&retried(&world, "p").await), "broken");
    outside.repair();
    assert_eq!(output(&retried(&world, "p").await), "one last");
}

async fn grandparent(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_sub_orchestration("careful", "").await
}

#[tokio::test]
async fn a_child_that_is_retried_with_its_parent_keeps_what_its_own_children_gave() {
    let outside = Outside::default();
    let registry = careful_family().register("grandparent", grandparent);
    let world = outside.with(registry.build()).await;
    world.begin("g", "grandparent", "").await;
    fails_though_its_leaf_went(&world, &outside, "g", "g::sub::2::sub::2").await;
    outside.repair();
    assert_eq!(output(&retried(&world, "g").await), "went it");
    assert_eq!(world.client.count_dead_letters().await.unwrap(), 0);
}

#[tokio::test]
async fn a_child_that_had_not_begun_when_its_parent_failed_goes_on_with_it() {
    let (store, outside) = (in_memory().await, Outside::default());
    // No node has the code of the child: its start waits, and so does the request to cancel it.
    let without = orchestrations().register("hasty", hasty_parent).build();
    let world = World::on(store.clone(), outside.activities(), without, quick()).await;
    assert_eq!(failure(&world.run("h", "hasty", "").await), "broken");
    let rewind = world.client.retry_instance("h").await.unwrap();
    outside.repair();
    world.stop().await;
    let world = World::on(store, outside.activities(), hasty_family(), quick()).await;
    taken(&world, &rewind).await;
    the_child_goes_on(&world).await;
}
