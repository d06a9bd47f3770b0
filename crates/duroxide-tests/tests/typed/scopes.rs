//! Sagas, groups that end with a request to cancel, and work that such a request does not touch.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;
use duroxide::{OrchestrationStatus, Saga};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

#[duroxide::activity]
async fn step(log: State<Log>, what: String) -> Result<String, String> {
    log.0.lock().unwrap().push(what.clone());
    if what.contains("fail") {
        Err(format!("{what} went wrong"))
    } else {
        Ok(what)
    }
}

async fn book(ctx: &OrchestrationContext, saga: &Saga, trip: &str) -> Result<String, String> {
    let hotel = ctx.call(step, format!("hotel in {trip}")).await?;
    saga.undo(step, format!("cancel {hotel}"));
    let train = ctx.call(step, format!("train to {trip}")).await?;
    saga.undo_with(
        step,
        format!("fail to cancel {train}"),
        Retry::fixed(2, SECOND),
    );
    let flight = ctx.call(step, format!("flight to {trip}")).await?;
    saga.undo(step, format!("cancel {flight}"));
    ctx.sleep(60 * SECOND).await;
    Ok(ctx.call(step, format!("guide, {trip}")).await?)
}

#[duroxide::orchestration]
async fn travel(ctx: OrchestrationContext, trip: String) -> Result<String, String> {
    let saga = ctx.saga();
    let booked = saga.run(book(&ctx, &saga, &trip)).await;
    booked.map_err(|error: SagaError<String>| error.to_string())
}

#[duroxide::orchestration]
async fn failing_travel(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        for what in ["one", "two"] {
            ctx.call(step, what).await?;
            saga.undo(step, format!("undo {what}"));
        }
        ctx.call(step, "three fails").await?;
        Ok::<(), String>(())
    };
    saga.run(steps).await.map_err(|e| e.to_string())
}

#[duroxide::orchestration]
async fn shielded(ctx: OrchestrationContext) -> Result<String, String> {
    let work = async {
        ctx.call(step, "before").await?;
        ctx.sleep(60 * SECOND).await;
        ctx.call(step, "after").await
    };
    ctx.shield(work).await?;
    match ctx.cancel_reason() {
        Some(reason) => Err(format!("kept: {reason}")),
        None => Ok("nobody asked".to_owned()),
    }
}

async fn harness() -> (Harness, Arc<Log>) {
    let log = Arc::new(Log::default());
    let code = Handlers::new()
        .shared_state(Arc::clone(&log))
        .register(step)
        .register(travel)
        .register(failing_travel)
        .register(shielded);
    (Harness::builder().handlers(code).start().await, log)
}

fn lines(log: &Log) -> Vec<String> {
    log.0.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_succeeds_undoes_nothing() {
    let (mut harness, log) = harness().await;
    assert_eq!(
        harness.execute(travel, "Rome").await.unwrap(),
        "guide, Rome"
    );
    assert_eq!(lines(&log).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_undoes_the_steps_before_it() {
    let (mut harness, log) = harness().await;
    let error = harness.execute(failing_travel, ()).await.unwrap_err();
    assert_eq!(
        lines(&log),
        ["one", "two", "three fails", "undo two", "undo one"]
    );
    assert_eq!(
        error,
        OrchestrationError::Failed("three fails went wrong".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_to_cancel_undoes_in_reverse_also_past_an_undo_that_fails() {
    let (mut harness, log) = harness().await;
    let handle = harness
        .client()
        .start(travel, "Oslo")
        .id("trip")
        .await
        .unwrap();
    harness.advance(30 * SECOND).await;
    handle.cancel("changed my mind").await.unwrap();
    harness.wait("trip").await;
    harness.assert_deterministic("trip").await;
    assert_eq!(
        lines(&log)[3..],
        [
            "cancel flight to Oslo",
            "fail to cancel train to Oslo",
            "fail to cancel train to Oslo",
            "cancel hotel in Oslo",
        ]
    );
    let error = handle.result().await.unwrap_err().to_string();
    assert_eq!(error, "canceled: changed my mind");
}

#[tokio::test(start_paused = true)]
async fn shielded_work_is_finished_before_a_request_to_cancel_counts() {
    let (mut harness, log) = harness().await;
    let handle = harness
        .client()
        .start(shielded, ())
        .id("shield")
        .await
        .unwrap();
    harness.advance(30 * SECOND).await;
    handle.cancel("enough").await.unwrap();
    let status = harness.wait("shield").await;
    let OrchestrationStatus::Failed { details, .. } = status else {
        panic!("{status:?}");
    };
    assert_eq!(details.display_message(), "canceled: enough");
    assert_eq!(lines(&log), ["before", "after"]);
    assert_eq!(harness.execute(shielded, ()).await.unwrap(), "nobody asked");
}
