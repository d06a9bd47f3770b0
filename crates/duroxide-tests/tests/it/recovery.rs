//! Going on after the runtime is gone.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, OrchestrationContext, OrchestrationRegistry, RuntimeOptions,
};

use crate::support::{Notes, World, activities, in_memory, orchestrations, output, quick};

const STEPS: usize = 6;

fn steps(notes: &Notes) -> ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("step", move |_: ActivityContext, n: String| {
            notes.add(format!("step {n}"));
            async move { Ok(n) }
        })
        .build()
}

fn walk() -> OrchestrationRegistry {
    orchestrations()
        .register("walk", |ctx: OrchestrationContext, _| async move {
            let mut path = String::new();
            for n in 0..STEPS {
                ctx.schedule_wait(format!("go {n}")).await;
                let guid = ctx.new_guid().await?;
                assert_eq!(guid.len(), 36);
                ctx.set_kv_value("guid", guid);
                path += &ctx.schedule_activity("step", n.to_string()).await?;
            }
            Ok(path)
        })
        .register_versioned("walk", "2.0.0", |_: OrchestrationContext, _| async {
            Ok("newer".to_owned())
        })
        .build()
}

#[tokio::test]
async fn an_instance_goes_on_where_it_stopped_after_every_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let notes = Notes::default();
    for n in 0..STEPS {
        let store: Arc<dyn Provider> = Arc::new(SqliteProvider::new(&url, None).await.unwrap());
        let world = World::on(store, steps(&notes), walk(), quick()).await;
        if n == 0 {
            world
                .client
                .start_orchestration_versioned("i", "walk", "1.0.0", "")
                .await
                .unwrap();
        }
        world.waits_for("i", &format!("go {n}")).await;
        world.raise("i", format!("go {n}"), "").await;
        if n + 1 < STEPS {
            world.waits_for("i", &format!("go {}", n + 1)).await;
        } else {
            assert_eq!(output(&world.outcome("i").await), "012345");
        }
        world.stop().await;
    }
    // Nothing ran twice.
    let expected: Vec<String> = (0..STEPS).map(|n| format!("step {n}")).collect();
    assert_eq!(notes.all(), expected);
}

#[tokio::test]
async fn what_a_runtime_was_doing_when_it_was_aborted_is_done_by_the_next() {
    let store = in_memory().await;
    let notes = Notes::default();
    let registry = |finish: bool| {
        let notes = notes.clone();
        activities()
            .register("work", move |ctx: ActivityContext, _| {
                let notes = notes.clone();
                async move {
                    notes.add(format!("attempt {}", ctx.attempt()));
                    if !finish {
                        std::future::pending::<()>().await;
                    }
                    Ok("done".to_owned())
                }
            })
            .build()
    };
    let code = || {
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("work", "").await
            })
            .build()
    };
    let short = || RuntimeOptions {
        worker_lock_timeout: Duration::from_millis(300),
        ..quick()
    };
    let before = World::on(store.clone(), registry(false), code(), short()).await;
    before.begin("i", "o", "").await;
    notes.wait_for("attempt 1").await;
    before.runtime.shutdown(Some(0)).await;
    let after = World::on(store, registry(true), code(), short()).await;
    assert_eq!(output(&after.outcome("i").await), "done");
    // A shutdown is not the fault of what it interrupts: the attempt does not count.
    assert_eq!(notes.all(), ["attempt 1", "attempt 1"]);
    after.stop().await;
}

#[tokio::test]
async fn two_runtimes_share_the_work_of_one_store() {
    const INSTANCES: usize = 20;
    let store = in_memory().await;
    let notes = Notes::default();
    let one = World::on(store.clone(), steps(&notes), walk(), quick()).await;
    let two = World::on(store, steps(&notes), walk(), quick()).await;
    for n in 0..INSTANCES {
        one.client
            .start_orchestration_versioned(format!("i{n}"), "walk", "1.0.0", "")
            .await
            .unwrap();
    }
    for n in 0..INSTANCES {
        let id = format!("i{n}");
        for step in 0..STEPS {
            two.waits_for(&id, &format!("go {step}")).await;
            two.raise(&id, format!("go {step}"), "").await;
        }
        assert_eq!(output(&one.outcome(&id).await), "012345");
    }
    assert_eq!(notes.all().len(), INSTANCES * STEPS, "no step ran twice");
    one.stop().await;
    two.stop().await;
}
