//! Answers of the store that come late or never: what memory holds is never put in the way of something newer, and a
//! commit that may have happened costs no instance.

use std::collections::HashMap;
use std::time::Duration;

use duroxide::{
    ActivityContext, ActivityRegistry, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, RuntimeOptions,
};

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

/// How often each schedule of a history was answered.
fn answers(history: &[Event]) -> HashMap<u64, usize> {
    let mut answers = HashMap::new();
    for event in history {
        if let (EventKind::ActivityCompleted { .. }, Some(schedule)) =
            (&event.kind, event.source_event_id)
        {
            *answers.entry(schedule).or_default() += 1;
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_may_have_happened_costs_no_instance_and_repeats_nothing() {
    for operation in ["ack_orchestration_item", "ack_work_item"] {
        for spared in 0..6 {
            let store = faulty::over(in_memory().await);
            store.layer().lose_answer(operation, spared);
            let options = RuntimeOptions {
                orchestrator_lock_timeout: Duration::from_millis(300),
                worker_lock_timeout: Duration::from_millis(300),
                max_attempts: 1,
                ..quick()
            };
            let world = World::on(store.clone(), step(), chain(), options).await;
            let outcome = world.run("i", "chain", "x").await;
            assert_eq!(output(&outcome), "x.....", "{operation} {spared}");
            let answers = answers(&world.history("i").await);
            assert_eq!(answers.len(), 5, "{operation} {spared}");
            assert!(answers.values().all(|times| *times == 1), "{answers:?}");
            let counted = world.stopped().await;
            let bad = (counted.orch_failures, counted.orch_infrastructure_errors);
            assert_eq!(bad, (0, 0), "{operation} {spared}");
        }
    }
}
