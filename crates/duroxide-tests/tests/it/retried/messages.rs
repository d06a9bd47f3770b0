//! Signals and queue messages of a retried instance.

use super::*;

async fn letters(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let first = ctx.dequeue_event("post").await;
    ctx.schedule_activity("try", first.clone()).await?;
    let second = ctx.dequeue_event("post").await;
    Ok(format!("{first} {second}"))
}

#[tokio::test]
async fn messages_that_came_after_the_failure_are_read() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("letters", letters).build())
        .await;
    world.begin("l", "letters", "").await;
    world
        .client
        .enqueue_event("l", "post", "one")
        .await
        .unwrap();
    assert_eq!(failure(&world.outcome("l").await), "broken");
    outside.repair();
    let rewind = world.client.retry_instance("l").await.unwrap();
    taken(&world, &rewind).await;
    world
        .client
        .enqueue_event("l", "post", "two")
        .await
        .unwrap();
    assert_eq!(output(&world.outcome("l").await), "one two");
}

/// What the code of `letters` and `asks` becomes in a bad deployment.
async fn diverges(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("do", "something else").await
}

#[tokio::test]
async fn a_message_that_came_while_the_code_did_not_fit_is_not_lost() {
    let (store, outside) = (in_memory().await, Outside::default());
    outside.repair();
    let good = || orchestrations().register("letters", letters).build();
    let world = World::on(store.clone(), outside.activities(), good(), quick()).await;
    world.begin("l", "letters", "").await;
    let waits = |kind: &EventKind| matches!(kind, EventKind::QueueSubscribed { .. });
    world.recorded("l", waits).await;
    world.stop().await;
    let bad = orchestrations().register("letters", diverges).build();
    let world = World::on(store.clone(), outside.activities(), bad, quick()).await;
    let send = |data: &'static str| world.client.enqueue_event("l", "post", data);
    send("pay invoice 7").await.unwrap();
    let failed = failure(&world.outcome("l").await);
    assert!(failed.contains("nondeterministic"), "{failed}");
    world.stop().await;
    let world = World::on(store, outside.activities(), good(), quick()).await;
    let rewind = world.client.retry_instance("l").await.unwrap();
    taken(&world, &rewind).await;
    let sent = world.client.enqueue_event("l", "post", "and 8").await;
    sent.unwrap();
    assert_eq!(output(&world.outcome("l").await), "pay invoice 7 and 8");
}

/// Asks two people, one after the other.
async fn asks(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let prepared = ctx.schedule_activity("try", "prepare").await;
    let prepared = prepared.unwrap_or("unprepared".into());
    let first = ctx.schedule_wait("approve").await;
    ctx.schedule_activity("try", "act").await?;
    Ok(format!("{prepared} {first}"))
}

#[tokio::test]
async fn who_approved_once_need_not_approve_again() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("asks", asks).build())
        .await;
    world.begin("a", "asks", "").await;
    world.waits_for("a", "approve").await;
    world.raise("a", "approve", "yes").await;
    assert_eq!(failure(&world.outcome("a").await), "broken");
    outside.repair();
    let failed = |event: &Event| matches!(event.kind, EventKind::ActivityFailed { .. });
    let history = world.history("a").await;
    let at = history.iter().find(|event| failed(event)).unwrap().event_id;
    let from_the_first = RewindPoint::Event(at);
    let rewind = world.client.retry_instance_from("a", from_the_first).await;
    let rewind = rewind.unwrap();
    assert_eq!(rewind.signals.len(), 1);
    taken(&world, &rewind).await;
    assert_eq!(output(&world.outcome("a").await), "prepare yes");
}

#[tokio::test]
async fn what_came_with_a_turn_that_is_poison_is_there_for_a_retry() {
    let (store, outside) = (in_memory().await, Outside::default());
    outside.repair();
    let code = || orchestrations().register("asks", asks).build();
    let twice = || RuntimeOptions {
        max_attempts: 2,
        ..quick()
    };
    let world = World::on(store.clone(), outside.activities(), code(), twice()).await;
    world.begin("p", "asks", "").await;
    world.waits_for("p", "approve").await;
    world.stop().await;
    // Nothing can be left out of a turn that has a result of an activity.
    let stale = WorkItem::ActivityCompleted {
        instance: "p".into(),
        execution_id: 1,
        id: 2,
        result: "prepare".into(),
    };
    let client = Client::new(store.clone());
    client.raise_event("p", "approve", "yes").await.unwrap();
    store.enqueue_for_orchestrator(stale, None).await.unwrap();
    tried_in_vain(store.as_ref(), 3).await;
    let world = World::on(store, outside.activities(), code(), twice()).await;
    let failed = failure(&world.outcome("p").await);
    assert!(failed.contains("poison"), "{failed}");
    assert_eq!(output(&retried(&world, "p").await), "prepare yes");
    assert_eq!(outside.done.all(), ["try prepare", "try act"]);
}

#[tokio::test]
async fn the_queues_of_the_engine_take_nothing_from_clients() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("waits", waits).build())
        .await;
    for queue in [
        "duroxide:rewind",
        "duroxide:keys",
        "duroxide:labels",
        "duroxide:start",
    ] {
        let refused = world
            .client
            .enqueue_event("w", queue, "\"ask_again\"")
            .await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("the engine's own"), "{refused}");
    }
}
