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

/// Each step takes a minute.
#[duroxide::activity]
async fn slow(log: State<Log>, what: String) -> Result<String, String> {
    tokio::time::sleep(60 * SECOND).await;
    log.0.lock().unwrap().push(what.clone());
    Ok(what)
}

#[duroxide::orchestration]
async fn paid(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        let payment = ctx.shield(ctx.call(slow, "pay")).await?;
        saga.undo(step, format!("refund {payment}"));
        ctx.call(slow, "ship").await?;
        Ok::<_, String>(())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

/// The saga whose last step is shielded.
#[duroxide::orchestration]
async fn paid_last(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        let payment = ctx.shield(ctx.call(slow, "pay")).await?;
        saga.undo(step, format!("refund {payment}"));
        Ok::<_, String>(())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

/// The saga whose steps are shielded one after the other.
#[duroxide::orchestration]
async fn all_shielded(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        for what in ["hotel", "train", "flight"] {
            let booked = ctx.shield(ctx.call(slow, what)).await?;
            saga.undo(step, format!("cancel {booked}"));
        }
        Ok::<_, String>(())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

/// A group that shields for ever.
#[duroxide::orchestration]
async fn endless(ctx: OrchestrationContext) -> Result<(), String> {
    let group = async {
        loop {
            if let Err(error) = ctx.shield(ctx.call(slow, "again")).await {
                break error;
            }
        }
    };
    let ended = ctx.cancellable(group).await;
    ended.map(drop).map_err(String::from)
}

/// Code in a group that has heard of the request, and shields what puts things right.
#[duroxide::orchestration]
async fn puts_right(ctx: OrchestrationContext) -> Result<(), String> {
    let group = async {
        ctx.shield(ctx.call(slow, "pay")).await?;
        if ctx.cancel_reason().is_some() {
            ctx.shield(ctx.call(slow, "refund")).await?;
        }
        ctx.sleep(600 * SECOND).await;
        Ok::<_, String>(())
    };
    let ended = ctx.cancellable(group).await;
    ended.map(drop).map_err(String::from)
}

/// A step that is shielded fails after the request; what was done before is undone, within another group.
#[duroxide::orchestration]
async fn fails_shielded(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        ctx.call(step, "one").await?;
        saga.undo(slow, "undo one");
        ctx.shield(async {
            ctx.call(slow, "two").await?;
            ctx.call(step, "two fails").await
        })
        .await?;
        Ok::<_, String>(())
    };
    let group = ctx.cancellable(async { saga.run(steps).await }).await;
    group.map(drop).map_err(String::from)
}

/// A saga that is shielded as a whole.
#[duroxide::orchestration]
async fn whole(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        for what in ["one", "two"] {
            ctx.call(slow, what).await?;
            saga.undo(step, format!("undo {what}"));
        }
        Ok::<_, String>(())
    };
    let done = ctx.shield(saga.run(steps)).await;
    done.map_err(|error| error.to_string())
}

#[duroxide::orchestration]
async fn nested(ctx: OrchestrationContext) -> Result<(), String> {
    let (outer, inner) = (ctx.saga(), ctx.saga());
    let steps = async {
        ctx.call(step, "outer").await?;
        outer.undo(slow, "undo outer");
        let within = async {
            ctx.call(step, "inner").await?;
            inner.undo(slow, "undo inner");
            ctx.sleep(600 * SECOND).await;
            Ok::<_, String>(())
        };
        inner.run(within).await.map_err(|error| error.to_string())
    };
    outer.run(steps).await.map_err(|error| error.to_string())
}

#[duroxide::orchestration]
async fn beside(ctx: OrchestrationContext) -> Result<(), String> {
    let shielded = ctx.shield(ctx.call(slow, "shielded"));
    let group = ctx.cancellable(ctx.sleep(600 * SECOND));
    let cleaned = async {
        let ended = group.await;
        ctx.call(step, "cleaned").await?;
        ended.map_err(String::from)
    };
    let (done, ended) = duroxide::join!(shielded, cleaned);
    done?;
    ended
}

async fn harness() -> (Harness, Arc<Log>) {
    let log = Arc::new(Log::default());
    let code = Handlers::new()
        .shared_state(Arc::clone(&log))
        .register(step)
        .register(travel)
        .register(failing_travel)
        .register(shielded)
        .register(slow)
        .register(paid)
        .register(paid_last)
        .register(all_shielded)
        .register(endless)
        .register(puts_right)
        .register(fails_shielded)
        .register(whole)
        .register(nested)
        .register(beside);
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

/// Starts an orchestration, cancels it after half a minute, and tells what was done when it has ended.
async fn cancelled(orchestration: &str) -> Vec<String> {
    let (mut harness, log) = harness().await;
    harness.start("i", orchestration, "null").await;
    harness.cancel_after(30 * SECOND, "i", "enough");
    let status = harness.wait("i").await;
    let OrchestrationStatus::Failed { details, .. } = status else {
        panic!("{status:?}");
    };
    assert_eq!(details.display_message(), "canceled: enough");
    harness.assert_deterministic("i").await;
    lines(&log)
}

#[tokio::test(start_paused = true)]
async fn a_shielded_step_of_a_saga_is_finished_and_undone_when_a_client_cancels() {
    assert_eq!(cancelled("paid").await, ["pay", "refund pay"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_step_of_a_saga_is_undone_too_when_a_client_cancels_during_it() {
    assert_eq!(cancelled("paid_last").await, ["pay", "refund pay"]);
}

#[tokio::test(start_paused = true)]
async fn shields_that_follow_each_other_do_not_keep_a_request_away() {
    assert_eq!(cancelled("all_shielded").await, ["hotel", "cancel hotel"]);
    assert_eq!(cancelled("endless").await, ["again"]);
}

#[tokio::test(start_paused = true)]
async fn code_that_has_heard_of_the_request_may_shield_what_puts_things_right() {
    assert_eq!(cancelled("puts_right").await, ["pay", "refund"]);
}

#[tokio::test(start_paused = true)]
async fn a_shielded_step_that_fails_after_the_request_lets_its_saga_be_undone_to_the_end() {
    let done = ["one", "two", "two fails", "undo one"];
    assert_eq!(cancelled("fails_shielded").await, done);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_is_shielded_as_a_whole_is_finished() {
    assert_eq!(cancelled("whole").await, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_saga_within_a_saga_is_undone_to_its_end_before_the_outer_one() {
    let done = ["outer", "inner", "undo inner", "undo outer"];
    assert_eq!(cancelled("nested").await, done);
}

#[tokio::test(start_paused = true)]
async fn what_is_shielded_elsewhere_does_not_hold_up_a_group() {
    assert_eq!(cancelled("beside").await, ["cleaned", "shielded"]);
}
