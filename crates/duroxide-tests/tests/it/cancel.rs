//! Cancellation from outside, and from a parent.

use std::time::{Duration, Instant};

use duroxide::{
    ActivityContext, AppErrorKind, ErrorDetails, Event, EventKind, OrchestrationContext,
    RuntimeOptions,
};

use crate::support::{
    Notes, World, activities, details, failure, in_memory, orchestrations, output, quick,
};

async fn waits(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("go").await)
}

#[tokio::test]
async fn cancellation_goes_down_the_whole_tree_and_up_as_an_error() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("leaf", waits)
            .register("middle", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_sub_orchestration_with_id("leaf", "leaf", "")
                    .await
            })
            .register("root", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_sub_orchestration_with_id("middle", "middle", "")
                    .await
            })
            .build(),
    )
    .await;
    world.begin("root", "root", "").await;
    world.waits_for("leaf", "go").await;
    world.cancel("root", "enough").await;
    match details(world.outcome("root").await) {
        ErrorDetails::Application {
            kind: AppErrorKind::Cancelled { reason },
            message,
            retryable,
        } => {
            assert_eq!(
                (reason.as_str(), message.as_str(), retryable),
                ("enough", "", false)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        failure(&world.outcome("middle").await),
        "canceled: parent canceled"
    );
    assert_eq!(
        failure(&world.outcome("leaf").await),
        "canceled: parent canceled"
    );
    let deleted = world.client.delete_instance("root", false).await.unwrap();
    assert_eq!(deleted.instances_deleted, 3);
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_child_is_an_error_for_its_parent() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("child", waits)
            .register("parent", |ctx: OrchestrationContext, _| async move {
                Ok(ctx
                    .schedule_sub_orchestration_with_id("child", "c", "")
                    .await
                    .unwrap_err())
            })
            .build(),
    )
    .await;
    world.begin("p", "parent", "").await;
    world.waits_for("c", "go").await;
    world.cancel("c", "why not").await;
    assert_eq!(output(&world.outcome("p").await), "canceled: why not");
    world.stop().await;
}

#[tokio::test]
async fn the_first_request_counts_and_beats_completion_and_continuation() {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    for name in ["completes", "continues"] {
        client.start_orchestration(name, name, "").await.unwrap();
        client.cancel_instance(name, "first").await.unwrap();
        client.cancel_instance(name, "second").await.unwrap();
    }
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("completes", |_: OrchestrationContext, _| async {
                Ok("done".to_owned())
            })
            .register("continues", |ctx: OrchestrationContext, _| async move {
                ctx.continue_as_new("").await
            })
            .build(),
        quick(),
    )
    .await;
    for name in ["completes", "continues"] {
        assert_eq!(failure(&world.outcome(name).await), "canceled: first");
        let requests =
            |e: &&Event| matches!(e.kind, EventKind::OrchestrationCancelRequested { .. });
        assert_eq!(world.history(name).await.iter().filter(requests).count(), 1);
    }
    world.stop().await;
}

/// An activity that waits to be told, and how long that took.
fn listens(notes: &Notes) -> duroxide::ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("listens", move |ctx: ActivityContext, _| {
            let notes = notes.clone();
            async move {
                notes.add("runs");
                ctx.cancelled().await;
                assert!(ctx.is_cancelled() && ctx.cancellation_token().is_cancelled());
                notes.add("told");
                Ok("too late".to_owned())
            }
        })
        .build()
}

fn races() -> duroxide::OrchestrationRegistry {
    orchestrations()
        .register("races", |ctx: OrchestrationContext, _| async move {
            let work = ctx.schedule_activity("listens", "");
            let go = ctx.schedule_wait("go");
            let winner = ctx.select2(work, go).await.index();
            ctx.schedule_wait("end").await;
            Ok(winner.to_string())
        })
        .build()
}

/// Starts a race, lets the activity lose it, and expects that it hears of that soon.
async fn loses_soon(world: &World, notes: &Notes) {
    world.begin("i", "races", "").await;
    notes.wait_for("runs").await;
    let begun = Instant::now();
    world.raise("i", "go", "").await;
    notes.wait_for("told").await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn the_loser_of_a_race_is_told_long_before_its_lease_is_renewed() {
    let notes = Notes::default();
    // With these leases the next renewal is 25 s away.
    let world = World::start(listens(&notes), races()).await;
    loses_soon(&world, &notes).await;
    world.raise("i", "end", "").await;
    assert_eq!(output(&world.outcome("i").await), "1");

    // A loser is no error of anybody.
    crate::support::until("the loser is settled", async || {
        world
            .store
            .as_management_capability()
            .unwrap()
            .get_queue_depths()
            .await
            .unwrap()
            .worker_queue
            == 0
    })
    .await;
    let counted = world.stopped().await;
    assert_eq!(
        (counted.activity_infra_errors, counted.provider_errors),
        (0, 0)
    );
}

#[tokio::test]
async fn the_lease_of_a_cancelled_activity_is_let_go() {
    let notes = Notes::default();
    let seen = notes.clone();
    let slow_to_leave = activities()
        .register("listens", move |ctx: ActivityContext, _| {
            let seen = seen.clone();
            async move {
                seen.add("runs");
                ctx.cancelled().await;
                tokio::time::sleep(Duration::from_millis(300)).await;
                seen.add("left");
                Ok(String::new())
            }
        })
        .build();
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(200),
        activity_cancellation_grace_period: Duration::from_secs(5),
        ..quick()
    };
    let world = World::with_options(slow_to_leave, races(), options).await;
    world.begin("i", "races", "").await;
    notes.wait_for("runs").await;
    world.raise("i", "go", "").await;
    notes.wait_for("left").await;
    world.cancel("i", "enough").await;
    world.outcome("i").await;
    assert_eq!(world.stopped().await.provider_errors, 0);
}

