//! An id that is deleted and started again is another instance: nothing of its earlier life reaches the later one.

use std::sync::Arc;
use std::time::Duration;

use duroxide::{
    ActivityContext, ActivityRegistry, OrchestrationContext, OrchestrationRegistry, Runtime,
    RuntimeOptions,
};

use crate::support::{Notes, World, activities, in_memory, orchestrations, output, quick};

/// Waits for a signal and answers with its own input.
fn remembers_its_input() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "report",
            |ctx: OrchestrationContext, input: String| async move {
                let word = ctx.schedule_wait("go").await;
                Ok(format!("{input} {word}"))
            },
        )
        .build()
}

/// A runtime that starts nothing new, so that another one gets the next turn.
async fn only_turns_of(world: &World, registry: OrchestrationRegistry) -> Arc<Runtime> {
    Runtime::start_with_options(
        Arc::clone(&world.store),
        activities().build(),
        registry,
        quick(),
    )
    .await
}

#[tokio::test]
async fn a_new_life_of_an_id_is_not_continued_with_the_code_of_the_old_one() {
    let registry = remembers_its_input();
    let first = World::start(activities().build(), registry.clone()).await;
    let client = &first.client;
    client
        .start_orchestration("i", "report", "old")
        .await
        .unwrap();
    first.waits_for("i", "go").await;
    // The first node keeps the suspended code in memory. It gets no turn while the id begins its second life.
    let second = only_turns_of(&first, registry).await;
    for round in 0..20 {
        client.delete_instance("i", true).await.unwrap();
        let input = format!("new{round}");
        client
            .start_orchestration("i", "report", &input)
            .await
            .unwrap();
        first.waits_for("i", "go").await;
        client.raise_event("i", "go", "now").await.unwrap();
        let outcome = first.outcome("i").await;
        assert_eq!(output(&outcome), format!("{input} now"));
    }
    second.shutdown(None).await;
    first.stop().await;
}

fn tells_who_called(notes: &Notes) -> ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("who", move |ctx: ActivityContext, _: String| {
            let notes = notes.clone();
            async move {
                notes.add(ctx.orchestration_name());
                Ok(String::new())
            }
        })
        .build()
}

#[tokio::test]
async fn an_activity_hears_the_orchestration_of_its_own_life() {
    async fn calls(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        ctx.schedule_activity("who", "").await
    }
    let notes = Notes::default();
    let registry = orchestrations()
        .register("first", calls)
        .register("second", calls)
        .build();
    let world = World::start(tells_who_called(&notes), registry).await;
    for name in ["first", "second"] {
        output(&world.run("i", name, "").await);
        world.client.delete_instance("i", false).await.unwrap();
    }
    assert_eq!(notes.all(), ["first", "second"]);
    world.stop().await;
}

#[tokio::test]
async fn without_anything_in_memory_lives_are_told_apart_as_well() {
    let options = RuntimeOptions {
        sticky_instances_max: 0,
        dispatcher_long_poll_timeout: Duration::from_millis(50),
        ..quick()
    };
    let store = in_memory().await;
    let world = World::on(store, activities().build(), remembers_its_input(), options).await;
    for input in ["old", "new"] {
        world.begin("i", "report", input).await;
        world.waits_for("i", "go").await;
        world.raise("i", "go", "now").await;
        assert_eq!(output(&world.outcome("i").await), format!("{input} now"));
        world.client.delete_instance("i", false).await.unwrap();
    }
    world.stop().await;
}
