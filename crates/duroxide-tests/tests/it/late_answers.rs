//! Answers of the store that come late: what memory holds is never put in the way of something newer.

use duroxide::{ActivityContext, ActivityRegistry, OrchestrationContext, OrchestrationRegistry};

use crate::faulty;
use crate::support::{World, activities, in_memory, orchestrations, output, quick};

fn step() -> ActivityRegistry {
    activities()
        .register("step", |_: ActivityContext, input: String| async move {
            Ok(format!("{input}."))
        })
        .build()
}

/// A chain of five activities, each fed with the result of the one before.
fn chain() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "chain",
            |ctx: OrchestrationContext, mut text: String| async move {
                for _ in 0..5 {
                    text = ctx.schedule_activity("step", text).await?;
                }
                Ok(text)
            },
        )
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_answered_after_later_turns_were_claimed_costs_no_instance() {
    for held_back in 0..4 {
        let store = faulty::over(in_memory().await);
        store
            .layer()
            .answer_late("ack_orchestration_item", held_back);
        let world = World::on(store, step(), chain(), quick()).await;
        assert_eq!(output(&world.run("i", "chain", "x").await), "x.....");
        // Nor was anything old tried: the store had nothing to refuse.
        assert_eq!(world.stopped().await.provider_errors, 0);
    }
}
