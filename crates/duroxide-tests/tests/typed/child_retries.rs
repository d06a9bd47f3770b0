//! Children that are started again after they failed.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;
use duroxide::{EventKind, OrchestrationStatus};
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum ImportError {
    Busy,
    NoSuchFile,
}

impl Retryable for ImportError {
    fn is_retryable(&self) -> bool {
        *self == Self::Busy
    }
}

/// Succeeds in the attempt that its input names.
#[duroxide::orchestration]
async fn import(ctx: OrchestrationContext, works_in: u32) -> Result<String, ImportError> {
    ctx.sleep(SECOND).await;
    let id = ctx.instance_id();
    let attempt = id
        .rsplit_once('~')
        .map_or(1, |(_, n)| n.parse().unwrap_or(1));
    match works_in {
        0 => Err(ImportError::NoSuchFile),
        n if n == attempt => Ok(id),
        _ => Err(ImportError::Busy),
    }
}

/// Takes an hour.
#[duroxide::orchestration]
async fn slow(ctx: OrchestrationContext) -> Result<(), ImportError> {
    ctx.sleep(60 * MINUTE).await;
    Ok(())
}

#[duroxide::orchestration]
async fn panics(_ctx: OrchestrationContext) -> Result<(), ImportError> {
    panic!("oh")
}

type Tried<T> = Result<T, OrchestrationError<ImportError>>;

#[duroxide::orchestration]
async fn nightly(ctx: OrchestrationContext, works_in: u32) -> Tried<String> {
    ctx.child(import, works_in)
        .retry(Retry::fixed(3, MINUTE))
        .id("import")
        .label("night", "7")
        .await
}

#[duroxide::orchestration]
async fn unnamed(ctx: OrchestrationContext) -> Tried<String> {
    let import = ctx.child(import, 9).retry(Retry::fixed(3, MINUTE));
    import.await
}

#[duroxide::orchestration]
async fn picky(ctx: OrchestrationContext) -> Tried<String> {
    let import = ctx.child(import, 9).id("import");
    let import = import.retry(Retry::fixed(9, MINUTE));
    import.retry_if(|error| *error != ImportError::Busy).await
}

/// Each attempt has a minute, all of them three and a half.
#[duroxide::orchestration]
async fn limited(ctx: OrchestrationContext) -> Tried<()> {
    let policy = Retry::fixed(9, SECOND).total(MINUTE * 7 / 2);
    let slow = ctx.child(slow, ()).id("slow").timeout(MINUTE);
    slow.retry(policy).await
}

#[duroxide::orchestration]
async fn unlucky(ctx: OrchestrationContext) -> Tried<()> {
    let child = ctx.child(panics, ()).id("panics");
    child.retry(Retry::fixed(2, SECOND)).await
}

/// The id is taken by another instance.
#[duroxide::orchestration]
async fn taken(ctx: OrchestrationContext) -> Tried<String> {
    let import = ctx.child(import, 1).id("taken");
    import.retry(Retry::fixed(5, SECOND)).await
}

/// Drops its child while the second attempt runs.
#[duroxide::orchestration]
async fn dropping(ctx: OrchestrationContext) -> Result<bool, String> {
    let import = ctx.child(slow, ()).id("dropped").timeout(MINUTE);
    let import = import.retry(Retry::fixed(9, SECOND));
    let late = ctx.timeout(MINUTE * 3 / 2, import).await.is_err();
    ctx.sleep(MINUTE).await;
    Ok(late)
}

#[duroxide::orchestration]
async fn long_id(ctx: OrchestrationContext, length: u32) -> Tried<String> {
    let import = ctx.child(import, 9).retry(Retry::fixed(100, SECOND));
    import.id("x".repeat(length as usize)).await
}

async fn harness() -> Harness {
    let code = Handlers::new()
        .register(import)
        .register(slow)
        .register(panics)
        .register(nightly)
        .register(unnamed)
        .register(picky)
        .register(limited)
        .register(unlucky)
        .register(taken)
        .register(dropping)
        .register(long_id);
    Harness::builder().handlers(code).start().await
}

/// The ids of the children that a history started, as they are recorded.
async fn started(harness: &Harness, id: &str) -> Vec<String> {
    let history = harness.history(id).await;
    let children = history.iter().filter_map(|event| match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, .. } => Some(instance.clone()),
        _ => None,
    });
    children.collect()
}

fn failed<T>(error: ImportError) -> Result<T, OrchestrationError<OrchestrationError<ImportError>>> {
    Err(OrchestrationError::Failed(OrchestrationError::Failed(
        error,
    )))
}

