//! Time limits of calls: each kind comes back as itself.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;

const SECOND: Duration = Duration::from_secs(1);

type Outcome = Result<u32, ActivityError<String>>;

/// Takes a minute in its first attempts, and no time in a later one.
#[duroxide::activity]
async fn slow(ctx: ActivityContext, attempts: u32) -> Result<u32, String> {
    let mut seconds = 0;
    let first: u64 = ctx
        .idempotency_key()
        .rsplit('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // Each attempt is two events, and a timer and its firing lie between.
    if ctx.activity_id() < first + 4 * u64::from(attempts) {
        while seconds < 60 {
            tokio::time::sleep(SECOND).await;
            seconds += 1;
        }
    }
    Ok(seconds)
}

/// Says that it lives for a while, then hangs.
#[duroxide::activity]
async fn fading(ctx: ActivityContext, beats: u32) -> Result<u32, String> {
    for _ in 0..beats {
        tokio::time::sleep(SECOND).await;
        ctx.alive();
    }
    match beats {
        0..5 => std::future::pending().await,
        _ => Ok(beats),
    }
}

/// What an attempt started hears of its end.
static HEARD: tokio::sync::Notify = tokio::sync::Notify::const_new();

/// Moves its work to a task that watches for its end.
#[duroxide::activity]
async fn delegating(ctx: ActivityContext, _: u32) -> Result<u32, String> {
    let token = ctx.cancellation_token();
    tokio::spawn(async move {
        token.cancelled().await;
        HEARD.notify_one();
    });
    std::future::pending().await
}

#[duroxide::orchestration]
async fn delegated(ctx: OrchestrationContext) -> Outcome {
    ctx.call(delegating, 0).timeout(10 * SECOND).await
}

#[duroxide::orchestration]
async fn start_to_close(ctx: OrchestrationContext) -> Outcome {
    ctx.call(slow, 1).timeout(10 * SECOND).await
}

#[duroxide::orchestration]
async fn tried_again(ctx: OrchestrationContext) -> Outcome {
    ctx.call(slow, 2)
        .timeout(10 * SECOND)
        .retry(Retry::fixed(5, SECOND))
        .await
}

#[duroxide::orchestration]
async fn not_tried_again(ctx: OrchestrationContext) -> Outcome {
    ctx.call(slow, 2)
        .timeout(10 * SECOND)
        .retry(Retry::fixed(5, SECOND).not_after_timeouts())
        .await
}

#[duroxide::orchestration]
async fn total(ctx: OrchestrationContext) -> Outcome {
    ctx.call(slow, 100)
        .timeout(10 * SECOND)
        .retry(Retry::fixed(100, SECOND).total(25 * SECOND))
        .await
}

#[duroxide::orchestration]
async fn per_attempt(ctx: OrchestrationContext) -> Outcome {
    let policy = RetryPolicy::exponential(2).with_timeout(5 * SECOND);
    ctx.call(slow, 100).retry(policy).await
}

#[duroxide::orchestration]
async fn queue(ctx: OrchestrationContext) -> Outcome {
    ctx.call(slow, 0)
        .tag("nobody takes this")
        .queue_timeout(10 * SECOND)
        .await
}

#[duroxide::orchestration]
async fn heartbeat(ctx: OrchestrationContext, beats: u32) -> Outcome {
    ctx.call(fading, beats).heartbeat_timeout(3 * SECOND).await
}

async fn harness() -> Harness {
    let code = Handlers::new()
        .register(slow)
        .register(fading)
        .register(delegating)
        .register(delegated)
        .register(start_to_close)
        .register(tried_again)
        .register(not_tried_again)
        .register(total)
        .register(per_attempt)
        .register(queue)
        .register(heartbeat);
    Harness::builder().handlers(code).start().await
}

fn timed_out(which: Timeout) -> OrchestrationError<ActivityError<String>> {
    OrchestrationError::Failed(ActivityError::TimedOut { which })
}

#[tokio::test(start_paused = true)]
async fn every_limit_comes_back_as_itself() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let error = harness.execute(start_to_close, ()).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::StartToClose));
    assert_eq!((harness.now_ms() - began) / 1000, 10);
    let error = harness.execute(total, ()).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::ScheduleToClose));
    let error = harness.execute(per_attempt, ()).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::StartToClose));
    let error = harness.execute(queue, ()).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::Queue));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_timed_out_is_tried_again_unless_told_otherwise() {
    let mut harness = harness().await;
    assert_eq!(harness.execute(tried_again, ()).await.unwrap(), 0);
    assert_eq!(harness.calls("slow").len(), 3);
    let error = harness.execute(not_tried_again, ()).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::StartToClose));
    assert_eq!(harness.calls("slow").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_falls_silent_is_noticed() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let error = harness.execute(heartbeat, 4).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::Heartbeat));
    assert_eq!((harness.now_ms() - began) / 1000, 7);
    assert_eq!(harness.execute(heartbeat, 9).await.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_started_hears_that_its_time_is_over() {
    let mut harness = harness().await;
    let error = harness.execute(delegated, ()).await.unwrap_err();
    assert_eq!(error, timed_out(Timeout::StartToClose));
    let heard = tokio::time::timeout(60 * SECOND, HEARD.notified());
    heard.await.expect("the task hears of it");
}
