//! Stores that fail, and leases that are lost.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError};
use duroxide::{
    ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry, RuntimeOptions,
};

use crate::faulty::{self, Faulty};
use crate::support::{Notes, World, activities, in_memory, orchestrations, output, quick, until};

fn registry() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register("child", faulty::child)
        .register(
            "parent",
            |ctx: OrchestrationContext, input: String| async move {
                let child =
                    ctx.schedule_sub_orchestration_with_id("child", format!("c {input}"), input);
                Ok(child.surface_system_failures().await.unwrap_err())
            },
        )
        .register(
            "works",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("work", input).await
            },
        )
        .build()
}

async fn faulty() -> Arc<Faulty> {
    faulty::over(in_memory().await)
}

/// Runs one instance through eight failed commits; returns how often its claim was given back.
async fn through_failed_commits(lease: Duration) -> usize {
    let store = faulty().await;
    store.layer().unavailable("ack_orchestration_item", 8);
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lease,
        max_attempts: 1,
        ..quick()
    };
    let world = World::on(store.clone(), activities().build(), registry(), options).await;
    assert_eq!(output(&world.run("i", "echo", "fine").await), "fine");
    let given_back = store.layer().calls("abandon_orchestration_item");
    let counted = world.stopped().await;
    let counted = (
        counted.orch_failures,
        counted.orch_starts,
        counted.orch_completions,
    );
    assert_eq!(counted, (0, 1, 1));
    given_back
}

#[tokio::test]
async fn a_commit_is_tried_again_while_its_lease_holds() {
    assert_eq!(through_failed_commits(Duration::from_secs(120)).await, 0);
}

#[tokio::test]
async fn an_outage_longer_than_a_lease_delays_an_instance_and_never_fails_it() {
    // Were the claim not given back uncounted, the only attempt would be spent.
    assert!(through_failed_commits(Duration::from_millis(300)).await > 0);
}

#[tokio::test]
async fn a_lost_lease_drops_the_turn_and_is_no_failure() {
    let store = faulty().await;
    let lost = ProviderError::permanent("ack_orchestration_item", "Invalid lock token");
    store.layer().fail("ack_orchestration_item", 1, lost);
    let options = RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(300),
        ..quick()
    };
    let world = World::on(store, activities().build(), registry(), options).await;
    assert_eq!(output(&world.run("i", "echo", "fine").await), "fine");
    let ends = |e: &&duroxide::Event| matches!(e.kind, EventKind::OrchestrationCompleted { .. });
    assert_eq!(world.history("i").await.iter().filter(ends).count(), 1);
    let counted = world.stopped().await;
    assert_eq!(
        (counted.orch_failures, counted.orch_infrastructure_errors),
        (0, 0)
    );
}

/// Counts its runs, and takes this long.
fn takes(notes: &Notes, long: Duration) -> duroxide::ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("work", move |ctx: ActivityContext, _| {
            let notes = notes.clone();
            async move {
                notes.add("runs");
                tokio::select! {
                    () = ctx.cancelled() => notes.add("cancelled"),
                    () = tokio::time::sleep(long) => {}
                }
                Ok("done".to_owned())
            }
        })
        .build()
}

#[tokio::test]
async fn a_lease_shorter_than_a_second_is_kept_for_as_long_as_the_work_takes() {
    let notes = Notes::default();
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(400),
        orchestrator_lock_timeout: Duration::from_millis(400),
        ..quick()
    };
    let slow_turn = orchestrations()
        .register("works", |ctx: OrchestrationContext, _| async move {
            std::thread::sleep(Duration::from_millis(900));
            ctx.schedule_activity("work", "").await
        })
        .build();
    let world = World::with_options(
        takes(&notes, Duration::from_millis(900)),
        slow_turn,
        options,
    )
    .await;
    assert_eq!(output(&world.run("i", "works", "").await), "done");
    assert_eq!(notes.all(), ["runs"]);
    let counted = world.stopped().await;
    assert_eq!(counted.provider_errors, 0, "no lease ran out");
}

