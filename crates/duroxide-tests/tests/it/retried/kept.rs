//! What a retry keeps, and what it runs again.

use super::*;

#[tokio::test]
async fn what_had_succeeded_is_not_run_again_and_what_had_failed_is() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("order", order).build())
        .await;
    assert_eq!(failure(&world.run("o", "order", "").await), "broken");
    assert_eq!(
        world
            .client
            .get_kv_value("o", "undone")
            .await
            .unwrap()
            .as_deref(),
        Some("yes")
    );
    outside.repair();
    let failed = world.history("o").await;
    let rewind = world.client.retry_instance("o").await.unwrap();
    assert_eq!((rewind.failed_execution_id, rewind.execution_id()), (1, 2));
    taken(&world, &rewind).await;
    let ended = world.outcome("o").await;
    assert_eq!(output(&ended), "reserve, charge after reserving");
    assert_eq!(
        outside.done.all(),
        ["do reserve", "try charge", "do undo", "try charge"]
    );
    // Everything is as the code left it the second time; the first is in the record.
    let value = |key: &'static str| world.client.get_kv_value("o", key);
    assert_eq!(value("stage").await.unwrap().as_deref(), Some("charging"));
    assert_eq!(value("undone").await.unwrap(), None);
    let OrchestrationStatus::Completed { custom_status, .. } = ended else {
        unreachable!()
    };
    assert_eq!(custom_status.as_deref(), Some("reserving"));
    let labels = world.client.labels("o").await.unwrap();
    assert_eq!(labels.get("stage").map(String::as_str), Some("reserving"));
    let earlier = world.store.read_with_execution("o", 1).await.unwrap();
    assert_eq!(earlier, failed, "the failed record is kept as it was");
    let info = world.client.get_instance_info("o").await.unwrap();
    assert_eq!(
        (info.current_execution_id, info.status.as_str()),
        (2, "Completed")
    );
}

async fn fan_out(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let calls = [("do", "a"), ("try", "b"), ("do", "c"), ("try", "d")];
    let calls = calls.map(|(name, what)| ctx.schedule_activity(name, what));
    let results = ctx.join(calls.into()).await;
    let results: Result<Vec<_>, _> = results.into_iter().collect();
    Ok(results?.join(" "))
}

#[tokio::test]
async fn of_many_at_once_only_those_that_failed_run_again() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("fan", fan_out).build())
        .await;
    world.run("f", "fan", "").await;
    outside.repair();
    assert_eq!(output(&retried(&world, "f").await), "a b c d");
    for (note, times) in [("do a", 1), ("do c", 1), ("try b", 2), ("try d", 2)] {
        assert_eq!(outside.done.count(note), times, "{note}");
    }
}

async fn patient(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let policy = RetryPolicy::new(3);
    ctx.schedule_activity_with_retry("try", "it", policy).await
}

#[tokio::test]
async fn a_retried_call_gets_all_its_attempts_again() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("patient", patient).build())
        .await;
    world.run("p", "patient", "").await;
    assert_eq!(outside.done.count("try it"), 3);
    assert_eq!(failure(&retried(&world, "p").await), "broken");
    assert_eq!(outside.done.count("try it"), 6, "the budget is a new one");
    outside.repair();
    assert_eq!(output(&retried(&world, "p").await), "it");
    let executions = world.client.list_executions("p").await.unwrap();
    assert_eq!(executions, [1, 2, 3]);
}

#[tokio::test]
async fn a_panic_goes_on_with_code_that_does_not() {
    let store = in_memory().await;
    let outside = Outside::default();
    async fn panics(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        let done = ctx.schedule_activity("do", "it").await?;
        panic!("{done} is not what I expected");
    }
    async fn cured(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        let done = ctx.schedule_activity("do", "it").await?;
        ctx.schedule_activity("do", format!("more than {done}"))
            .await
    }
    let broken = orchestrations().register("fragile", panics).build();
    let world = World::on(Arc::clone(&store), outside.activities(), broken, quick()).await;
    assert!(failure(&world.run("f", "fragile", "").await).contains("not what I expected"));
    world.stop().await;
    let mended = orchestrations().register("fragile", cured).build();
    let world = World::on(store, outside.activities(), mended, quick()).await;
    assert_eq!(output(&retried(&world, "f").await), "more than it");
    assert_eq!(outside.done.all(), ["do it", "do more than it"]);
}

