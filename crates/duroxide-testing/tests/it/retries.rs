//! Failed instances that are retried, in virtual time.

use std::time::Duration;

use duroxide_core::OrchestrationContext;
use duroxide_runtime::OrchestrationStatus;
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
