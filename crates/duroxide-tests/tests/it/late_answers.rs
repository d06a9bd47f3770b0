//! Answers of the store that come late or never: what memory holds is never put in the way of something newer, and a
//! commit that may have happened costs no instance.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::{
    ActivityContext, ActivityRegistry, DuroxideRuntime, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, RuntimeOptions,
};

use crate::faulty::{self, Faulty};
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
        let world = World::on(store.clone(), step(), chain(), quick()).await;
        assert_eq!(output(&world.run("i", "chain", "x").await), "x.....");
        store.layer().answer_now();
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

/// A store in memory whose time is that of the test.
fn in_paused_time() -> (Arc<Faulty>, Arc<TokioClock>) {
    let clock = Arc::new(TokioClock::new());
    let memory: Arc<dyn Provider> = Arc::new(MemoryProvider::with_clock(*clock));
    (faulty::over(memory), clock)
}

/// What one chain returns on a runtime that tries everything at most `max_attempts` times.
async fn chain_on(store: Arc<Faulty>, clock: Arc<TokioClock>, max_attempts: u32) -> String {
    let options = RuntimeOptions {
        max_attempts,
        ..quick()
    };
    let runtime = DuroxideRuntime::builder()
        .with_provider(store)
        .with_activities(step())
        .with_orchestrations(chain())
        .with_options(options)
        .with_clock(clock)
        .build()
        .await
        .unwrap();
    let client = runtime.client();
    client.start_orchestration("i", "chain", "x").await.unwrap();
    let ended = client.wait_for_orchestration("i", Duration::from_secs(36_000));
    let output = output(&ended.await.unwrap()).to_owned();
    runtime.shutdown(None).await;
    output
}

#[tokio::test(start_paused = true)]
async fn claims_answered_after_their_leases_ended_make_nothing_poison() {
    let leases = [
        ("claim_turns", quick().orchestrator_lock_timeout),
        ("claim_work", quick().worker_lock_timeout),
    ];
    for (operation, lease) in leases {
        let (store, clock) = in_paused_time();
        store.layer().answer_after(operation, 12, lease * 2);
        assert_eq!(chain_on(store, clock, 3).await, "x.....", "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_whose_answers_are_lost_make_nothing_poison() {
    for operation in ["claim_turns", "claim_work"] {
        let (store, clock) = in_paused_time();
        for _ in 0..3 {
            store.layer().lose_answer(operation, 0);
        }
        assert_eq!(chain_on(store, clock, 3).await, "x.....", "{operation}");
    }
}
