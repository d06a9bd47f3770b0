//! Handlers that block their thread.

use std::time::{Duration, Instant};

use duroxide::{ActivityContext, OrchestrationContext};

use crate::support::{Notes, World, activities, orchestrations, output, until};

#[tokio::test]
async fn an_orchestration_that_blocks_its_thread_delays_nobody_else() {
    let notes = Notes::default();
    let seen = notes.clone();
    // A single thread drives everything else.
    let world = World::start(
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("blocks", move |_: OrchestrationContext, _| {
                let seen = seen.clone();
                async move {
                    seen.add("blocks");
                    std::thread::sleep(Duration::from_secs(3));
                    Ok("slow".to_owned())
                }
            })
            .register("spins", |_: OrchestrationContext, _| async {
                let end = Instant::now() + Duration::from_secs(2);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                Ok("slow".to_owned())
            })
            .register(
                "quick",
                |ctx: OrchestrationContext, input: String| async move {
                    ctx.schedule_activity("echo", input).await
                },
            )
            .build(),
    )
    .await;
    for n in 0..3 {
        world.begin(format!("slow{n}"), "blocks", "").await;
    }
    world.begin("slow3", "spins", "").await;
    notes.wait_for("blocks").await;
    let begun = Instant::now();
    for n in 0..10 {
        assert_eq!(
            output(&world.run(&format!("q{n}"), "quick", "x").await),
            "x"
        );
    }
    assert!(
        begun.elapsed() < Duration::from_millis(2_500),
        "{:?}",
        begun.elapsed()
    );
    for n in 0..4 {
        assert_eq!(output(&world.outcome(&format!("slow{n}")).await), "slow");
    }
    world.stop().await;
}

#[tokio::test]
async fn an_activity_that_blocks_its_thread_delays_nobody_else() {
    let notes = Notes::default();
    let seen = notes.clone();
    // A single thread drives everything else.
    let world = World::start(
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .register("blocks", move |_: ActivityContext, _| {
                let seen = seen.clone();
                async move {
                    seen.add("blocks");
                    std::thread::sleep(Duration::from_secs(3));
                    Ok("slow".to_owned())
                }
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity(name, "x").await
            })
            .build(),
    )
    .await;
    for n in 0..4 {
        world.begin(format!("slow{n}"), "o", "blocks").await;
    }
    until("all of them block", async || notes.count("blocks") == 4).await;
    let begun = Instant::now();
    for n in 0..10 {
        assert_eq!(output(&world.run(&format!("q{n}"), "o", "echo").await), "x");
    }
    assert!(
        begun.elapsed() < Duration::from_millis(2_500),
        "{:?}",
        begun.elapsed()
    );
    for n in 0..4 {
        assert_eq!(output(&world.outcome(&format!("slow{n}")).await), "slow");
    }
    world.stop().await;
}
