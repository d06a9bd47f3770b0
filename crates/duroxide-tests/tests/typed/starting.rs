//! What a start carries: memo, time limit and trace; and which of many starts of one id is accepted.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{InstanceQuery, Provider, ProviderError};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::testing::Harness;
use duroxide::{EventKind, IfExists, OrchestrationStatus, ResultError, Runtime, TraceContext};
use futures::future::join_all;
use std::sync::Arc;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[duroxide::orchestration]
async fn sleeper(ctx: OrchestrationContext, how_long: Duration) -> Result<String, String> {
    ctx.sleep(how_long).await;
    Ok("slept".to_owned())
}

/// Begins a new execution every ten hours, for ever.
#[duroxide::orchestration]
async fn eternal(ctx: OrchestrationContext, round: u64) -> Result<(), String> {
    ctx.sleep(HOUR * 10).await;
    ctx.continue_with(eternal, round + 1).await
}

/// Has a child that takes too long.
#[duroxide::orchestration]
async fn patient(ctx: OrchestrationContext, limit: Duration) -> Result<String, String> {
    match ctx.child(sleeper, DAY).id("child").timeout(limit).await {
        Err(OrchestrationError::TimedOut { message }) => Ok(format!("the child {message}")),
        other => Ok(other?),
    }
}

/// Takes longer than any limit, with a child and an activity under way.
#[duroxide::orchestration]
async fn busy(ctx: OrchestrationContext) -> Result<String, String> {
    let child = ctx.child(sleeper, DAY * 365).id("inner");
    let work = ctx.call(endless, ());
    let (slept, worked) = duroxide::join!(child, work);
    Ok(format!("{} {}", slept?, worked?))
}

#[duroxide::activity]
async fn endless(ctx: ActivityContext) -> Result<String, String> {
    ctx.cancelled().await;
    Err("no longer wanted".to_owned())
}

#[duroxide::activity]
async fn traced(ctx: ActivityContext) -> Result<String, String> {
    let trace = ctx.trace_context();
    Ok(trace.map(TraceContext::traceparent).unwrap_or_default())
}

#[duroxide::orchestration]
async fn tracing(ctx: OrchestrationContext, depth: u32) -> Result<Vec<String>, String> {
    let own = ctx.trace_context().map(|trace| trace.traceparent());
    let mut seen = vec![own.unwrap_or_default(), ctx.call(traced, ()).await?];
    if depth > 0 {
        seen.extend(ctx.child(tracing, depth - 1).await?);
    }
    Ok(seen)
}

#[duroxide::orchestration]
async fn echo(ctx: OrchestrationContext, number: u64) -> Result<Vec<u64>, String> {
    let said: u64 = ctx
        .receive("numbers")
        .await
        .map_err(|error| error.to_string())?;
    Ok(vec![number, said])
}

fn code() -> Handlers {
    Handlers::new()
        .register(echo)
        .register(sleeper)
        .register(eternal)
        .register(patient)
        .register(busy)
        .register(endless)
        .register(traced)
        .register(tracing)
}

async fn harness() -> Harness {
    Harness::builder().handlers(code()).start().await
}

#[test]
fn an_instance_ends_as_failed_when_its_time_is_up() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let began = harness.now_ms();
        let start = harness.client().start(busy, ()).id("busy");
        let handle = start.timeout(HOUR).await.unwrap();
        harness.wait("busy").await;
        let Err(ResultError::Orchestration(error)) = handle.result().await else {
            panic!("it failed");
        };
        assert_eq!(error.code(), "D0917");
        assert_eq!(
            error.to_string(),
            "timed out: the orchestration did not end within 3600s"
        );
        let took = harness.now_ms() - began;
        assert!((3_600_000..3_601_000).contains(&took), "{took}");
        // What it had under way is cancelled.
        let OrchestrationStatus::Failed { details, .. } = harness.wait("inner").await else {
            panic!("the child ended");
        };
        assert!(details.is_cancelled());
        let history = harness.history("busy").await;
        let ended = |kind: &EventKind| matches!(kind, EventKind::ActivityCancelRequested { .. });
        assert!(history.iter().any(|event| ended(&event.kind)));
        harness.assert_deterministic("busy").await;
        harness.stop().await;
    });
}

#[test]
fn an_instance_that_ends_in_time_is_not_touched() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let start = harness.client().start(sleeper, HOUR).id("quick");
        let handle = start.timeout(HOUR * 2).await.unwrap();
        harness.wait("quick").await;
        assert_eq!(handle.result().await.unwrap(), "slept");
        harness.advance(DAY).await;
        assert_eq!(handle.result().await.unwrap(), "slept");
        harness.stop().await;
    });
}

