//! A held lease ends in one of three ways: the work is stored, the lease is given back, or it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::ProviderError;
use duroxide::{
    ActivityContext, ActivityRegistry, OrchestrationContext, OrchestrationRegistry, RuntimeOptions,
};
use tokio::sync::Notify;

use crate::faulty;
use crate::support::{
    Notes, World, activities, details, in_memory, orchestrations, output, quick, until,
};

fn works() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "works",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("work", input).await
            },
        )
        .build()
}

fn noted(notes: &Notes) -> ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("work", move |_: ActivityContext, input: String| {
            let notes = notes.clone();
            async move {
                notes.add("ran");
                Ok(input)
            }
        })
        .build()
}

#[tokio::test]
async fn what_an_activity_did_is_stored_after_an_outage_and_not_done_again() {
    let (store, notes) = (faulty::over(in_memory().await), Notes::default());
    store.layer().unavailable("ack_work_item", usize::MAX);
    let world = World::on(store.clone(), noted(&notes), works(), quick()).await;
    world.begin("i", "works", "done").await;
    let enough = 12;
    until("the result was refused often", async || {
        store.layer().calls("ack_work_item") >= enough
    })
    .await;
    store.layer().heal("ack_work_item");
    assert_eq!(output(&world.outcome("i").await), "done");
    assert_eq!(notes.all(), ["ran"]);
    assert_eq!(world.stopped().await.activity_success, 1);
}

#[tokio::test]
async fn a_result_that_waits_for_the_store_takes_no_slot_from_others() {
    let (store, notes) = (faulty::over(in_memory().await), Notes::default());
    store.layer().hang("ack_work_item", 0);
    store.layer().unavailable("ack_work_item", 14);
    let options = RuntimeOptions {
        worker_concurrency: 1,
        ..quick()
    };
    let world = World::on(store, noted(&notes), works(), options).await;
    for id in ["a", "b"] {
        world.begin(id, "works", id).await;
    }
    until("both ran", async || notes.count("ran") == 2).await;
    for id in ["a", "b"] {
        assert_eq!(output(&world.outcome(id).await), id);
    }
    assert_eq!(notes.count("ran"), 2);
    world.stop().await;
}

/// An activity that runs until it is dropped the first time, and ends at once the second time.
fn interrupted(notes: &Notes) -> ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("work", move |ctx: ActivityContext, input: String| {
            let notes = notes.clone();
            async move {
                notes.add(format!("attempt {}", ctx.attempt()));
                if notes.all().len() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(input)
            }
        })
        .build()
}

#[tokio::test]
async fn work_aborted_by_a_shutdown_is_free_at_once_and_not_counted_as_tried() {
    let notes = Notes::default();
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_secs(600),
        session_idle_timeout: Duration::from_secs(3_600),
        ..quick()
    };
    let store = in_memory().await;
    let first = World::on(
        Arc::clone(&store),
        interrupted(&notes),
        works(),
        options.clone(),
    )
    .await;
    first.begin("i", "works", "done").await;
    notes.wait_for("attempt 1").await;
    first.runtime.clone().shutdown(Some(50)).await;
    let begun = Instant::now();
    let second = World::on(store, interrupted(&notes), works(), options).await;
    assert_eq!(output(&second.outcome("i").await), "done");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(notes.all(), ["attempt 1", "attempt 1"]);
    second.stop().await;
}

#[tokio::test]
async fn an_activity_cancelled_while_it_waits_for_its_session_is_never_begun() {
    let (notes, go) = (Notes::default(), Arc::new(Notify::new()));
    let registry = {
        let (notes, go) = (notes.clone(), Arc::clone(&go));
        activities()
            .register("hold", move |_: ActivityContext, input: String| {
                let (notes, go) = (notes.clone(), Arc::clone(&go));
                async move {
                    notes.add(input);
                    go.notified().await;
                    Ok(String::new())
                }
            })
            .build()
    };
    let orchestrations = orchestrations()
        .register(
            "holds",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity_on_session("hold", input, "s").await
            },
        )
        .build();
    let world = World::start(registry, orchestrations).await;
    world.begin("a", "holds", "first").await;
    notes.wait_for("first").await;
    world.begin("b", "holds", "second").await;
    until("the second waits behind the first", async || {
        world.client.get_queue_depths().await.unwrap().worker_queue == 0
    })
    .await;
    world.cancel("b", "enough").await;
    assert!(details(world.outcome("b").await).is_cancelled());
    go.notify_one();
    output(&world.outcome("a").await);
    assert_eq!(notes.all(), ["first"]);
    world.stop().await;
}

