//! Failed instances that an operator retries from the point of failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide::client::RewindPoint;
use duroxide::{
    ActivityContext, ActivityRegistry, ClientError, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus, RetryPolicy,
};

use crate::support::{
    Notes, PATIENCE, World, activities, failure, in_memory, orchestrations, output, quick, until,
};

/// The world outside, which is broken until somebody repairs it.
#[derive(Clone, Default)]
struct Outside {
    repaired: Arc<AtomicBool>,
    done: Notes,
}

impl Outside {
    fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    /// `do`: always works. `try`: works once the world is repaired.
    fn activities(&self) -> ActivityRegistry {
        let (doing, trying) = (self.clone(), self.clone());
        activities()
            .register("do", move |_: ActivityContext, what: String| {
                doing.done.add(format!("do {what}"));
                async move { Ok(what) }
            })
            .register("try", move |_: ActivityContext, what: String| {
                trying.done.add(format!("try {what}"));
                let works = trying.repaired.load(Ordering::SeqCst);
                async move { works.then_some(what).ok_or("broken".to_owned()) }
            })
            .build()
    }

    async fn with(&self, orchestrations: OrchestrationRegistry) -> World {
        World::start(self.activities(), orchestrations).await
    }
}

/// Retries and waits for what comes of it.
async fn retried(world: &World, id: &str) -> OrchestrationStatus {
    let rewind = world.client.retry_instance(id).await.unwrap();
    world
        .client
        .wait_for_retry(&rewind, PATIENCE)
        .await
        .unwrap();
    world.outcome(id).await
}

async fn order(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.set_kv_value("stage", "reserving");
    ctx.set_custom_status("reserving");
    ctx.set_label("stage", "reserving");
    let reserved = ctx.schedule_activity("do", "reserve").await?;
    let before = ctx.get_kv_value("stage").unwrap_or_default();
    ctx.set_kv_value("stage", "charging");
    match ctx.schedule_activity("try", "charge").await {
        Ok(charged) => Ok(format!("{reserved}, {charged} after {before}")),
        Err(error) => {
            ctx.set_kv_value("stage", "undone");
            ctx.set_kv_value("undone", "yes");
            ctx.set_custom_status("undone");
            ctx.set_label("stage", "undone");
            ctx.schedule_activity("do", "undo").await?;
            Err(error)
        }
    }
}

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
    world
        .client
        .wait_for_retry(&rewind, PATIENCE)
        .await
        .unwrap();
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