#[test]
fn the_time_of_all_executions_counts_together() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let start = harness.client().start(eternal, 1).id("eternal");
        start.timeout(DAY + HOUR).await.unwrap();
        let began = harness.now_ms();
        let ended = harness.wait_within("eternal", DAY * 3).await;
        let OrchestrationStatus::Failed { details, .. } = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(details.code(), "D0310");
        let hours = (harness.now_ms() - began) / 3_600_000;
        assert_eq!(hours, 25);
        let history = harness.history("eternal").await;
        assert_eq!(history[0].execution_id, 3, "10 and 20 hours, then the end");
        harness.stop().await;
    });
}

#[test]
fn a_time_limit_survives_crashes() {
    duroxide::testing::block_on(async {
        for crash_at in 1..=3 {
            let mut harness = harness().await;
            harness.crash_after_commit(crash_at);
            let start = harness.client().start(eternal, 1).id("eternal");
            start.timeout(HOUR * 15).await.unwrap();
            let ended = harness.wait_within("eternal", DAY * 3).await;
            let is_timed_out = matches!(&ended, OrchestrationStatus::Failed { details, .. }
                if details.is_timed_out());
            assert!(is_timed_out, "{ended:?}");
            assert_eq!(harness.crashes(), 1);
            harness.stop().await;
        }
    });
}

#[test]
fn a_parent_hears_that_its_child_took_too_long() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let said = harness.execute(patient, HOUR).await.unwrap();
        assert_eq!(
            said,
            "the child timed out: the orchestration did not end within 3600s"
        );
        harness.stop().await;
    });
}

#[test]
fn the_time_of_a_paused_instance_runs_and_its_end_waits_for_the_resume() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let client = harness.client();
        let start = client.start(sleeper, DAY).id("paused");
        let handle = start.timeout(HOUR).await.unwrap();
        harness.settle().await;
        assert!(client.pause_instance("paused").await.unwrap());
        harness.advance(HOUR * 2).await;
        let status = handle.status().await.unwrap();
        assert!(matches!(status, OrchestrationStatus::Running { .. }));
        assert!(client.resume_instance("paused").await.unwrap());
        let ended = harness.wait_within("paused", Duration::from_secs(1)).await;
        assert!(matches!(ended, OrchestrationStatus::Failed { details, .. }
            if details.is_timed_out()));
        harness.stop().await;
    });
}

#[test]
fn another_life_of_the_id_has_its_own_time() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let client = harness.client();
        let start = client.start(sleeper, DAY).id("again").timeout(HOUR);
        start.await.unwrap();
        harness.settle().await;
        client.delete_instance("again", true).await.unwrap();
        let start = client.start(sleeper, HOUR * 2).id("again");
        let handle = start.await.unwrap();
        harness.wait("again").await;
        assert_eq!(handle.result().await.unwrap(), "slept");
        harness.stop().await;
    });
}

#[test]
fn the_time_begins_with_the_instance_and_not_with_its_delay() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let start = harness.client().start(sleeper, HOUR).id("later");
        let handle = start.delay(DAY).timeout(HOUR * 2).await.unwrap();
        harness.wait_within("later", DAY * 2).await;
        assert_eq!(handle.result().await.unwrap(), "slept");
        harness.stop().await;
    });
}

#[test]
fn a_memo_is_shown_by_queries_and_given_to_an_instance_that_is_started_again() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let client = harness.client();
        let memo = ("asked by", vec!["Ada", "Grace"]);
        let start = client.start(sleeper, HOUR).id("noted").memo(&memo);
        let handle = start.timeout(DAY).await.unwrap();
        harness.wait("noted").await;
        assert_eq!(
            handle
                .memo::<(String, Vec<String>)>()
                .await
                .unwrap()
                .unwrap()
                .0,
            "asked by"
        );
        client.restart_as("noted", "noted again").await.unwrap();
        harness.wait("noted again").await;
        let page = client.query_instances(&InstanceQuery::new()).await.unwrap();
        let memos: Vec<_> = page.items.into_iter().map(|one| one.memo).collect();
        let expected = r#"["asked by",["Ada","Grace"]]"#;
        assert_eq!(
            memos,
            [Some(expected.to_owned()), Some(expected.to_owned())]
        );
        let unfit = client.start(sleeper, HOUR).memo(&"x".repeat(5_000)).await;
        assert!(unfit.unwrap_err().to_string().contains("at most 4096"));
        let unfit = client.start(sleeper, HOUR).timeout(Duration::ZERO).await;
        assert!(unfit.unwrap_err().to_string().contains("timeout"));
        harness.stop().await;
    });
}

