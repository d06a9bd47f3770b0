//! Names nobody registers, and ids that are started again and again.

use duroxide::{ActivityContext, ErrorDetails, OrchestrationContext, RuntimeOptions};

use super::echo;
use crate::support::{
    Notes, World, activities, details, in_memory, orchestrations, output, quick, until,
};

#[tokio::test]
async fn an_orchestration_nobody_registers_is_poisoned_and_others_go_on() {
    let options = RuntimeOptions {
        max_attempts: 3,
        ..quick()
    };
    let world = World::with_options(activities().build(), echo(), options).await;
    for name in ["nobody", "", "'; --"] {
        world.begin(format!("i{name}"), name, "").await;
    }
    assert_eq!(output(&world.run("alive", "leaf", "x").await), "x");
    for name in ["nobody", "", "'; --"] {
        let failed = details(world.outcome(&format!("i{name}")).await);
        assert!(matches!(failed, ErrorDetails::Poison { .. }), "{failed:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_flood_of_starts_for_one_id_makes_one_instance() {
    let notes = Notes::default();
    let seen = notes.clone();
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    for n in 0..100 {
        client
            .start_orchestration("i", "o", n.to_string())
            .await
            .unwrap();
    }
    let world = World::on(
        store,
        activities()
            .register("once", move |_: ActivityContext, input: String| {
                seen.add(input.clone());
                async move { Ok(input) }
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("once", input).await
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.outcome("i").await), "0");
    until("the queue is empty", async || {
        world
            .client
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue
            == 0
    })
    .await;
    assert_eq!(notes.all(), ["0"]);
    world.stop().await;
}
