//! Handlers that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::{ActivityContext, EventKind, OrchestrationContext, RuntimeOptions};

use crate::support::{World, activities, failure, in_memory, orchestrations, output, quick};

/// A world with handlers that panic in every way, and one that does not.
async fn fragile() -> World {
    World::start(
        activities()
            .register("panics", |_: ActivityContext, how: String| async move {
                if how == "odd" {
                    std::panic::panic_any(7_u32);
                }
                panic!("activity {how}")
            })
            .build(),
        orchestrations()
            .register(
                "panics",
                |ctx: OrchestrationContext, how: String| async move {
                    match how.as_str() {
                        "odd" => std::panic::panic_any(7_u32),
                        "later" => {
                            ctx.schedule_timer(Duration::from_millis(1)).await;
                            panic!("later");
                        }
                        _ => panic!("orchestration {how}"),
                    }
                },
            )
            .register("building", |_: OrchestrationContext, how: String| {
                assert!(how.is_empty(), "while building the future");
                async { Ok(String::new()) }
            })
            .register(
                "catches",
                |ctx: OrchestrationContext, how: String| async move {
                    Ok(ctx.schedule_activity("panics", how).await.unwrap_err())
                },
            )
            .register("on drop", |ctx: OrchestrationContext, _| async move {
                struct Bomb;
                impl Drop for Bomb {
                    fn drop(&mut self) {
                        if !std::thread::panicking() {
                            panic!("while dropped");
                        }
                    }
                }
                let _bomb = Bomb;
                ctx.schedule_wait("go").await;
                Ok(String::new())
            })
            .register(
                "fine",
                |_: OrchestrationContext, input: String| async move { Ok(input) },
            )
            .build(),
    )
    .await
}

/// The failure that an orchestration leaves which panics in this way.
async fn words_of_a_panic(name: &str, how: &str) -> String {
    let world = fragile().await;
    let words = failure(&world.run("i", name, how).await).to_owned();
    world.stop().await;
    words
}

/// What a caller hears of an activity that panics in this way.
async fn words_of_an_activity(how: &str) -> String {
    let world = fragile().await;
    let words = output(&world.run("i", "catches", how).await).to_owned();
    world.stop().await;
    words
}

#[tokio::test]
async fn a_panic_of_an_orchestration_is_its_failure_in_words() {
    let words = words_of_a_panic("panics", "boom").await;
    assert_eq!(words, "orchestration panicked: orchestration boom");
}

#[tokio::test]
async fn a_panic_without_a_text_is_a_failure_too() {
    let words = words_of_a_panic("panics", "odd").await;
    assert_eq!(words, "orchestration panicked: orchestration panicked");
}

#[tokio::test]
async fn a_panic_in_a_later_turn_is_a_failure_too() {
    let words = words_of_a_panic("panics", "later").await;
    assert_eq!(words, "orchestration panicked: later");
}

#[tokio::test]
async fn a_panic_before_there_is_a_future_is_a_failure_too() {
    let words = words_of_a_panic("building", "x").await;
    assert_eq!(words, "orchestration panicked: while building the future");
}

#[tokio::test]
async fn a_panic_of_an_activity_is_an_error_for_its_caller() {
    let words = words_of_an_activity("boom").await;
    assert_eq!(words, "activity panicked: activity boom");
}

#[tokio::test]
async fn a_panic_of_an_activity_without_a_text_is_an_error_too() {
    assert_eq!(words_of_an_activity("odd").await, "activity panicked");
}

#[tokio::test]
async fn a_panic_of_a_dropped_local_does_not_change_how_an_orchestration_ends() {
    let world = fragile().await;
    world.begin("i", "on drop", "").await;
    world.waits_for("i", "go").await;
    world.cancel("i", "enough").await;
    assert_eq!(failure(&world.outcome("i").await), "canceled: enough");
    world.stop().await;
}

#[tokio::test]
async fn a_runtime_outlives_the_panics_of_its_handlers() {
    let world = fragile().await;
    world.run("a", "panics", "boom").await;
    world.run("b", "catches", "odd").await;
    assert_eq!(output(&world.run("c", "fine", "alive").await), "alive");
    world.stop().await;
}

/// A world whose orchestration panics in its second turn, so many times; and how often it ran.
async fn panicking(times: u32, retries: u32) -> (World, Arc<AtomicU32>) {
    let tries = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&tries);
    let registry = orchestrations()
        .register("shaky", move |ctx: OrchestrationContext, _| {
            let seen = Arc::clone(&seen);
            async move {
                let answer = ctx.schedule_activity("echo", "fine").await?;
                let before = seen.fetch_add(1, Ordering::SeqCst);
                assert!(before >= times, "not yet");
                Ok(answer)
            }
        })
        .build();
    let activities = activities()
        .register("echo", |_, input| async move { Ok(input) })
        .build();
    let options = RuntimeOptions {
        orchestration_panic_retries: retries,
        ..quick()
    };
    let world = World::on(in_memory().await, activities, registry, options).await;
    (world, tries)
}

#[tokio::test]
async fn a_panic_that_passes_is_outlived_if_further_tries_are_allowed() {
    let (world, tries) = panicking(2, 2).await;
    assert_eq!(output(&world.run("i", "shaky", "").await), "fine");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    let completions = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted { .. });
    let history = world.history("i").await;
    let recorded = history.iter().filter(|e| completions(&e.kind)).count();
    assert_eq!(recorded, 1, "nothing of the failed tries is recorded");
    world.stop().await;
}

#[tokio::test]
async fn a_panic_counts_when_its_tries_are_used_up_and_at_once_by_default() {
    for retries in [0, 2] {
        let (world, tries) = panicking(u32::MAX, retries).await;
        let text = failure(&world.run("i", "shaky", "").await);
        assert_eq!(text, "orchestration panicked: not yet");
        assert_eq!(tries.load(Ordering::SeqCst), retries + 1);
        world.stop().await;
    }
}