/// Work that goes on until it is notified, and then notes whether it has been cancelled.
fn ends_when_notified(notes: &Notes, go: &Arc<Notify>) -> ActivityRegistry {
    let (notes, go) = (notes.clone(), Arc::clone(go));
    activities()
        .register("work", move |ctx: ActivityContext, input: String| {
            let (notes, go) = (notes.clone(), Arc::clone(&go));
            async move {
                notes.add("begun");
                go.notified().await;
                notes.add(format!("cancelled: {}", ctx.is_cancelled()));
                Ok(input)
            }
        })
        .build()
}

#[tokio::test]
async fn an_outage_of_renewals_longer_than_the_lease_cancels_nothing_by_itself() {
    let (store, notes, go) = (
        faulty::over(in_memory().await),
        Notes::default(),
        Arc::new(Notify::new()),
    );
    let registry = ends_when_notified(&notes, &go);
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(300),
        ..quick()
    };
    for operation in ["renew_work_item_lock", "lost_work_items"] {
        store.layer().unavailable(operation, usize::MAX);
    }
    let world = World::on(store.clone(), registry, works(), options).await;
    world.begin("i", "works", "x").await;
    notes.wait_for("begun").await;
    // From here on nobody can claim, and no renewal comes through for more than a lease.
    store.layer().unavailable("claim_work", usize::MAX);
    let renewals = store.layer().calls("renew_work_item_lock");
    until("renewals failed for longer than a lease", async || {
        store.layer().calls("renew_work_item_lock") > renewals + 20
    })
    .await;
    go.notify_one();
    notes.wait_for("cancelled: false").await;
    world.runtime.clone().shutdown(Some(0)).await;
}

#[tokio::test]
async fn a_renewal_that_is_refused_without_a_word_of_the_lease_cancels_nothing() {
    let (store, notes) = (faulty::over(in_memory().await), Notes::default());
    let go = Arc::new(Notify::new());
    let registry = ends_when_notified(&notes, &go);
    let damaged = ProviderError::permanent("renew_work_item_lock", "the page is damaged");
    store.layer().fail("renew_work_item_lock", 4, damaged);
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(900),
        ..quick()
    };
    let world = World::on(store.clone(), registry, works(), options).await;
    world.begin("i", "works", "done").await;
    until("it was refused and then renewed", async || {
        store.layer().calls("renew_work_item_lock") > 5
    })
    .await;
    go.notify_one();
    assert_eq!(output(&world.outcome("i").await), "done");
    assert_eq!(notes.all(), ["begun", "cancelled: false"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_sessions_that_failed_is_tried_again_within_the_lease() {
    let store = faulty::over(in_memory().await);
    store.layer().unavailable("renew_session_lock", 1);
    let lease = Duration::from_secs(10);
    let options = RuntimeOptions {
        session_lock_timeout: lease,
        ..quick()
    };
    let in_session = orchestrations()
        .register("works", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity_on_session("work", "", "s").await
        })
        .build();
    let never_done = activities()
        .register("work", |_: ActivityContext, _: String| async {
            std::future::pending().await
        })
        .build();
    let world = World::on(store.clone(), never_done, in_session, options).await;
    world.begin("i", "works", "").await;
    let renewals = async |count| {
        until("sessions are renewed", async || {
            store.layer().calls("renew_session_lock") >= count
        })
        .await;
        tokio::time::Instant::now()
    };
    let failed_at = renewals(1).await;
    let again_at = renewals(2).await;
    assert!(
        again_at - failed_at < lease / 2,
        "{:?}",
        again_at - failed_at
    );
}

#[tokio::test]
async fn a_turn_that_has_lost_its_lease_begins_no_other_effect() {
    const RENEWAL: &str = "renew_orchestration_item_lock";
    let (store, notes) = (faulty::over(in_memory().await), Notes::default());
    let lost = ProviderError::lease_lost(RENEWAL, "taken over by another node");
    store.layer().fail(RENEWAL, 1, lost);
    let (noted, faults) = (notes.clone(), store.clone());
    let effects = move |ctx: OrchestrationContext, _: String| {
        let (noted, faults) = (noted.clone(), faults.clone());
        async move {
            let first = noted.clone();
            let hears = ctx.run("first", move || {
                first.add("first");
                let faults = faults.clone();
                async move {
                    while faults.layer().calls(RENEWAL) == 0 {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    // The keeper of the lease hears it in the next moment.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Ok::<_, String>(())
                }
            });
            hears.await.map_err(|error| error.to_string())?;
            let next = ctx.run("second", move || {
                noted.add("second");
                async { Ok::<_, String>("done".to_owned()) }
            });
            next.await.map_err(|error| error.to_string())
        }
    };
    let code = orchestrations().register("effects", effects).build();
    let options = RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(400),
        ..quick()
    };
    let world = World::on(store, activities().build(), code, options).await;
    assert_eq!(output(&world.run("i", "effects", "").await), "done");
    assert_eq!(notes.all(), ["first", "first", "second"]);
    world.stop().await;
}
