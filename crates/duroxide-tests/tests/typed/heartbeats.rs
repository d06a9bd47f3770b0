//! What an activity says about its progress reaches its next attempt.

use std::sync::Arc;
use std::time::Duration;

use duroxide::ScheduledActivityIdentifier;
use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::testing::Harness;

const SECOND: Duration = Duration::from_secs(1);

/// Works on one row per second and says so; fails, hangs or goes on after the tenth of each attempt.
#[duroxide::activity]
async fn import(ctx: ActivityContext, how: String) -> Result<(u64, u64), String> {
    let begun = ctx
        .last_heartbeat::<u64>()
        .await
        .map_err(|error| error.to_string())?;
    let begun = begun.unwrap_or(0);
    for row in begun..25 {
        if row == begun + 10 {
            match how.as_str() {
                "fails" => return Err("the connection broke".to_owned()),
                "hangs" => std::future::pending().await,
                _ => {}
            }
        }
        tokio::time::sleep(SECOND).await;
        ctx.heartbeat(&(row + 1));
    }
    Ok((begun, u64::from(ctx.attempt())))
}

/// Says something a thousand times and fails.
#[duroxide::activity]
async fn chatter(ctx: ActivityContext) -> Result<u64, String> {
    let heard = ctx
        .last_heartbeat::<u64>()
        .await
        .map_err(|error| error.to_string())?;
    for word in 0..1000_u64 {
        ctx.heartbeat(&word);
        tokio::time::sleep(SECOND / 100).await;
    }
    heard.ok_or_else(|| "nothing was heard".to_owned())
}

#[duroxide::orchestration]
async fn importing(
    ctx: OrchestrationContext,
    how: String,
) -> Result<(u64, u64), ActivityError<String>> {
    ctx.call(import, &how)
        .heartbeat_timeout(5 * SECOND)
        .retry(Retry::fixed(5, SECOND))
        .await
}

#[duroxide::orchestration]
async fn chatting(ctx: OrchestrationContext) -> Result<u64, ActivityError<String>> {
    ctx.call(chatter, ()).retry(Retry::fixed(2, SECOND)).await
}

fn code() -> Handlers {
    Handlers::new()
        .register(import)
        .register(chatter)
        .register(importing)
        .register(chatting)
}

fn store() -> Arc<MemoryProvider> {
    Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)))
}

