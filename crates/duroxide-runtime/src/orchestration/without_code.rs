//! Instances whose code this node does not have. In: a claim. Out: the claim given back for a node that has the code; or
//! an end, if somebody asked to cancel and no node with the code took that up.
//!
//! Stores that know what a node can run never hand such instances out, except to end them. Other stores do.

use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::OrchestrationItem;

use super::claim::ClaimInHand;
use super::commit::{Attempt, give_back};
use super::forced::{self, CancelRequest};
use crate::engine::Engine;
use crate::options::OnUnregistered;

/// A request to cancel is carried out without the code if no node with the code has done so for this long.
pub(super) const CANCEL_WITHOUT_CODE_AFTER: Duration = Duration::from_secs(5);

/// Deals with a claimed instance whose handler is not registered here.
pub(super) async fn handle(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    handler: &str,
) {
    let wait = match engine.options.on_unregistered() {
        OnUnregistered::Fail => {
            fail_in_the_end(engine, claim, handler).await;
            return;
        }
        OnUnregistered::Wait => engine.code_wanted.see(&item.instance),
    };
    if let Some(request) = CancelRequest::among(&item.messages) {
        // Code that is elsewhere may want to put things right before it is cancelled. A store that draws incarnations
        // knows what a node can run, and has waited before it handed this out.
        let has_waited =
            claim.incarnation.is_some() || wait.first.elapsed() >= CANCEL_WITHOUT_CODE_AFTER;
        if request.terminates || has_waited {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %item.instance, orchestration_name = %handler,
                "cancelled without running its code: no node with the handler took the request up"
            );
            forced::end(engine, claim, item, request.into_end()).await;
            return;
        }
    }
    if engine.code_wanted.is_news(handler) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance, orchestration_name = %handler,
            "Orchestration not registered here; the instance waits for a node that has it"
        );
    }
    let delay = engine.options.unregistered_backoff.delay(wait.times);
    let attempt = match Defect::MissingOrchestrationCounts.is_on() {
        true => Attempt::Counted,
        false => Attempt::Uncounted,
    };
    give_back(engine, claim.lease, Some(delay), attempt).await;
}

/// The published way: each claim without the code counts, and the instance is poison in the end.
async fn fail_in_the_end(engine: &Engine, claim: ClaimInHand<'_>, handler: &str) {
    let delay = engine.options.unregistered_backoff.delay(claim.attempt);
    let left = engine.options.max_attempts.saturating_sub(claim.attempt);
    tracing::warn!(
        target: "duroxide::runtime",
        orchestration_name = %handler,
        "Orchestration not registered, abandoning with {:.1}s backoff (will poison in {left} more attempts)",
        delay.as_secs_f64()
    );
    give_back(engine, claim.lease, Some(delay), Attempt::Counted).await;
}
