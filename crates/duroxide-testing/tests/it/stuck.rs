//! Waits that nothing can end fail their test at once, and say what they are for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use duroxide_core::OrchestrationContext;
use duroxide_runtime::OrchestrationStatus;
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_testing::{Harness, block_on};
use futures_util::FutureExt as _;

const DAY: Duration = Duration::from_secs(86_400);

async fn waits(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("approval").await)
}

async fn works(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ctx.schedule_activity("work", "").await
}

async fn parent(ctx: OrchestrationContext, child: String) -> Result<String, String> {
    ctx.schedule_sub_orchestration(child, "").await
}

/// Ends after a hundred days.
async fn approver(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ctx.schedule_timer(100 * DAY).await;
    Ok("approved".to_owned())
}

async fn harness() -> Harness {
    let registry = OrchestrationRegistry::builder()
        .register("waits", waits)
        .register("works", works)
        .register("parent", parent)
        .register("approver", approver);
    Harness::builder()
        .orchestrations(registry.build())
        .start()
        .await
}

/// What the test of an orchestration says that never ends.
fn complaint(orchestration: &str, input: &str) -> String {
    let run = || block_on(async { harness().await.run(orchestration, input).await });
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it cannot end");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_message_that_nobody_sends_is_named() {
    let said = complaint("waits", "");
    assert!(said.contains("cannot end any more"), "{said}");
    assert!(said.contains("approval"), "{said}");
}

#[test]
fn an_activity_that_nobody_registered_is_named() {
    let said = complaint("works", "");
    assert!(said.contains("cannot end any more"), "{said}");
    assert!(said.contains("activity work"), "{said}");
}

#[test]
fn an_orchestration_that_nobody_registered_is_named() {
    let said = complaint("misspelt", "");
    assert!(said.contains("cannot end any more"), "{said}");
    assert!(said.contains("misspelt"), "{said}");
}

#[test]
fn what_a_child_waits_for_is_named() {
    for (child, why) in [("waits", "approval"), ("misspelt", "misspelt")] {
        let said = complaint("parent", child);
        assert!(said.contains("cannot end any more"), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_wait_that_something_can_still_end_goes_on() {
    block_on(async {
        let mut harness = harness().await;
        harness.start("a", "waits", "").await;
        harness.raise_after(200 * DAY, "a", "approval", "late");
        let OrchestrationStatus::Completed { output, .. } = harness.wait("a").await else {
            panic!("it was signalled");
        };
        assert_eq!(output, "late");
    });
}

#[test]
fn a_timer_of_another_instance_is_waited_for_first() {
    let (said, other) = block_on(async {
        let mut harness = harness().await;
        harness.start("approver", "approver", "").await;
        harness.start("waits", "waits", "").await;
        let waiting = AssertUnwindSafe(harness.wait("waits")).catch_unwind();
        let panic = waiting.await.expect_err("it cannot end");
        let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let client = harness.client();
        (said, client.get_orchestration_status("approver").await)
    });
    assert!(said.contains("cannot end any more"), "{said}");
    let ended = matches!(other, Ok(OrchestrationStatus::Completed { .. }));
    assert!(ended, "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_with_a_limit_leaves_a_task_of_the_test_its_time() {
    let mut harness = harness().await;
    harness.start("i", "waits", "").await;
    let client = harness.client();
    let later = tokio::spawn(async move {
        tokio::time::sleep(40 * DAY).await;
        client
            .raise_event("i", "approval", "at last")
            .await
            .unwrap();
    });
    let status = harness.wait_within("i", 50 * DAY).await;
    assert!(
        matches!(status, OrchestrationStatus::Completed { .. }),
        "{status:?}"
    );
    later.await.unwrap();
}
