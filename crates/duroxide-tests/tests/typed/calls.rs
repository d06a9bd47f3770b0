//! Calls of activities: errors that keep their type, and further attempts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;
use duroxide::{EventKind, Retryable};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum ChargeError {
    Declined { code: u32 },
    Busy,
}

impl Retryable for ChargeError {
    fn is_retryable(&self) -> bool {
        !matches!(self, Self::Declined { code: 0 })
    }
}

impl std::fmt::Display for ChargeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Idempotency keys that the activity saw.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn keys(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[duroxide::activity]
async fn charge(
    ctx: ActivityContext,
    seen: State<Seen>,
    cents: u64,
) -> Result<String, ChargeError> {
    let mut keys = seen.0.lock().unwrap();
    keys.push(ctx.idempotency_key());
    match (cents, keys.len()) {
        (0, _) => Err(ChargeError::Declined { code: 0 }),
        (1, _) => Err(ChargeError::Declined { code: 7 }),
        (2, 1 | 2) => Err(ChargeError::Busy),
        (3, _) => panic!("no coins"),
        _ => Ok(format!("paid {cents}")),
    }
}

type Outcome = Result<String, ActivityError<ChargeError>>;

#[duroxide::orchestration]
async fn once(ctx: OrchestrationContext, cents: u64) -> Outcome {
    ctx.call(charge, cents).await
}

#[duroxide::orchestration]
async fn stubborn(ctx: OrchestrationContext, cents: u64) -> Outcome {
    ctx.call(charge, cents)
        .retry(RetryPolicy::exponential(4).jitter(0.5))
        .await
}

#[duroxide::orchestration]
async fn choosy(ctx: OrchestrationContext, cents: u64) -> Outcome {
    ctx.call(charge, cents)
        .retry(Retry::exponential(4).never_on(["Declined"]))
        .await
}

#[duroxide::orchestration]
async fn picky(ctx: OrchestrationContext, cents: u64) -> Outcome {
    ctx.call(charge, cents)
        .retry(Retry::exponential(4))
        .retry_if(|error| *error == ChargeError::Busy)
        .await
}

#[duroxide::orchestration]
async fn two_at_once(ctx: OrchestrationContext, cents: u64) -> Outcome {
    let first = ctx.call(charge, cents).retry(RetryPolicy::exponential(2));
    let second = ctx.call(charge, cents + 1).tag("fast");
    drop(first);
    second.await
}

#[duroxide::orchestration]
async fn too_late(ctx: OrchestrationContext, cents: u64) -> Outcome {
    let call = ctx.call(charge, cents);
    ctx.sleep(Duration::from_secs(1)).await;
    call.tag("fast").await
}

#[duroxide::orchestration]
async fn paid_twice(ctx: OrchestrationContext, round: u64) -> Outcome {
    ctx.call(charge, 8).await?;
    let paid = ctx.call(charge, 9).await?;
    match round {
        0 => ctx.continue_with(paid_twice, 1).await,
        _ => Ok(paid),
    }
}

const NUMBER: ActivityRef<(), u64> = ActivityRef::new("number");

#[duroxide::orchestration]
async fn count(ctx: OrchestrationContext) -> Result<u64, ActivityError<String>> {
    ctx.call(NUMBER, ())
        .retry(RetryPolicy::exponential(3))
        .await
}

#[duroxide::orchestration]
async fn on_one_worker(ctx: OrchestrationContext, session: String) -> Outcome {
    ctx.call(charge, 8).session(session).await
}

fn code() -> Handlers {
    code_that_shows(&Seen::default())
}

fn code_that_shows(seen: &Seen) -> Handlers {
    Handlers::new()
        .state(seen.clone())
        .register(charge)
        .register(once)
        .register(stubborn)
        .register(choosy)
        .register(picky)
        .register(two_at_once)
        .register(too_late)
        .register(paid_twice)
        .register(on_one_worker)
        .register(count)
}

async fn harness() -> Harness {
    Harness::builder().handlers(code()).start().await
}

fn failed(error: ChargeError) -> OrchestrationError<ActivityError<ChargeError>> {
    OrchestrationError::Failed(ActivityError::Failed(error))
}

#[tokio::test(start_paused = true)]
async fn an_error_crosses_activity_orchestration_and_client_as_its_own_type() {
    let mut harness = harness().await;
    let error = harness.execute(once, 1).await.unwrap_err();
    assert_eq!(error, failed(ChargeError::Declined { code: 7 }));
    let handle = harness.client().start(once, 1).id("by-hand").await.unwrap();
    let error = handle.result().await.unwrap_err();
    assert_eq!(
        error.failed(),
        Some(&ActivityError::Failed(ChargeError::Declined { code: 7 }))
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_share_one_idempotency_key() {
    let seen = Seen::default();
    let builder = Harness::builder().handlers(code_that_shows(&seen));
    let mut harness = builder.start().await;
    assert_eq!(harness.execute(stubborn, 2).await.unwrap(), "paid 2");
    let keys = seen.keys();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn another_call_has_another_idempotency_key_also_in_another_execution() {
    let seen = Seen::default();
    let builder = Harness::builder().handlers(code_that_shows(&seen));
    let mut harness = builder.start().await;
    harness.execute(paid_twice, 0).await.unwrap();
    harness.execute(paid_twice, 1).await.unwrap();
    let mut keys = seen.keys();
    assert_eq!(keys.len(), 6);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6, "{keys:?}");
}

/// How long an instance paused before each further attempt.
async fn pauses(harness: &Harness, instance: &str) -> Vec<u64> {
    let history = harness.history(instance).await;
    let pause = |event: &duroxide::Event| match event.kind {
        EventKind::TimerCreated { fire_at_ms } => Some(fire_at_ms - event.timestamp_ms),
        _ => None,
    };
    history.iter().filter_map(pause).collect()
}

#[tokio::test(start_paused = true)]
async fn the_pauses_of_two_instances_differ_and_each_is_a_durable_timer() {
    let mut harness = harness().await;
    // The activity never succeeds; each run is executed again and decides the same.
    harness.execute(stubborn, 1).await.unwrap_err();
    harness.execute(stubborn, 1).await.unwrap_err();
    let (first, second) = (
        pauses(&harness, "run-1").await,
        pauses(&harness, "run-2").await,
    );
    assert_eq!((first.len(), second.len()), (3, 3));
    assert_ne!(first, second, "callers who failed together return apart");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_session_is_recorded_with_it() {
    let mut harness = harness().await;
    harness.execute(on_one_worker, "s-7").await.unwrap();
    let calls = harness.calls("charge");
    assert_eq!(calls[0].session_id.as_deref(), Some("s-7"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_other_types_is_undecodable_and_not_tried_again() {
    let builder = Harness::builder().handlers(code());
    let mut harness = builder.stub_value("number", "no number").start().await;
    let error = harness.execute(count, ()).await.unwrap_err();
    let OrchestrationError::Failed(ActivityError::Undecodable(undecodable)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(undecodable.text, "no number");
    assert_eq!(harness.calls("number").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_final_is_not_tried_again() {
    let mut harness = harness().await;
    let error = harness.execute(stubborn, 0).await.unwrap_err();
    assert_eq!(error, failed(ChargeError::Declined { code: 0 }));
    assert_eq!(harness.calls("charge").len(), 1, "the error says so");
    harness.execute(choosy, 1).await.unwrap_err();
    assert_eq!(harness.calls("charge").len(), 2, "the policy says so");
    harness.execute(picky, 1).await.unwrap_err();
    assert_eq!(harness.calls("charge").len(), 3, "the call says so");
    harness.execute(stubborn, 1).await.unwrap_err();
    assert_eq!(harness.calls("charge").len(), 7, "nobody says so");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_told_from_an_error() {
    let mut harness = harness().await;
    let error = harness.execute(once, 3).await.unwrap_err();
    let OrchestrationError::Failed(ActivityError::Panicked { message }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(message, "activity panicked: no coins");
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_effect_when_it_is_made_and_dropping_it_cancels_it() {
    let mut harness = harness().await;
    let id = harness
        .client()
        .start(two_at_once, 8)
        .id("two")
        .await
        .unwrap();
    harness.settle().await;
    let history = harness.history(id.id()).await;
    let kinds: Vec<&str> = history.iter().map(|e| e.kind.wire_name()).collect();
    // The second waits for a worker that takes its tag; the first was recorded, then dropped.
    assert_eq!(
        kinds,
        [
            "OrchestrationStarted",
            "ActivityScheduled",
            "ActivityScheduled",
            "ActivityCancelRequested"
        ]
    );
    let EventKind::ActivityScheduled { tag, .. } = &history[2].kind else {
        panic!("{history:?}");
    };
    assert_eq!(tag.as_deref(), Some("fast"));
}

#[tokio::test(start_paused = true)]
async fn an_option_that_comes_too_late_is_a_mistake_that_is_explained() {
    let mut harness = harness().await;
    let error = harness.execute(too_late, 8).await.unwrap_err();
    let OrchestrationError::Panicked { message } = error else {
        panic!("{error:?}");
    };
    assert!(message.contains("set it right after the call"), "{message}");
}
