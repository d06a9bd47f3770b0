//! Small effects that run in place.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::EventKind;
use duroxide::prelude::*;
use duroxide::testing::Harness;

/// How often the effect ran; each test has an orchestration and a counter of its own.
static ONCE: AtomicU32 = AtomicU32::new(0);
static AGAIN: AtomicU32 = AtomicU32::new(0);
static CRASHED: AtomicU32 = AtomicU32::new(0);

#[duroxide::orchestration]
async fn once(ctx: OrchestrationContext) -> Result<u32, String> {
    let number = ctx
        .run("count", || async {
            // Real time and real waiting are allowed here.
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<u32, String>(ONCE.fetch_add(1, Ordering::SeqCst) + 1)
        })
        .await?;
    ctx.sleep(Duration::from_secs(1)).await;
    Ok(number)
}

#[duroxide::orchestration]
async fn again(ctx: OrchestrationContext) -> Result<u32, ActivityError<u32>> {
    ctx.run("flaky", || async {
        match AGAIN.fetch_add(1, Ordering::SeqCst) + 1 {
            n @ 1..3 => Err(n),
            n => Ok(n),
        }
    })
    .retry(Retry::fixed(5, Duration::from_secs(10)))
    .await
}

#[duroxide::orchestration]
async fn crashing(ctx: OrchestrationContext) -> Result<u32, String> {
    let number = ctx
        .run("count", || async {
            Ok::<u32, String>(CRASHED.fetch_add(1, Ordering::SeqCst) + 1)
        })
        .await?;
    Ok(number)
}

#[duroxide::orchestration]
async fn panicking(ctx: OrchestrationContext) -> Result<(), ActivityError<u32>> {
    ctx.run("panic", || async { panic!("oh") }).await
}

#[duroxide::orchestration]
async fn many(ctx: OrchestrationContext) -> Result<u32, String> {
    let (one, two) = duroxide::join!(
        ctx.run("one", || async { Ok::<u32, String>(1) }),
        ctx.run("two", || async { Ok::<u32, String>(2) }),
    );
    let mut sum = one? + two?;
    // More than one turn answers.
    for n in 0..1_200 {
        sum += ctx
            .run("more", move || async move { Ok::<u32, String>(n % 2) })
            .await?;
    }
    Ok(sum)
}

static OTHERS: AtomicU32 = AtomicU32::new(0);
static SLOW: AtomicU32 = AtomicU32::new(0);

async fn never() -> Result<u32, String> {
    std::future::pending().await
}

/// One effect of two hangs, beside one that does not and before another one that does.
#[duroxide::orchestration]
async fn hanging(ctx: OrchestrationContext) -> Result<Vec<String>, String> {
    let (hangs, other) = duroxide::join!(
        ctx.run("hangs", never),
        ctx.run("other", || async {
            Ok::<u32, String>(OTHERS.fetch_add(1, Ordering::SeqCst) + 1)
        }),
    );
    let next = ctx.run("hangs too", never).await;
    let last = ctx.run("last", || async { Ok::<u32, String>(7) }).await;
    let told = [hangs, other, next, last].map(|result| match result {
        Ok(number) => number.to_string(),
        Err(ActivityError::TimedOut { which }) => which.to_string(),
        Err(other) => format!("{other:?}"),
    });
    Ok(told.to_vec())
}

