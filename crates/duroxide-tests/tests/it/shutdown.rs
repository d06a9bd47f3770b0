//! Stopping a runtime.

use std::time::Duration;

use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};
use tokio::runtime::Handle;

use crate::support::{Notes, World, activities, in_memory, orchestrations, output, quick, until};

async fn works(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("work", "").await
}

#[tokio::test]
async fn an_idle_runtime_leaves_no_task_behind() {
    let store = in_memory().await;
    let tasks_before = Handle::current().metrics().num_alive_tasks();
    let world = World::on(
        store,
        activities().build(),
        orchestrations().build(),
        RuntimeOptions::default(),
    )
    .await;
    until("it polls", async || {
        Handle::current().metrics().num_alive_tasks() > tasks_before
    })
    .await;
    world.runtime.shutdown(None).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks_before);
}

#[tokio::test]
async fn a_busy_runtime_leaves_no_task_behind_either() {
    let store = in_memory().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let tasks_before = Handle::current().metrics().num_alive_tasks();
    let world = World::on(
        store,
        activities()
            .register("work", move |_: ActivityContext, _| {
                seen.add("runs");
                std::future::pending::<Result<String, String>>()
            })
            .build(),
        orchestrations().register("o", works).build(),
        quick(),
    )
    .await;
    for n in 0..8 {
        world.begin(format!("i{n}"), "o", "").await;
    }
    until("all run", async || notes.count("runs") == 8).await;
    world.runtime.shutdown(Some(50)).await;
    // A store that takes longer than the limit to take eight leases back gets them a moment later.
    until("every task has ended", async || {
        Handle::current().metrics().num_alive_tasks() == tasks_before
    })
    .await;
}

#[tokio::test]
async fn several_shutdowns_at_once_all_wait_for_the_end() {
    let world = World::start(activities().build(), orchestrations().build()).await;
    let runtime = &world.runtime;
    tokio::join!(
        runtime.clone().shutdown(None),
        runtime.clone().shutdown(Some(0)),
        runtime.clone().shutdown(Some(5_000)),
    );
    runtime.clone().shutdown(None).await;
}

#[tokio::test]
async fn a_dropped_shutdown_can_be_called_again() {
    let world = World::start(
        activities()
            .register("work", |_: ActivityContext, _| {
                std::future::pending::<Result<String, String>>()
            })
            .build(),
        orchestrations().register("o", works).build(),
    )
    .await;
    world.begin("i", "o", "").await;
    world.claimed_activities(1).await;
    let impatient = tokio::time::timeout(
        Duration::from_millis(10),
        world.runtime.clone().shutdown(Some(60_000)),
    );
    assert!(impatient.await.is_err());
    world.runtime.shutdown(Some(0)).await;
}

#[tokio::test]
async fn work_in_progress_finishes_within_the_grace_period_and_is_stored() {
    let notes = Notes::default();
    let seen = notes.clone();
    let store = in_memory().await;
    let world = World::on(
        store.clone(),
        activities()
            .register("work", move |ctx: ActivityContext, _| {
                seen.add("runs");
                async move {
                    // The activity hears of the shutdown and hurries up.
                    ctx.shutdown_token().cancelled().await;
                    assert!(
                        !ctx.is_cancelled(),
                        "a shutdown does not make the result unwanted"
                    );
                    Ok("finished".to_owned())
                }
            })
            .build(),
        orchestrations().register("o", works).build(),
        quick(),
    )
    .await;
    world.begin("i", "o", "").await;
    notes.wait_for("runs").await;
    world.runtime.shutdown(Some(10_000)).await;

    let registry = orchestrations().register("o", works).build();
    let next = World::on(store, activities().build(), registry, quick()).await;
    assert_eq!(output(&next.outcome("i").await), "finished");
    assert_eq!(notes.all().len(), 1);
    next.stop().await;
}

#[tokio::test]
async fn a_drain_longer_than_the_lease_of_a_session_keeps_the_session() {
    let notes = Notes::default();
    let store = in_memory().await;
    let options = || RuntimeOptions {
        session_lock_timeout: Duration::from_millis(400),
        session_lock_renewal_buffer: Duration::from_millis(100),
        ..quick()
    };
    let registry = || {
        let seen = notes.clone();
        activities()
            .register("work", move |_: ActivityContext, input: String| {
                let seen = seen.clone();
                async move {
                    seen.add(format!("{input} begins"));
                    tokio::time::sleep(Duration::from_millis(1_200)).await;
                    seen.add(format!("{input} ends"));
                    Ok(input)
                }
            })
            .build()
    };
    let code = || {
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let first = ctx.schedule_activity_on_session("work", "first", "s");
                ctx.schedule_wait("begun").await;
                let second = ctx.schedule_activity_on_session("work", "second", "s");
                Ok(first.await? + &second.await?)
            })
            .build()
    };
    let one = World::on(store.clone(), registry(), code(), options()).await;
    one.begin("i", "o", "").await;
    notes.wait_for("first begins").await;
    one.waits_for("i", "begun").await;
    // The other node finds the second activity; its session belongs to a node that drains for three leases.
    let two = World::on(store, registry(), code(), options()).await;
    let drain = tokio::spawn(one.runtime.clone().shutdown(Some(10_000)));
    two.raise("i", "begun", "").await;
    assert_eq!(output(&two.outcome("i").await), "firstsecond");
    let expected = ["first begins", "first ends", "second begins", "second ends"];
    assert_eq!(notes.all(), expected);
    drain.await.unwrap();
    two.stop().await;
}

#[tokio::test]
async fn a_drain_longer_than_the_lease_runs_nothing_twice() {
    let notes = Notes::default();
    let store = in_memory().await;
    let options = || RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(400),
        ..quick()
    };
    let registry = || {
        let seen = notes.clone();
        activities()
            .register("work", move |_: ActivityContext, _| {
                seen.add("runs");
                async move {
                    tokio::time::sleep(Duration::from_millis(1_200)).await;
                    Ok("once".to_owned())
                }
            })
            .build()
    };
    let code = || orchestrations().register("o", works).build();
    let one = World::on(store.clone(), registry(), code(), options()).await;
    one.begin("i", "o", "").await;
    notes.wait_for("runs").await;
    // Another runtime would take over what loses its lease.
    let two = World::on(store, registry(), code(), options()).await;
    one.runtime.shutdown(Some(10_000)).await;
    assert_eq!(output(&two.outcome("i").await), "once");
    assert_eq!(notes.all(), ["runs"]);
    two.stop().await;
}

#[test]
fn an_immediate_shutdown_can_be_awaited_outside_a_tokio_context() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let world = tokio.block_on(World::start(activities().build(), orchestrations().build()));
    futures::executor::block_on(world.runtime.shutdown(Some(0)));
}
