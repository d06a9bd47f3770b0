//! Failed instances that are retried, in virtual time.

use std::time::Duration;

use duroxide_core::{Either2, OrchestrationContext, StartExtras};
use duroxide_runtime::OrchestrationStatus;
use duroxide_runtime::client::NewStart;
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_testing::Harness;

use crate::output;

const DAY: Duration = Duration::from_secs(86_400);

/// Something that must not happen before its time, beside something that may fail.
async fn delivers(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let due = ctx.schedule_timer(3 * DAY);
    let packed = ctx.schedule_activity("pack", "").await?;
    due.await;
    ctx.schedule_activity("deliver", packed).await
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_open_keeps_its_time() {
    let mut harness = Harness::builder()
        .orchestrations(
            OrchestrationRegistry::builder()
                .register("delivers", delivers)
                .build(),
        )
        .stub_value("pack", "a parcel")
        .stub_value("deliver", "at the door")
        .fail_call("pack", 1, "no paper")
        .start()
        .await;
    let began = harness.now_ms();
    harness.start("d", "delivers", "").await;
    let failed = harness.wait("d").await;
    assert!(
        matches!(failed, OrchestrationStatus::Failed { .. }),
        "{failed:?}"
    );
    harness.advance(DAY).await;
    let rewind = harness
        .client()
        .retry_instance("d")
        .await
        .expect("it failed");
    assert_eq!(rewind.again.len(), 2, "the timer and the activity");
    harness.settle().await;
    assert_eq!(output(&harness.wait("d").await), "at the door");
    let took = harness.now_ms() - began;
    let days = 3 * 86_400_000..3 * 86_400_000 + 60_000;
    assert!(
        days.contains(&took),
        "three days from the start, not from the retry: {took} ms"
    );
    assert_eq!(harness.calls("pack").len(), 2);
    assert_eq!(harness.calls("deliver").len(), 1);
    harness.assert_deterministic("d").await;
    harness.stop().await;
}

async fn waits(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("go").await)
}

#[tokio::test(start_paused = true)]
async fn one_whose_time_was_up_has_its_time_again_from_the_retry_on() {
    let code = OrchestrationRegistry::builder().register("waits", waits);
    let mut harness = Harness::builder()
        .orchestrations(code.build())
        .start()
        .await;
    let extras = StartExtras::default().with_timeout(DAY).expect("a day");
    for id in ["late", "later"] {
        let extras = extras.clone();
        let start = NewStart {
            extras,
            ..NewStart::new(id, "waits", "")
        };
        let started = harness.client().start_orchestration_with(start).await;
        started.expect("it is stored");
    }
    let timed_out = |status: &OrchestrationStatus| matches!(status, OrchestrationStatus::Failed { details, .. } if details.is_timed_out());
    for id in ["late", "later"] {
        let ended = harness.wait(id).await;
        assert!(timed_out(&ended), "{ended:?}");
    }
    harness.advance(DAY).await;
    let began = harness.now_ms();
    for id in ["late", "later"] {
        let retried = harness.client().retry_instance(id).await;
        retried.expect("it failed");
    }
    harness.settle().await;
    harness.raise_after(DAY / 2, "late", "go", "just in time");
    assert_eq!(output(&harness.wait("late").await), "just in time");
    let ended = harness.wait("later").await;
    assert!(timed_out(&ended), "{ended:?}");
    let took = Duration::from_millis(harness.now_ms() - began);
    assert!(
        took >= DAY && took < DAY + Duration::from_secs(60),
        "{took:?}"
    );
    harness.stop().await;
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Takes an hour to put things right.
async fn winds_down(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let asked = ctx.cancellation_requested();
    match ctx.select2(ctx.schedule_wait("go"), asked).await {
        Either2::First(go) => Ok(go),
        Either2::Second(_) => {
            ctx.schedule_timer(HOUR).await;
            Err("put right".to_owned())
        }
    }
}

async fn hasty(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let slow = ctx.schedule_sub_orchestration("winds down", "");
    let packed = ctx.schedule_activity("pack", "").await?;
    Ok(format!("{} {packed}", slow.await?))
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_a_child_that_winds_down_and_goes_on_when_it_has() {
    let code = OrchestrationRegistry::builder()
        .register("winds down", winds_down)
        .register("hasty", hasty);
    let mut harness = Harness::builder()
        .orchestrations(code.build())
        .stub_value("pack", "a parcel")
        .fail_call("pack", 1, "no paper")
        .start()
        .await;
    harness.start("h", "hasty", "").await;
    let failed = harness.wait("h").await;
    assert!(matches!(failed, OrchestrationStatus::Failed { .. }));
    let began = harness.now_ms();
    let retried = harness.client().retry_instance("h").await;
    retried.expect("it failed");
    harness.raise_after(2 * HOUR, "h::sub::2", "go", "on");
    harness.advance(HOUR + Duration::from_secs(10)).await;
    assert_eq!(output(&harness.wait("h").await), "on a parcel");
    let history = harness.history("h").await;
    let asked = history.iter().map(|event| event.timestamp_ms);
    let gone_on = asked.filter(|at| *at > began).min().expect("a turn");
    let took = Duration::from_millis(gone_on - began);
    let hour = HOUR..HOUR + Duration::from_secs(5);
    assert!(hour.contains(&took), "the child told it: {took:?}");
    harness.stop().await;
}