/// The first two attempts take longer than the policy allows.
#[duroxide::orchestration]
async fn limited(ctx: OrchestrationContext) -> Result<u32, ActivityError<String>> {
    let policy = RetryPolicy::new(5)
        .with_backoff(duroxide::BackoffStrategy::Fixed {
            delay: Duration::from_secs(10),
        })
        .with_timeout(Duration::from_secs(2));
    ctx.run("slow", || async {
        let attempt = SLOW.fetch_add(1, Ordering::SeqCst) + 1;
        if attempt < 3 {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        Ok::<u32, String>(attempt)
    })
    .retry(policy)
    .await
}

static LOOKED: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum LookError {
    Busy,
    NoSuchHost,
}

impl Retryable for LookError {
    fn is_retryable(&self) -> bool {
        *self == Self::Busy
    }
}

/// Busy once, then gone for good.
#[duroxide::orchestration]
async fn looking(ctx: OrchestrationContext) -> Result<u32, ActivityError<LookError>> {
    ctx.run("look", || async {
        match LOOKED.fetch_add(1, Ordering::SeqCst) {
            0 => Err::<u32, _>(LookError::Busy),
            _ => Err(LookError::NoSuchHost),
        }
    })
    .retry(Retry::fixed(9, Duration::from_secs(1)))
    .await
}

/// Gives an effect a second.
#[duroxide::orchestration]
async fn brief(ctx: OrchestrationContext) -> Result<(), ActivityError<String>> {
    let answer = ctx.run("hangs", never).timeout(Duration::from_secs(1));
    answer.await.map(drop)
}

async fn harness() -> Harness {
    let code = Handlers::new()
        .register(hanging)
        .register(looking)
        .register(limited)
        .register(brief)
        .register(once)
        .register(again)
        .register(crashing)
        .register(panicking)
        .register(many);
    Harness::builder().handlers(code).start().await
}

#[tokio::test(start_paused = true)]
async fn an_effect_in_place_is_recorded_in_one_commit_and_not_run_again() {
    let mut harness = harness().await;
    let handle = harness.client().start(once, ()).id("once").await.unwrap();
    harness.settle().await;
    harness.advance(Duration::from_millis(10)).await;
    assert_eq!(
        harness.commits(),
        1,
        "the effect needs no commit of its own"
    );
    // The next turn replays the history: the process was killed.
    harness.crash().await;
    harness.wait("once").await;
    assert_eq!(handle.result().await.unwrap(), 1);
    harness.assert_deterministic("once").await;
    assert_eq!(ONCE.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_effect_in_place_is_tried_again_like_an_activity() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    assert_eq!(harness.execute(again, ()).await.unwrap(), 3);
    assert_eq!((harness.now_ms() - began) / 1000, 20);
    let history = harness.history("run-1").await;
    let failures = history
        .iter()
        .filter(|e| matches!(e.kind, EventKind::ActivityFailed { .. }));
    assert_eq!(failures.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_final_is_not_tried_again_in_place() {
    let mut harness = harness().await;
    let error = harness.execute(looking, ()).await.unwrap_err();
    let gone = ActivityError::Failed(LookError::NoSuchHost);
    assert_eq!(error, OrchestrationError::Failed(gone));
    assert_eq!(LOOKED.load(Ordering::SeqCst), 2);
    harness.assert_deterministic("run-1").await;
}

#[tokio::test(start_paused = true)]
async fn an_effect_whose_commit_was_lost_runs_again() {
    let mut harness = harness().await;
    harness.crash_before_commit(1);
    assert_eq!(harness.execute(crashing, ()).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_place_is_the_answer() {
    let mut harness = harness().await;
    let error = harness.execute(panicking, ()).await.unwrap_err();
    let OrchestrationError::Failed(ActivityError::Panicked { message }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(message, "activity panicked: oh");
}

#[tokio::test(start_paused = true)]
async fn many_effects_in_place_are_answered_over_several_turns() {
    let mut harness = harness().await;
    assert_eq!(harness.execute(many, ()).await.unwrap(), 603);
    assert!(harness.commits() > 1);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_hangs_is_given_up_alone() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let told = harness.execute(hanging, ()).await.unwrap();
    assert_eq!(told, ["start-to-close", "1", "start-to-close", "7"]);
    assert_eq!(OTHERS.load(Ordering::SeqCst), 1, "no turn was dropped");
    assert_eq!((harness.now_ms() - began) / 1000, 40);
    let started = harness.history("run-1").await;
    let is_failed = |kind: &EventKind| matches!(kind, EventKind::OrchestrationFailed { .. });
    assert!(!started.iter().any(|event| is_failed(&event.kind)));
    harness.assert_deterministic("run-1").await;
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_policy_holds_for_each_attempt_in_place() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    assert_eq!(harness.execute(limited, ()).await.unwrap(), 3);
    // A pause counts from the beginning of the turn that asks for it, which the attempt was part of.
    assert_eq!((harness.now_ms() - began) / 1000, 20);
    let history = harness.history("run-1").await;
    let timed_out = history.iter().filter(|event| {
        let EventKind::ActivityFailed { details } = &event.kind else {
            return false;
        };
        details.display_message().contains("exceeded 2s")
    });
    assert_eq!(timed_out.count(), 2);
    harness.assert_deterministic("run-1").await;
}

#[tokio::test(start_paused = true)]
async fn an_effect_has_the_time_that_it_is_given() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let error = harness.execute(brief, ()).await.unwrap_err();
    let OrchestrationError::Failed(ActivityError::TimedOut { which }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(which, duroxide::Timeout::StartToClose);
    assert_eq!(harness.now_ms() - began, 1_000);
}
