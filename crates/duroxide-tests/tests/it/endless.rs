//! Code that does not return: it is named, its lease is not renewed for ever, and nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duroxide::{ActivityContext, ErrorDetails, OrchestrationContext, RuntimeOptions};

use crate::logs::{Line, Lines};
use crate::support::{Notes, World, activities, details, orchestrations, output, quick, until};

/// Ends the loops of a test with the test.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spin(end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_with_a_limit_returns_though_code_does_not() {
    for in_activity in [false, true] {
        let (end, notes) = (Ends(Arc::default()), Notes::default());
        let (flag, seen) = (Arc::clone(&end.0), notes.clone());
        let activities = activities()
            .register("loops", move |_: ActivityContext, _: String| {
                let (flag, seen) = (Arc::clone(&flag), seen.clone());
                async move {
                    seen.add("loops");
                    spin(&flag);
                    Ok(String::new())
                }
            })
            .build();
        let (flag, seen) = (Arc::clone(&end.0), notes.clone());
        let orchestrations = orchestrations()
            .register("loops", move |ctx: OrchestrationContext, _: String| {
                let (flag, seen) = (Arc::clone(&flag), seen.clone());
                async move {
                    if in_activity {
                        return ctx.schedule_activity("loops", "").await;
                    }
                    seen.add("loops");
                    spin(&flag);
                    Ok(String::new())
                }
            })
            .build();
        let world = World::start(activities, orchestrations).await;
        world.begin("i", "loops", "").await;
        notes.wait_for("loops").await;
        let begun = Instant::now();
        world.runtime.clone().shutdown(Some(1_000)).await;
        let taken = begun.elapsed();
        assert!(taken < Duration::from_millis(1_300), "{taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_takes_long_is_named_in_the_log_with_its_instance() {
    let (lines, _guard) = Lines::collect();
    let end = Ends(Arc::default());
    let (one, two) = (Arc::clone(&end.0), Arc::clone(&end.0));
    let activities = activities()
        .register("loops", move |_: ActivityContext, _: String| {
            let flag = Arc::clone(&one);
            async move {
                spin(&flag);
                Ok(String::new())
            }
        })
        .build();
    let orchestrations = orchestrations()
        .register("blocks", move |_: OrchestrationContext, _: String| {
            let flag = Arc::clone(&two);
            async move {
                spin(&flag);
                Ok(String::new())
            }
        })
        .register("works", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("loops", "").await
        })
        .build();
    let world = World::start(activities, orchestrations).await;
    world.begin("slow turn", "blocks", "").await;
    world.begin("slow work", "works", "").await;
    for (subject, complaint) in [
        ("slow turn", "orchestration code must not block"),
        ("slow work", "use spawn_blocking"),
    ] {
        until(complaint, async || {
            let names = |line: &Line| line.message.contains(subject);
            let all = lines.all();
            all.iter()
                .any(|it| names(it) && it.message.contains(complaint))
        })
        .await;
    }
    drop(end);
    world.outcome("slow turn").await;
    world.outcome("slow work").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_never_ends_becomes_poison() {
    let end = Ends(Arc::default());
    let flag = Arc::clone(&end.0);
    let orchestrations = orchestrations()
        .register("loops", move |_: OrchestrationContext, _: String| {
            let flag = Arc::clone(&flag);
            async move {
                spin(&flag);
                Ok(String::new())
            }
        })
        .build();
    let options = RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(200),
        turn_duration_max: Duration::from_millis(300),
        max_attempts: 2,
        ..quick()
    };
    let world = World::with_options(activities().build(), orchestrations, options).await;
    let ended = details(world.run("i", "loops", "").await);
    assert!(matches!(ended, ErrorDetails::Poison { .. }), "{ended:?}");
    world.runtime.clone().shutdown(Some(0)).await;
}

#[test]
fn a_program_that_blocks_its_only_async_thread_loses_no_lease() {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let notes = Notes::default();
    let seen = notes.clone();
    tokio.block_on(async {
        let activities = activities()
            .register("work", move |_: ActivityContext, input: String| {
                let seen = seen.clone();
                async move {
                    seen.add("begun");
                    std::thread::sleep(Duration::from_millis(1_500));
                    Ok(input)
                }
            })
            .build();
        let orchestrations = orchestrations()
            .register(
                "works",
                |ctx: OrchestrationContext, input: String| async move {
                    ctx.schedule_activity("work", input).await
                },
            )
            .build();
        let options = RuntimeOptions {
            worker_lock_timeout: Duration::from_millis(400),
            ..quick()
        };
        let world = World::with_options(activities, orchestrations, options).await;
        world.begin("i", "works", "x").await;
        notes.wait_for("begun").await;
        // The only async thread is busy for longer than three leases.
        std::thread::sleep(Duration::from_millis(1_300));
        output(&world.outcome("i").await);
        assert_eq!(notes.all(), ["begun"]);
        world.stop().await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_never_returns_keeps_its_thread_and_no_slot() {
    let end = Ends(Arc::default());
    let flag = Arc::clone(&end.0);
    let orchestrations = orchestrations()
        .register("loops", move |_: OrchestrationContext, _: String| {
            let flag = Arc::clone(&flag);
            async move {
                spin(&flag);
                Ok(String::new())
            }
        })
        .register(
            "echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build();
    let options = RuntimeOptions {
        orchestration_concurrency: 1,
        orchestrator_lock_timeout: Duration::from_millis(200),
        turn_duration_max: Duration::from_millis(300),
        ..quick()
    };
    let world = World::with_options(activities().build(), orchestrations, options).await;
    for id in ["a", "b"] {
        world.begin(id, "loops", "").await;
    }
    assert_eq!(output(&world.run("c", "echo", "hello").await), "hello");
    world.runtime.clone().shutdown(Some(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_in_place_that_never_ends_takes_no_slot_for_ever_and_is_given_up_alone() {
    let orchestrations = orchestrations()
        .register("hangs", |ctx: OrchestrationContext, _: String| async move {
            let hung = ctx.run("hangs", std::future::pending::<Result<String, String>>);
            hung.await.map_err(|error| error.to_string())
        })
        .register("works", |_: OrchestrationContext, _: String| async move {
            Ok("done".to_owned())
        })
        .build();
    let options = RuntimeOptions {
        orchestration_concurrency: 2,
        orchestrator_lock_timeout: Duration::from_millis(200),
        turn_duration_max: Duration::from_millis(300),
        max_attempts: 2,
        ..quick()
    };
    let world = World::with_options(activities().build(), orchestrations, options).await;
    for id in ["one", "two", "three"] {
        let started = world.client.start_orchestration(id, "hangs", "");
        started.await.unwrap();
    }
    assert_eq!(output(&world.run("healthy", "works", "").await), "done");
    for id in ["one", "two", "three"] {
        let ended = details(world.outcome(id).await).display_message();
        assert!(ended.contains("start-to-close"), "{ended}");
    }
}

#[tokio::test]
async fn a_result_of_work_in_place_has_the_limit_of_other_results() {
    let orchestrations = orchestrations()
        .register("large", |ctx: OrchestrationContext, _: String| async move {
            let large = ctx.run("large", || async { Ok::<_, String>("x".repeat(2_000)) });
            large.await.map_err(|error| error.to_string())
        })
        .build();
    let options = RuntimeOptions {
        payload_bytes_max: 1_000,
        ..quick()
    };
    let world = World::with_options(activities().build(), orchestrations, options).await;
    let ended = details(world.run("i", "large", "").await);
    let text = ended.display_message();
    assert!(text.contains("run 'large'") && text.len() < 1_000, "{text}");
}