#[tokio::test]
async fn an_activity_in_another_runtime_is_told_by_a_cheap_look_at_its_lease() {
    let notes = Notes::default();
    let store = in_memory().await;
    let turns = RuntimeOptions {
        worker_concurrency: 0,
        ..quick()
    };
    let work = RuntimeOptions {
        orchestration_concurrency: 0,
        activity_cancellation_check_interval: Duration::from_millis(20),
        ..quick()
    };
    let worker = World::on(
        store.clone(),
        listens(&notes),
        orchestrations().build(),
        work,
    )
    .await;
    let world = World::on(store, activities().build(), races(), turns).await;
    loses_soon(&world, &notes).await;
    world.cancel("i", "enough").await;
    world.outcome("i").await;
    worker.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn an_activity_that_does_not_listen_is_aborted_after_its_grace_period() {
    struct Gone(Notes);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.add("gone");
        }
    }
    let notes = Notes::default();
    let seen = notes.clone();
    let options = RuntimeOptions {
        activity_cancellation_grace_period: Duration::from_millis(30),
        ..quick()
    };
    let world = World::with_options(
        activities()
            .register("deaf", move |_: ActivityContext, _| {
                let seen = seen.clone();
                async move {
                    let _gone = Gone(seen.clone());
                    seen.add("runs");
                    std::future::pending::<Result<String, String>>().await
                }
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("deaf", "").await
            })
            .build(),
        options,
    )
    .await;
    world.begin("i", "o", "").await;
    notes.wait_for("runs").await;
    world.cancel("i", "enough").await;
    notes.wait_for("gone").await;
    assert_eq!(failure(&world.outcome("i").await), "canceled: enough");
    world.stop().await;
}

#[tokio::test]
async fn messages_for_an_instance_nobody_knows_hold_up_nobody() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |_: OrchestrationContext, input: String| async move {
                Ok(input)
            })
            .build(),
    )
    .await;
    world.cancel("nobody", "x").await;
    world.raise("nobody", "go", "").await;
    world.client.enqueue_event("nobody", "q", "").await.unwrap();
    for n in 0..20 {
        assert_eq!(output(&world.run(&format!("i{n}"), "o", "x").await), "x");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_cancellation_that_overtakes_the_start_cancels_the_new_instance() {
    let world = World::start(
        activities().build(),
        orchestrations().register("o", waits).build(),
    )
    .await;
    world.cancel("i", "before").await;
    world.begin("i", "o", "").await;
    assert_eq!(failure(&world.outcome("i").await), "canceled: before");
    world.stop().await;
}

#[tokio::test]
async fn an_activity_whose_futures_are_always_ready_hears_of_its_cancellation() {
    struct Dropped(Notes);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let notes = Notes::default();
    let seen = notes.clone();
    let busy = activities()
        .register("busy", move |_: ActivityContext, _: String| {
            let seen = seen.clone();
            async move {
                seen.add("runs");
                let _dropped = Dropped(seen);
                let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
                loop {
                    send.send(()).map_err(|e| e.to_string())?;
                    receive.recv().await;
                }
            }
        })
        .build();
    let works = orchestrations()
        .register("works", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("busy", "").await
        })
        .build();
    let world = World::start(busy, works).await;
    world.begin("i", "works", "").await;
    notes.wait_for("runs").await;
    world.cancel("i", "enough").await;
    notes.wait_for("dropped").await;
    world.stop().await;
}

#[tokio::test]
async fn the_client_of_an_activity_keeps_the_payload_limit_of_its_runtime() {
    let sends = activities()
        .register("sends", |ctx: ActivityContext, _: String| async move {
            let client = ctx.get_client();
            let sent = client.enqueue_event("other", "q", "x".repeat(2_000)).await;
            Ok(sent.is_err().to_string())
        })
        .build();
    let works = orchestrations()
        .register("works", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("sends", "").await
        })
        .build();
    let options = RuntimeOptions {
        payload_bytes_max: 1_000,
        ..quick()
    };
    let world = World::with_options(sends, works, options).await;
    let outcome = world.run("i", "works", "").await;
    assert_eq!(output(&outcome), "true");
    world.stop().await;
}