#[tokio::test(start_paused = true)]
async fn a_child_that_failed_is_started_again_under_an_id_of_its_own() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let done = harness.execute(nightly, 3).await;
    assert_eq!(done.as_deref(), Ok("import~3"));
    assert_eq!((harness.now_ms() - began) / 1000, 3 + 2 * 60);
    assert_eq!(
        started(&harness, "run-1").await,
        ["import", "import~2", "import~3"]
    );
    let client = harness.client();
    for id in ["import", "import~2", "import~3"] {
        let labels = client.labels(id).await.unwrap();
        assert_eq!(labels.get("night").map(String::as_str), Some("7"), "{id}");
    }
    harness.assert_deterministic("run-1").await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_is_the_one_that_is_told() {
    let mut harness = harness().await;
    assert_eq!(harness.execute(nightly, 9).await, failed(ImportError::Busy));
    assert_eq!(
        harness.execute(unnamed, ()).await,
        failed(ImportError::Busy)
    );
    let ids = started(&harness, "run-2").await;
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| id.starts_with("sub::")), "{ids:?}");
    harness.assert_deterministic("run-2").await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_final_ends_the_attempts() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let done = harness.execute(nightly, 0).await;
    assert_eq!(done, failed(ImportError::NoSuchFile));
    assert_eq!(harness.now_ms() - began, 1000);
    harness.stop().await;

    let mut harness = self::harness().await;
    assert_eq!(harness.execute(picky, ()).await, failed(ImportError::Busy));
    assert_eq!(started(&harness, "run-1").await, ["import"]);
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn attempts_survive_a_crash_at_any_commit() {
    for commit in 1..=8 {
        let mut harness = harness().await;
        harness.crash_after_commit(commit);
        let done = harness.execute(nightly, 3).await;
        assert_eq!(done.as_deref(), Ok("import~3"), "{commit}");
        assert_eq!(started(&harness, "run-1").await.len(), 3, "{commit}");
        harness.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_time_and_all_of_them_have_theirs() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let late = harness.execute(limited, ()).await.unwrap_err();
    let OrchestrationError::Failed(OrchestrationError::TimedOut { message }) = late else {
        panic!("{late:?}");
    };
    assert!(message.contains("within 210s"), "{message}");
    assert_eq!((harness.now_ms() - began) / 1000, 210);
    let ids = started(&harness, "run-1").await;
    assert_eq!(ids, ["slow", "slow~2", "slow~3", "slow~4"]);
    let first = harness.wait("slow").await;
    assert!(
        matches!(&first, OrchestrationStatus::Failed { details, .. } if details.is_timed_out()),
        "{first:?}"
    );
    let last = harness.wait("slow~4").await;
    let OrchestrationStatus::Failed { details, .. } = last else {
        panic!("{last:?}");
    };
    assert!(
        details.display_message().starts_with("canceled"),
        "{details:?}"
    );
    harness.assert_deterministic("run-1").await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_tried_again_and_an_id_that_is_taken_is_not() {
    let mut harness = harness().await;
    let error = harness.execute(unlucky, ()).await.unwrap_err();
    let OrchestrationError::Failed(OrchestrationError::Panicked { .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(started(&harness, "run-1").await, ["panics", "panics~2"]);
    harness.client().start(slow, ()).id("taken").await.unwrap();
    harness.settle().await;
    let error = harness.execute(taken, ()).await.unwrap_err();
    let OrchestrationError::Failed(OrchestrationError::Undecodable(_)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(started(&harness, "run-2").await, ["taken"]);
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_cancels_the_attempt_that_runs_and_begins_no_other() {
    let mut harness = harness().await;
    assert_eq!(harness.execute(dropping, ()).await, Ok(true));
    assert_eq!(started(&harness, "run-1").await, ["dropped", "dropped~2"]);
    let second = harness.wait("dropped~2").await;
    let OrchestrationStatus::Failed { details, .. } = second else {
        panic!("{second:?}");
    };
    assert!(
        details.display_message().starts_with("canceled"),
        "{details:?}"
    );
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_without_room_for_its_attempts_is_refused_and_starts_nothing() {
    let mut harness = harness().await;
    let error = harness.execute(long_id, 1_021).await.unwrap_err();
    let OrchestrationError::Failed(OrchestrationError::Undecodable(told)) = error else {
        panic!("{error:?}");
    };
    assert!(told.text.contains("the last attempt"), "{told}");
    assert!(started(&harness, "run-1").await.is_empty());
    harness.stop().await;
}
