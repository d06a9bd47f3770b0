//! Children and detached orchestrations by definition.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::{Harness, replay};
use duroxide::{EventKind, OrchestrationStatus};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum InvoiceError {
    NoAddress { order: u64 },
}

#[duroxide::orchestration(version = "1.4.0")]
async fn invoice(ctx: OrchestrationContext, order: u64) -> Result<String, InvoiceError> {
    match order {
        0 => Err(InvoiceError::NoAddress { order }),
        _ => Ok(format!(
            "{} of {}",
            ctx.instance_id(),
            ctx.orchestration_version()
        )),
    }
}

/// Sleeps for an hour; tells when somebody asks it to cancel.
#[duroxide::orchestration]
async fn sleeper(ctx: OrchestrationContext) -> Result<(), String> {
    match ctx.cancellable(ctx.sleep(Duration::from_secs(3600))).await {
        Ok(()) => Ok(()),
        Err(_cancelled) => {
            ctx.sleep(Duration::from_secs(60)).await;
            ctx.set_custom_status("put things right");
            Ok(())
        }
    }
}

#[duroxide::orchestration]
async fn parent(
    ctx: OrchestrationContext,
    order: u64,
) -> Result<String, OrchestrationError<InvoiceError>> {
    ctx.child(invoice, order).id("paper").await
}

#[duroxide::orchestration]
async fn bad_id(ctx: OrchestrationContext) -> Result<String, OrchestrationError<InvoiceError>> {
    ctx.child(invoice, 7).id("sub::mine").await
}

#[duroxide::orchestration]
async fn leaving(ctx: OrchestrationContext, how: String) -> Result<(), String> {
    let close = match how.as_str() {
        "abandon" => ParentClose::Abandon,
        "cancel" => ParentClose::Cancel,
        _ => ParentClose::Request,
    };
    let child = ctx.child(sleeper, ()).id("child").on_parent_close(close);
    ctx.sleep(Duration::from_secs(1)).await;
    drop(child);
    ctx.spawn(sleeper, ()).id(format!("spawned-by-{how}"));
    Ok(())
}

#[duroxide::orchestration]
async fn leaving_at_once(ctx: OrchestrationContext) -> Result<(), String> {
    let child = ctx.child(sleeper, ()).id("child");
    drop(child.on_parent_close(ParentClose::Abandon));
    Ok(())
}

fn code() -> Handlers {
    Handlers::new()
        .register(invoice)
        .register(sleeper)
        .register(parent)
        .register(bad_id)
        .register(leaving)
        .register(leaving_at_once)
}

async fn harness() -> Harness {
    Harness::builder().handlers(code()).start().await
}

#[tokio::test(start_paused = true)]
async fn a_child_runs_the_version_of_its_definition_under_its_id() {
    let mut harness = harness().await;
    let paper = harness.execute(parent, 7).await.unwrap();
    assert_eq!(paper, "paper of 1.4.0");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_child_comes_back_as_its_own_type() {
    let mut harness = harness().await;
    let error = harness.execute(parent, 0).await.unwrap_err();
    let own = InvoiceError::NoAddress { order: 0 };
    assert_eq!(
        error,
        OrchestrationError::Failed(OrchestrationError::Failed(own))
    );
}

#[tokio::test(start_paused = true)]
async fn an_id_that_cannot_be_used_is_an_error_of_the_child_and_starts_nothing() {
    let mut harness = harness().await;
    let error = harness.execute(bad_id, ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            OrchestrationError::Failed(OrchestrationError::Undecodable(_))
        ),
        "{error:?}"
    );
    let started = harness.history("run-1").await;
    let started = started
        .iter()
        .filter(|e| matches!(e.kind, EventKind::SubOrchestrationScheduled { .. }));
    assert_eq!(started.count(), 0);
}

/// How the child of `leaving` ends, and when.
async fn child_after(how: &str) -> (OrchestrationStatus, u64) {
    let mut harness = harness().await;
    let began = harness.now_ms();
    harness.execute(leaving, how).await.unwrap();
    let ended = harness.wait("child").await;
    let seconds = (harness.now_ms() - began) / 1000;
    let spawned = harness.wait(&format!("spawned-by-{how}")).await;
    assert!(matches!(spawned, OrchestrationStatus::Completed { .. }));
    (ended, seconds)
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_child_goes_on() {
    let (ended, seconds) = child_after("abandon").await;
    assert!(
        matches!(ended, OrchestrationStatus::Completed { .. }),
        "{ended:?}"
    );
    assert_eq!(seconds, 3600);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_asked_puts_things_right_first() {
    let (ended, seconds) = child_after("request").await;
    let OrchestrationStatus::Failed { custom_status, .. } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(custom_status.as_deref(), Some("put things right"));
    assert_eq!(seconds, 61);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_cancelled_with_its_parent_is_not_asked() {
    let (ended, seconds) = child_after("cancel").await;
    let OrchestrationStatus::Failed { custom_status, .. } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((custom_status, seconds), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_abandoned_in_the_last_turn_still_starts() {
    let mut harness = harness().await;
    harness.execute(leaving_at_once, ()).await.unwrap();
    let ended = harness.wait("child").await;
    assert!(
        matches!(ended, OrchestrationStatus::Completed { .. }),
        "{ended:?}"
    );
}

/// The child of a later release.
mod later {
    use super::*;

    #[duroxide::orchestration(version = "2.0.0")]
    async fn invoice(_ctx: OrchestrationContext, _order: u64) -> Result<String, InvoiceError> {
        Ok("another paper".to_owned())
    }

    #[duroxide::orchestration]
    pub(super) async fn parent(
        ctx: OrchestrationContext,
        order: u64,
    ) -> Result<String, OrchestrationError<InvoiceError>> {
        ctx.child(invoice, order).id("paper").await
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_may_move_on_to_another_version_while_parents_run() {
    let mut harness = harness().await;
    harness.execute(parent, 7).await.unwrap();
    let history = serde_json::to_string(&harness.history("run-1").await).unwrap();
    let handler = duroxide_core::TypedOrchestration(later::parent {});
    replay(&history, Arc::new(handler)).unwrap();
}