#[tokio::test]
async fn a_cancelled_instance_goes_on_as_if_nobody_had_asked() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("waits", waits).build())
        .await;
    for (id, terminate) in [("c", false), ("t", true)] {
        world.begin(id, "waits", "").await;
        world.waits_for(id, "go").await;
        if terminate {
            world.client.terminate_instance(id, "oops").await.unwrap()
        } else {
            world.client.cancel_instance(id, "oops").await.unwrap()
        }
        assert!(failure(&world.outcome(id).await).contains("oops"));
        let rewind = world.client.retry_instance(id).await.unwrap();
        taken(&world, &rewind).await;
        world.raise(id, "go", "on").await;
        assert_eq!(output(&world.outcome(id).await), "on");
    }
    assert_eq!(outside.done.count("do prepare"), 2, "once for each");
}

/// A timer that was open when it failed, after continue-as-new, with key-values of the execution before.
async fn later(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input.is_empty() {
        ctx.set_kv_value("n", "1");
        return ctx.continue_as_new("second").await;
    }
    let n = ctx.get_kv_value("n").unwrap_or_default();
    ctx.set_kv_value("n", format!("{n}2"));
    let timer = ctx.schedule_timer(Duration::from_millis(30));
    ctx.schedule_activity("try", format!("it {n}")).await?;
    timer.await;
    Ok(ctx.get_kv_value("n").unwrap_or_default())
}

#[tokio::test]
async fn key_values_are_those_that_the_failed_execution_began_with() {
    let outside = Outside::default();
    let world = outside
        .with(orchestrations().register("later", later).build())
        .await;
    assert_eq!(failure(&world.run("l", "later", "").await), "broken");
    outside.repair();
    assert_eq!(output(&retried(&world, "l").await), "12");
    assert_eq!(outside.done.all(), ["try it 1", "try it 1"]);
    let value = world.client.get_kv_value("l", "n").await.unwrap();
    assert_eq!(value.as_deref(), Some("12"));
}

/// Says its key, and how far it came before it fails for want of a repair.
fn charging(outside: &Outside) -> ActivityRegistry {
    let outside = outside.clone();
    let charge = move |ctx: ActivityContext, _: String| {
        let outside = outside.clone();
        async move {
            outside.done.add(ctx.idempotency_key());
            let before: Option<u32> = ctx.last_heartbeat().await.map_err(|e| e.to_string())?;
            if outside.repaired.load(Ordering::SeqCst) {
                return Ok(format!("{before:?}"));
            }
            ctx.heartbeat(&7_u32);
            Err("broken".to_owned())
        }
    };
    activities().register("charge", charge).build()
}

#[tokio::test]
async fn a_call_that_is_asked_for_anew_has_its_key_and_hears_what_it_said_last() {
    let outside = Outside::default();
    async fn pays(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        let policy = RetryPolicy::new(2).with_backoff(duroxide::BackoffStrategy::None);
        ctx.schedule_activity_with_retry("charge", "", policy).await
    }
    let code = orchestrations().register("pays", pays).build();
    let world = World::start(charging(&outside), code).await;
    assert_eq!(failure(&world.run("o", "pays", "").await), "broken");
    assert_eq!(failure(&retried(&world, "o").await), "broken");
    outside.repair();
    assert_eq!(output(&retried(&world, "o").await), "Some(7)");
    assert_eq!(outside.done.all(), vec!["o/1/2"; 5], "two, two and one");
}