#[tokio::test]
async fn a_failed_child_is_retried_with_its_parent() {
    let outside = Outside::default();
    let registry = orchestrations()
        .register("child", child)
        .register("parent", parent);
    let world = outside.with(registry.build()).await;
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

async fn waits(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("do", "prepare").await?;
    Ok(ctx.schedule_wait("go").await)
}

#[tokio::test]
async fn a_child_that_the_failure_cancelled_goes_on() {
    let outside = Outside::default();
    let registry = orchestrations()
        .register("waits", waits)
        .register("hasty", hasty_parent);
    let world = outside.with(registry.build()).await;
    assert_eq!(failure(&world.run("h", "hasty", "").await), "broken");
    outside.repair();
    let rewind = world.client.retry_instance("h").await.unwrap();
    assert!(rewind.children.iter().all(|child| child.cancelled));
    world
        .client
        .wait_for_retry(&rewind, PATIENCE)
        .await
        .unwrap();
    world.waits_for("h::sub::2", "go").await;
    until("the child runs", async || {
        let status = world.client.get_orchestration_status("h::sub::2").await;
        matches!(status, Ok(OrchestrationStatus::Running { .. }))
    })
    .await;
    world.raise("h::sub::2", "go", "gone").await;
    assert_eq!(output(&world.outcome("h").await), "gone it");
    assert!(
        outside.done.count("do prepare") <= 2,
        "at most once in each execution"
    );
}

#[tokio::test]
async fn a_result_of_a_child_that_came_too_late_counts() {
    let outside = Outside::default();
    let registry = orchestrations()
        .register("waits", waits)
        .register("careful", careful_parent);
    let world = outside.with(registry.build()).await;
    world.begin("c", "careful", "").await;
    world.waits_for("c::sub::2", "go").await;
    outside.done.wait_for("try it").await;
    world.raise("c::sub::2", "go", "went").await;
    assert_eq!(failure(&world.outcome("c").await), "broken");
    outside.repair();
    assert_eq!(output(&retried(&world, "c").await), "went it");
    assert_eq!(
        world.client.list_executions("c::sub::2").await.unwrap(),
        [1]
    );
}

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
    world
        .client
        .wait_for_retry(&rewind, PATIENCE)
        .await
        .unwrap();
    world
        .client
        .enqueue_event("l", "post", "two")
        .await
        .unwrap();
    assert_eq!(output(&world.outcome("l").await), "one two");
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
        match terminate {
            true => world.client.terminate_instance(id, "oops").await.unwrap(),
            false => world.client.cancel_instance(id, "oops").await.unwrap(),
        }
        assert!(failure(&world.outcome(id).await).contains("oops"));
        let rewind = world.client.retry_instance(id).await.unwrap();
        world
            .client
            .wait_for_retry(&rewind, PATIENCE)
            .await
            .unwrap();
        world.raise(id, "go", "on").await;
        assert_eq!(output(&world.outcome(id).await), "on");
    }
    assert_eq!(outside.done.count("do prepare"), 2, "once for each");
}

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
    let client = duroxide::Client::new(store.clone());
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
    until("every request is consumed", async || {
        let depths = world.client.get_queue_depths().await.unwrap();
        depths.orchestrator_queue == 0
    })
    .await;
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
    world
        .client
        .wait_for_retry(&rewind, PATIENCE)
        .await
        .unwrap();
    assert_eq!(output(&world.outcome("b").await), "dear more");
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
    let registry = || {
        orchestrations()
            .register("waits", waits)
            .register("hasty", hasty_parent)
    };
    let store = in_memory().await;
    let world = World::on(
        Arc::clone(&store),
        outside.activities(),
        registry().build(),
        quick(),
    )
    .await;
    assert_eq!(failure(&world.run("h", "hasty", "").await), "broken");
    until("the child is cancelled", async || {
        let status = world.client.get_orchestration_status("h::sub::2").await;
        matches!(status, Ok(OrchestrationStatus::Failed { .. }))
    })
    .await;
    until("everything is consumed", async || {
        world
            .client
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue
            == 0
    })
    .await;
    world.stop().await;
    // What a child told, and what an activity told, while no node had time for the parent.
    let details = duroxide::ErrorDetails::cancelled("parent failed");
    let told = duroxide::providers::WorkItem::SubOrchFailed {
        parent_instance: "h".into(),
        parent_execution_id: 1,
        parent_id: 2,
        details: details.clone(),
    };
    let client = duroxide::Client::new(Arc::clone(&store));
    store
        .enqueue_for_orchestrator(told.clone(), None)
        .await
        .unwrap();
    let rewind = client.retry_instance("h").await.unwrap();
    store.enqueue_for_orchestrator(told, None).await.unwrap();
    outside.repair();
    let world = World::on(store, outside.activities(), registry().build(), quick()).await;
    world
        .client
        .wait_for_retry(&rewind, PATIENCE)
        .await
        .unwrap();
    until("the child runs", async || {
        let status = world.client.get_orchestration_status("h::sub::2").await;
        matches!(status, Ok(OrchestrationStatus::Running { .. }))
    })
    .await;
    world.raise("h::sub::2", "go", "gone").await;
    assert_eq!(output(&world.outcome("h").await), "gone it");
}

#[tokio::test]
async fn a_child_that_fails_again_tells_its_rewound_parent() {
    let outside = Outside::default();
    let registry = orchestrations()
        .register("child", child)
        .register("parent", parent);
    let world = outside.with(registry.build()).await;
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

async fn grandparent(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_sub_orchestration("careful", "").await
}

#[tokio::test]
async fn a_child_that_is_retried_with_its_parent_keeps_what_its_own_children_gave() {
    let outside = Outside::default();
    let registry = orchestrations()
        .register("waits", waits)
        .register("careful", careful_parent);
    let world = outside
        .with(registry.register("grandparent", grandparent).build())
        .await;
    world.begin("g", "grandparent", "").await;
    world.waits_for("g::sub::2::sub::2", "go").await;
    outside.done.wait_for("try it").await;
    world.raise("g::sub::2::sub::2", "go", "went").await;
    assert_eq!(failure(&world.outcome("g").await), "broken");
    outside.repair();
    assert_eq!(output(&retried(&world, "g").await), "went it");
    assert_eq!(world.client.count_dead_letters().await.unwrap(), 0);
}
