//! The async runtime around the engine: of either kind, and gone without a word.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::RuntimeOptions;
use duroxide::{ActivityContext, OrchestrationContext};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Notes, World, activities, orchestrations, output, quick};

fn both_kinds() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.enable_all().build().unwrap())
}

/// An engine with an activity that never ends, a timer far away, and a client that waits inside an activity.
async fn busy(store: Arc<dyn Provider>) -> World {
    let notes = Notes::default();
    let seen = notes.clone();
    let inside = duroxide::Client::new(store.clone());
    let world = World::on(
        store,
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .register("hangs", move |_: ActivityContext, _| {
                seen.add("hangs");
                std::future::pending::<Result<String, String>>()
            })
            .register("waits", move |_: ActivityContext, _| {
                let client = inside.clone();
                async move {
                    let end = client.wait_for_orchestration("timer", Duration::MAX).await;
                    Ok(format!("{end:?}"))
                }
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity(name, "x").await
            })
            .register("timer", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_timer(Duration::from_secs(3_600)).await;
                Ok(String::new())
            })
            .build(),
        quick(),
    )
    .await;
    for (instance, orchestration, input) in [
        ("hangs", "o", "hangs"),
        ("waits", "o", "waits"),
        ("timer", "timer", ""),
    ] {
        let started = world
            .client
            .start_orchestration(instance, orchestration, input);
        started.await.unwrap();
    }
    notes.wait_for("hangs").await;
    assert_eq!(output(&world.run("echo", "o", "echo").await), "x");
    world
}

#[test]
fn the_engine_works_on_both_kinds_of_async_runtimes_and_stops_on_both() {
    for tokio in both_kinds() {
        tokio.block_on(async {
            let store = Arc::new(SqliteProvider::new_in_memory().await.unwrap());
            let world = busy(store.clone()).await;
            world.runtime.clone().shutdown(Some(10)).await;
            drop(world);
            assert_eq!(Arc::strong_count(&store), 1);
        });
    }
}

#[test]
fn an_async_runtime_dropped_without_a_shutdown_releases_the_store() {
    for tokio in both_kinds() {
        let store = tokio.block_on(async {
            let store = Arc::new(SqliteProvider::new_in_memory().await.unwrap());
            drop(busy(store.clone()).await);
            store
        });
        drop(tokio);
        // The engine's own threads notice that the async runtime is gone, and let go.
        let began = Instant::now();
        while Arc::strong_count(&store) > 1 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "it is still held"
            );
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_an_async_runtime_left_behind_goes_on_in_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let finishes = orchestrations()
        .register("o", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("echo", "done").await
        })
        .build();
    // What was being worked on when the runtime went is free again when its lease has run out.
    let lease = Duration::from_millis(500);
    let options = || RuntimeOptions {
        orchestrator_lock_timeout: lease,
        worker_lock_timeout: lease,
        worker_lock_renewal_buffer: lease / 4,
        ..quick()
    };
    let [first, second] = both_kinds();
    first.block_on(async {
        let store = Arc::new(SqliteProvider::new(&url, None).await.unwrap());
        let none = activities().build();
        let world = World::on(store, none, finishes.clone(), options()).await;
        let started = world.client.start_orchestration("i", "o", "").await;
        started.unwrap();
    });
    drop(first);
    second.block_on(async {
        let store = Arc::new(SqliteProvider::new(&url, None).await.unwrap());
        let echo = activities()
            .register("echo", |_: ActivityContext, input| async move { Ok(input) })
            .build();
        let world = World::on(store, echo, finishes, options()).await;
        assert_eq!(output(&world.outcome("i").await), "done");
        world.stop().await;
    });
}