#[tokio::test]
async fn a_renewal_that_fails_is_tried_again_while_the_lease_is_valid() {
    let notes = Notes::default();
    let store = faulty().await;
    store.layer().unavailable("renew_work_item_lock", 3);
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(800),
        ..quick()
    };
    let world = World::on(
        store.clone(),
        takes(&notes, Duration::from_millis(1_400)),
        registry(),
        options,
    )
    .await;
    assert_eq!(output(&world.run("i", "works", "").await), "done");
    assert_eq!(notes.all(), ["runs"]);
    assert!(store.layer().calls("renew_work_item_lock") >= 4);
    world.stop().await;
}

#[tokio::test]
async fn a_renewal_that_hangs_costs_no_other_activity_its_lease() {
    let notes = Notes::default();
    let store = faulty().await;
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(600),
        ..quick()
    };
    let world = World::on(
        store.clone(),
        takes(&notes, Duration::from_millis(1_500)),
        registry(),
        options,
    )
    .await;
    store.layer().hang("renew_work_item_lock", 1);
    world.begin("unlucky", "works", "").await;
    until("its renewal hangs", async || {
        store.layer().calls("renew_work_item_lock") > 0
    })
    .await;
    assert_eq!(output(&world.run("lucky", "works", "").await), "done");
    assert_eq!(output(&world.outcome("unlucky").await), "done");
    // The unlucky one lost its lease and ran again; the lucky one ran once.
    assert_eq!((notes.count("runs"), notes.count("cancelled")), (3, 1));
    world.stop().await;
}