#[test]
fn a_trace_reaches_activities_and_children_and_is_the_same_after_a_crash() {
    duroxide::testing::block_on(async {
        let mut seen = Vec::new();
        for crash_at in [None, Some(1), Some(2), Some(4)] {
            let mut harness = Harness::builder().handlers(code()).seed(7).start().await;
            if let Some(commit) = crash_at {
                harness.crash_after_commit(commit);
            }
            let trace = TraceContext::parse(TRACEPARENT, None).unwrap();
            let start = harness.client().start(tracing, 1).id("traced");
            let handle = start.trace_context(trace).await.unwrap();
            harness.wait("traced").await;
            seen.push(handle.result().await.unwrap());
            harness.assert_deterministic("traced").await;
            harness.stop().await;
        }
        let spans = &seen[0];
        assert_eq!(spans.len(), 4, "two orchestrations with an activity each");
        for span in spans {
            assert!(span.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        }
        let distinct: std::collections::BTreeSet<_> = spans.iter().collect();
        assert_eq!(distinct.len(), 4, "each has a span of its own");
    });
}

/// Lets others come in between before each call of the store.
struct Slow;

impl Layer for Slow {
    async fn around<T: Send>(
        &self,
        _operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        tokio::task::yield_now().await;
        call.await
    }
}

/// Starts `echo` many times at once, each with its own number as input and as message; which one was accepted.
async fn start_many(client: &Client, choice: IfExists, numbers: std::ops::Range<u64>) -> u64 {
    let starts = numbers.clone().map(|number| {
        let start = client.start(echo, number).id("order").if_exists(choice);
        start.message("numbers", &number).into_future()
    });
    let answers = join_all(starts).await;
    let accepted: Vec<u64> = numbers
        .zip(&answers)
        .filter_map(|(number, answer)| answer.is_ok().then_some(number))
        .collect();
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(refused.to_string().contains("exists and"), "{refused}");
    }
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    accepted[0]
}

#[tokio::test(start_paused = true)]
async fn of_many_starts_at_once_exactly_one_is_accepted() {
    let clock = TokioClock::starting_at(1_767_225_600_000);
    let store: Arc<dyn Provider> = Arc::new(MemoryProvider::with_clock(clock));
    let client = Client::new(Arc::new(Layered::around(Arc::clone(&store), Slow)));
    let node = async || {
        let (activities, orchestrations) = code().build().unwrap();
        let builder = Runtime::builder()
            .with_provider(Arc::clone(&store))
            .with_activities(activities)
            .with_orchestrations(orchestrations)
            .with_clock(Arc::new(clock));
        builder.build().await.unwrap()
    };
    let handle = client.handle(echo, "order");
    let runtime = node().await;
    let first = start_many(&client, IfExists::Fail, 0..20).await;
    assert_eq!(handle.result().await.unwrap(), [first, first]);
    runtime.shutdown(None).await;
    // What has ended is replaced once, with the message of the start that did. No node runs: what it began would end,
    // and be replaced in its turn.
    let second = start_many(&client, IfExists::ReplaceFinished, 100..120).await;
    let runtime = node().await;
    assert_eq!(handle.result().await.unwrap(), [second, second]);
    runtime.shutdown(None).await;
}

#[test]
fn a_delayed_start_is_there_for_others() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let client = harness.client();
        let start = client.start(echo, 1).id("order").delay(HOUR);
        start.message("numbers", &1_u64).await.unwrap();
        for choice in [IfExists::Fail, IfExists::ReplaceFinished] {
            let again = client.start(echo, 2).id("order").if_exists(choice).await;
            let error = again.unwrap_err().to_string();
            assert!(error.contains("is about to start"), "{error}");
        }
        assert!(
            !client
                .start_orchestration_if_absent("order", "echo", "2")
                .await
                .unwrap()
        );
        let began = harness.now_ms();
        harness.wait("order").await;
        assert_eq!(harness.now_ms() - began, 3_600_000);
        let handle = client.handle(echo, "order");
        assert_eq!(handle.result().await.unwrap(), [1, 1]);
        assert!(
            !client
                .start_orchestration_if_absent("order", "echo", "2")
                .await
                .unwrap()
        );
        assert!(
            client
                .start_orchestration_if_absent("other", "echo", "2")
                .await
                .unwrap()
        );
        harness.stop().await;
    });
}

#[test]
fn a_restart_under_an_id_that_is_about_to_start_is_refused() {
    duroxide::testing::block_on(async {
        let mut harness = harness().await;
        let client = harness.client();
        let ended = client.start(echo, 1).id("ended");
        ended.message("numbers", &1_u64).await.unwrap();
        harness.wait("ended").await;
        let taken = client.start(echo, 2).id("taken").delay(HOUR);
        taken.message("numbers", &2_u64).await.unwrap();
        let error = client.restart_as("ended", "taken").await.unwrap_err();
        assert!(error.to_string().contains("taken exists"), "{error}");
        harness.wait("taken").await;
        let handle = client.handle(echo, "taken");
        assert_eq!(handle.result().await.unwrap(), [2, 2]);
    });
}