#[tokio::test(start_paused = true)]
async fn an_attempt_goes_on_where_the_failed_one_was() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let (begun, _) = harness.execute(importing, "fails").await.unwrap();
    assert_eq!(begun, 20, "two attempts did ten rows each");
    assert_eq!(harness.calls("import").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_goes_on_where_the_hung_one_was() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let (begun, _) = harness.execute(importing, "hangs").await.unwrap();
    assert_eq!(begun, 20, "each was noticed by its silence");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_goes_on_where_the_killed_one_was() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let client = harness.client();
    let started = client.start(importing, "goes on").id("import-7");
    let handle = started.await.unwrap();
    harness.advance(12 * SECOND + SECOND / 2).await;
    harness.crash().await;
    harness.wait("import-7").await;
    let (begun, attempt) = handle.result().await.unwrap();
    // What was said in the last second before the kill may be gone with the process.
    assert!((11..=12).contains(&begun), "{begun}");
    assert_eq!((attempt, harness.crashes()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_nothing_of_what_was_said() {
    let store = store();
    let app = Duroxide::on(store.clone())
        .handlers(code())
        .start()
        .await
        .unwrap();
    let handle = app
        .client()
        .start(importing, "goes on")
        .id("import-7")
        .await
        .unwrap();
    let call = ScheduledActivityIdentifier {
        instance: "import-7".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    while app.client().last_heartbeat::<u64>(&call).await.unwrap() < Some(7) {
        tokio::time::sleep(SECOND / 10).await;
    }
    app.shutdown().await;
    let app = Duroxide::on(store).handlers(code()).start().await.unwrap();
    let handle = app.client().handle(importing, handle.id());
    let (begun, attempt) = handle.result().await.unwrap();
    assert!((7..25).contains(&begun), "{begun}");
    assert_eq!(attempt, 1, "a shutdown is no attempt");
    app.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_talkative_activity_costs_a_write_per_second() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let heard = harness.execute(chatting, ()).await;
    assert_eq!(heard.unwrap(), 999, "the last word of the first attempt");
    // Two attempts of ten seconds each, and what was left when the first one failed.
    let writes = harness.store_calls("heartbeat_work_item");
    assert!((20..=24).contains(&writes), "{writes}");
}

/// Says a number and fails while the store is still at it; says what the attempt before said.
#[duroxide::activity]
async fn breaking(ctx: ActivityContext, words: u64) -> Result<u64, String> {
    let heard = ctx.last_heartbeat::<u64>().await;
    if let Some(heard) = heard.map_err(|error| error.to_string())? {
        return Ok(heard);
    }
    for word in 1..=words {
        ctx.heartbeat(&word);
        tokio::time::sleep(SECOND / 10).await;
    }
    Err("nothing was heard".to_owned())
}

#[duroxide::orchestration]
async fn broken(ctx: OrchestrationContext, words: u64) -> Result<u64, ActivityError<String>> {
    let retry = Retry::fixed(2, SECOND);
    ctx.call(breaking, words).retry(retry).await
}

/// Passes heartbeats on late, or never.
struct Slow(Duration);

impl Layer for Slow {
    async fn heartbeat_work_item(
        &self,
        next: &dyn Provider,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Result<bool, ProviderError> {
        tokio::time::sleep(self.0).await;
        next.heartbeat_work_item(token, extend_for, call, details)
            .await
    }
}

async fn heard_by(slow: Duration, words: u64) -> (Result<u64, String>, Duration) {
    let store = Arc::new(Layered::around(store(), Slow(slow)));
    let code = Handlers::new().register(breaking).register(broken);
    let app = Duroxide::on(store).handlers(code).start().await.unwrap();
    let begun = tokio::time::Instant::now();
    let started = app.client().start(broken, words).await.unwrap();
    let heard = started.result().await.map_err(|error| error.to_string());
    let took = begun.elapsed();
    app.shutdown().await;
    (heard, took)
}

#[tokio::test(start_paused = true)]
async fn what_is_being_stored_when_an_attempt_fails_reaches_the_next_one() {
    assert_eq!(heard_by(SECOND / 2, 1).await.0, Ok(1));
    let (heard, _) = heard_by(SECOND / 2, 3).await;
    assert_eq!(heard, Ok(3), "the last word, after the one under way");
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_not_wait_for_ever_for_its_last_words() {
    let (heard, took) = heard_by(1000 * SECOND, 3).await;
    assert!(heard.unwrap_err().contains("nothing was heard"));
    assert!(took < 20 * SECOND, "{took:?}");
}

#[tokio::test]
async fn a_unit_test_of_an_activity_may_speak() {
    let ctx = ActivityContext::for_unit_test("chatter", Arc::new(MemoryProvider::new()));
    ctx.heartbeat("half");
    assert_eq!(ctx.last_heartbeat::<String>().await.unwrap(), None);
}

/// What the late listener of the test below heard.
static HEARD: std::sync::Mutex<Vec<Result<Option<u64>, String>>> =
    std::sync::Mutex::new(Vec::new());

/// Talks, or asks after three seconds what was said last.
#[duroxide::activity]
async fn talks_or_listens_late(ctx: ActivityContext, talks: bool) -> Result<(), String> {
    if talks {
        ctx.heartbeat(&7_u64);
        tokio::time::sleep(60 * SECOND).await;
    } else {
        tokio::time::sleep(3 * SECOND).await;
        let heard = ctx.last_heartbeat::<u64>().await;
        let heard = heard.map_err(|error| error.to_string());
        HEARD.lock().unwrap().push(heard);
    }
    Ok(())
}

#[duroxide::orchestration]
async fn talking_or_listening(
    ctx: OrchestrationContext,
    talks: bool,
) -> Result<(), ActivityError<String>> {
    ctx.call(talks_or_listens_late, talks).await
}

#[tokio::test(start_paused = true)]
async fn an_activity_of_a_deleted_instance_hears_nothing_of_the_next_one_of_its_id() {
    let code = Handlers::new()
        .register(talks_or_listens_late)
        .register(talking_or_listening);
    let app = Duroxide::on(store()).handlers(code).start().await.unwrap();
    let client = app.client();
    let start = |talks| client.start(talking_or_listening, talks).id("once");
    start(false).await.unwrap();
    tokio::time::sleep(SECOND / 2).await;
    client.delete_instance("once", true).await.unwrap();
    start(true).await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    let call = ScheduledActivityIdentifier {
        instance: "once".into(),
        execution_id: 1,
        activity_id: 2,
    };
    let said = client.last_heartbeat::<u64>(&call).await.unwrap();
    assert_eq!(said, Some(7), "the later one has said something by then");
    let heard = HEARD.lock().unwrap().clone();
    assert!(
        matches!(&heard[..], [Err(error)] if error.contains("lease")),
        "{heard:?}"
    );
    app.shutdown().await;
}

/// Cannot be asked for what was said last, so many times.
struct OutOfReach(std::sync::atomic::AtomicU32);

impl Layer for OutOfReach {
    async fn last_heartbeat(
        &self,
        next: &dyn Provider,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<String>, ProviderError> {
        use std::sync::atomic::Ordering::Relaxed;
        let less = |left: u32| left.checked_sub(1);
        if self.0.fetch_update(Relaxed, Relaxed, less).is_ok() {
            return Err(ProviderError::retryable("last_heartbeat", "out of reach"));
        }
        next.last_heartbeat(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_asks_what_was_said_last_outlives_an_outage() {
    let layer = OutOfReach(std::sync::atomic::AtomicU32::new(10));
    let store = Arc::new(Layered::around(store(), layer));
    let code = Handlers::new().register(breaking).register(broken);
    let app = Duroxide::on(store).handlers(code).start().await.unwrap();
    let started = app.client().start(broken, 3_u64).await.unwrap();
    assert_eq!(started.result().await.unwrap(), 3);
    app.shutdown().await;
}