#[tokio::test]
async fn a_result_the_store_refuses_is_kept_and_offered_again() {
    let notes = Notes::default();
    let store = faulty().await;
    let refusal = ProviderError::permanent("ack_work_item", "does not fit");
    store.layer().fail("ack_work_item", usize::MAX, refusal);
    let world = World::on(
        store.clone(),
        takes(&notes, Duration::ZERO),
        registry(),
        quick(),
    )
    .await;
    let started = world.client.start_orchestration("i", "works", "");
    started.await.unwrap();
    until("the refusal is reported", async || {
        let blocked = world.runtime.blocked_instances();
        blocked
            .iter()
            .any(|b| b.report.contains("does not fit") && b.attempts > 15)
    })
    .await;
    store.layer().heal("ack_work_item");
    assert_eq!(output(&world.outcome("i").await), "done");
    // Its effects happened once, however often the store refused to hear of them.
    assert_eq!(notes.count("runs"), 1);
    // The worker lifts the block once its call returns, which may be after the client has the outcome.
    until("the block is lifted", async || {
        world.runtime.blocked_instances().is_empty()
    })
    .await;
    let counted = world.stopped().await;
    assert_eq!(
        (counted.activity_infra_errors, counted.activity_success),
        (1, 1)
    );
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_at_once_is_stored_later() {
    let notes = Notes::default();
    let store = faulty().await;
    store.layer().unavailable("ack_work_item", 3);
    let world = World::on(store, takes(&notes, Duration::ZERO), registry(), quick()).await;
    assert_eq!(output(&world.run("i", "works", "").await), "done");
    assert_eq!(notes.all(), ["runs"]);
    world.stop().await;
}

#[tokio::test]
async fn a_system_call_waits_out_an_outage() {
    let store = faulty().await;
    store.layer().unavailable("get_kv_value", 1);
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let read = ctx.get_kv_value_from_instance("other", "k").await?;
                Ok(format!("{read:?}"))
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "None");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dispatchers_outlive_any_number_of_failed_claims() {
    let clock = Arc::new(TokioClock::new());
    let memory: Arc<dyn Provider> = Arc::new(MemoryProvider::with_clock(*clock));
    let store = faulty::over(memory);
    store.layer().unavailable("claim_turns", 100);
    store.layer().unavailable("claim_work", 100);
    let runtime = duroxide::DuroxideRuntime::builder()
        .with_provider(store.clone())
        .with_activities(takes(&Notes::default(), Duration::ZERO))
        .with_orchestrations(registry())
        .with_options(quick())
        .with_clock(clock)
        .build()
        .await
        .unwrap();
    let client = runtime.client();
    client.start_orchestration("i", "works", "").await.unwrap();
    let status = client
        .wait_for_orchestration("i", Duration::from_secs(3_600))
        .await
        .unwrap();
    assert_eq!(output(&status), "done");
    assert!(store.layer().calls("claim_turns") > 100 && store.layer().calls("claim_work") > 100);
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn a_store_that_panics_ends_no_dispatcher_and_no_renewal() {
    let store = faulty().await;
    for operation in [
        "claim_turns",
        "claim_work",
        "ack_orchestration_item",
        "ack_work_item",
        "renew_work_item_lock",
        "lost_work_items",
    ] {
        store.layer().panic(operation, 2);
    }
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_secs(1),
        activity_cancellation_check_interval: Duration::from_millis(5),
        ..quick()
    };
    let store_used = Arc::clone(&store);
    let work = activities()
        .register("work", move |_: ActivityContext, _| {
            let store = Arc::clone(&store_used);
            async move {
                // Renewed again after the panics.
                while store.layer().calls("renew_work_item_lock") <= 2 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Ok("done".to_owned())
            }
        })
        .build();
    let world = World::on(store.clone(), work, registry(), options).await;
    assert_eq!(output(&world.run("i", "works", "").await), "done");
    assert!(store.layer().calls("lost_work_items") > 2);
    world.stop().await;
}

#[tokio::test]
async fn a_store_that_never_answers_does_not_keep_a_runtime_from_stopping() {
    let store = faulty().await;
    store.layer().hang("lost_work_items", usize::MAX);
    store.layer().hang("cleanup_orphaned_sessions", usize::MAX);
    let options = RuntimeOptions {
        activity_cancellation_check_interval: Duration::from_millis(5),
        session_cleanup_interval: Duration::from_millis(5),
        ..quick()
    };
    let work = activities()
        .register("work", |_: ActivityContext, _| {
            std::future::pending::<Result<String, String>>()
        })
        .build();
    let world = World::on(store.clone(), work, registry(), options).await;
    let started = world.client.start_orchestration("i", "works", "").await;
    started.unwrap();
    until("both hang", async || {
        store.layer().calls("lost_work_items") == 1
            && store.layer().calls("cleanup_orphaned_sessions") == 1
    })
    .await;
    let stopped = tokio::time::timeout(
        Duration::from_secs(10),
        world.runtime.clone().shutdown(Some(10)),
    );
    assert!(stopped.await.is_ok(), "it waits for the store");
}

/// One attempt is all an activity has here; what an outage takes from it does not count.
#[tokio::test(start_paused = true)]
async fn an_activity_that_outlives_an_outage_is_not_poison() {
    let clock = Arc::new(TokioClock::new());
    let memory: Arc<dyn Provider> = Arc::new(MemoryProvider::with_clock(*clock));
    let store = faulty::over(memory);
    let notes = Notes::default();
    let seen = notes.clone();
    let work = activities()
        .register("work", move |ctx: ActivityContext, _| {
            seen.add("begun");
            async move {
                if ctx.attempt() == 1 {
                    ctx.cancelled().await;
                }
                Ok("done".to_owned())
            }
        })
        .build();
    let options = RuntimeOptions {
        max_attempts: 1,
        ..quick()
    };
    let runtime = duroxide::DuroxideRuntime::builder()
        .with_provider(store.clone())
        .with_activities(work)
        .with_orchestrations(registry())
        .with_options(options)
        .with_clock(clock)
        .build()
        .await
        .unwrap();
    let client = runtime.client();
    client.start_orchestration("i", "works", "").await.unwrap();
    notes.wait_for("begun").await;
    store
        .layer()
        .unavailable("renew_work_item_lock", usize::MAX);
    store.layer().unavailable("lost_work_items", usize::MAX);
    store.layer().unavailable("claim_work", usize::MAX);
    let outage = async {
        tokio::time::sleep(Duration::from_secs(120)).await;
        for operation in ["renew_work_item_lock", "lost_work_items", "claim_work"] {
            store.layer().heal(operation);
        }
    };
    let ended = client.wait_for_orchestration("i", Duration::from_secs(3_600));
    let (status, ()) = tokio::join!(ended, outage);
    assert_eq!(output(&status.unwrap()), "done");
    runtime.shutdown(None).await;
}
