//! Where a retry begins, and whether there is one.

use super::*;

#[tokio::test]
async fn two_operators_at_once_retry_once() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("order", order).build())
        .await;
    world.run("o", "order", "").await;
    // No node takes a request before all are there.
    let store = world.store.clone();
    world.stop().await;
    let client = Client::new(store.clone());
    let from_its_end = client.retry_instance_from("o", RewindPoint::End);
    let plans = [
        client.retry_instance("o").await.unwrap(),
        from_its_end.await.unwrap(),
        client.retry_instance("o").await.unwrap(),
    ];
    let code = orchestrations().register("order", order).build();
    let world = World::on(store, outside.activities(), code, quick()).await;
    for plan in &plans {
        world.client.wait_for_retry(plan, PATIENCE).await.unwrap();
    }
    assert_eq!(
        failure(&world.outcome("o").await),
        "broken",
        "nothing was repaired"
    );
    nothing_is_queued(&world).await;
    assert_eq!(world.client.list_executions("o").await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn only_what_failed_is_retried() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("waits", waits).build())
        .await;
    let told = |result: Result<_, ClientError>| result.map(drop).unwrap_err().to_string();
    let unknown = world.client.retry_instance("nobody").await;
    assert!(matches!(unknown, Err(ClientError::InstanceNotFound { .. })));
    world.begin("w", "waits", "").await;
    world.waits_for("w", "go").await;
    assert!(told(world.client.retry_instance("w").await).contains("it runs"));
    world.raise("w", "go", "on").await;
    world.outcome("w").await;
    assert!(told(world.client.retry_instance("w").await).contains("it completed"));
    world.begin("c", "waits", "").await;
    world.waits_for("c", "go").await;
    world.cancel("c", "x").await;
    world.outcome("c").await;
    let at = RewindPoint::Event(99);
    assert!(told(world.client.retry_instance_from("c", at).await).contains("no event 99"));
}

#[tokio::test]
async fn the_operator_chooses_the_point() {
    let outside = Outside::default();
    async fn falls_back(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        let first = match ctx.schedule_activity("try", "dear").await {
            Ok(it) => it,
            Err(_) => ctx.schedule_activity("do", "cheap").await?,
        };
        let second = ctx.schedule_activity("try", "more").await?;
        Ok(format!("{first} {second}"))
    }
    let world = outside
        .with(orchestrations().register("falls", falls_back).build())
        .await;
    world.run("a", "falls", "").await;
    world.run("b", "falls", "").await;
    outside.repair();
    assert_eq!(
        output(&retried(&world, "a").await),
        "cheap more",
        "nothing runs twice"
    );
    let history = world.history("b").await;
    let failed = |event: &&Event| matches!(event.kind, EventKind::ActivityFailed { .. });
    let first = history.iter().find(failed).unwrap().event_id;
    let at = RewindPoint::Event(first);
    let rewind = world.client.retry_instance_from("b", at).await.unwrap();
    assert_eq!(rewind.successes_dropped, 1);
    taken(&world, &rewind).await;
    assert_eq!(output(&world.outcome("b").await), "dear more");
}

#[tokio::test]
async fn a_request_for_an_earlier_life_retries_nothing_of_the_later_one() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("order", order).build())
        .await;
    world.run("o", "order", "").await;
    let planned = world.client.plan_retry("o", RewindPoint::Failure);
    let planned = planned.await.unwrap();
    world.client.delete_instance("o", false).await.unwrap();
    let ended = planned.failure;
    until(
        "another one has ended, not in the same moment",
        async || {
            world.run("o", "order", "").await;
            let again = world.client.plan_retry("o", RewindPoint::Failure).await;
            let is_other = again.unwrap().failure != ended;
            if !is_other {
                world.client.delete_instance("o", false).await.unwrap();
            }
            is_other
        },
    )
    .await;
    outside.repair();
    // The operator's request was under way while the id got its other life.
    let late = RewindMessage::Rewind {
        execution_id: planned.failed_execution_id,
        from_event_id: Some(planned.from_event_id),
        failure: planned.failure,
    };
    let sent = world.store.enqueue_for_orchestrator(late.to("o"), None);
    sent.await.unwrap();
    let admin = world.store.as_management_capability().unwrap();
    until("the request is consumed", async || {
        let pending = admin.pending_work("o").await.unwrap().unwrap();
        pending.messages.is_empty()
    })
    .await;
    assert_eq!(world.client.list_executions("o").await.unwrap(), [1]);
    output(&retried(&world, "o").await);
    assert_eq!(world.client.list_executions("o").await.unwrap(), [1, 2]);
}
