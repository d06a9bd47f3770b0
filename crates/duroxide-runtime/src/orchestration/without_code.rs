//! Instances whose code this node does not have. In: a claim. Out: the claim given back for a node that has the code;
//! or an end, if a request to cancel came and no node with the code took it up.
//!
//! Stores that know what a node can run never hand such instances out, except to end them. Other stores do.

use duroxide_core::defect::Defect;
use duroxide_core::provider::OrchestrationItem;
use duroxide_core::{Event, WorkItem};

use super::claim_in_hand::ClaimInHand;
use super::forced::{self, CancelRequest};
use super::give_back::{give_back, try_later};
use super::sort::HistoryEnd;
use crate::engine::Engine;
use crate::options::OnUnregistered;

/// Deals with a claimed instance whose handler is not registered here.
pub(super) async fn handle(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    handler: &str,
) {
    if engine.options.on_unregistered() == OnUnregistered::Fail {
        fail_in_the_end(engine, claim, handler).await;
        return;
    }
    let request = CancelRequest::unheard(&item);
    let seen = engine
        .code_wanted
        .see(&item.instance, claim.incarnation, request.is_some());
    if let Some(request) = request {
        // Code that is elsewhere may want to put things right before it is cancelled. A store that draws incarnations
        // knows what a node can run, and has waited before it handed this out; with another store the node waits
        // itself.
        let limit = engine.options.cancel_without_code_after;
        let waited = seen.cancel_since.map(|since| since.elapsed());
        let has_waited = claim.incarnation.is_some() || waited.is_some_and(|time| time >= limit);
        if request.terminates() || has_waited {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %item.instance, orchestration_name = %handler,
                "cancelled without running its code: no node with the handler took the request up"
            );
            forced::end(engine, claim, item, request.into_end()).await;
            return;
        }
    }
    if engine.code_wanted.is_first_miss(handler) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance, orchestration_name = %handler,
            "Orchestration not registered here; the instance waits for a node that has it"
        );
    }
    let delay = engine.options.unregistered_backoff.delay(seen.times);
    if Defect::MissingOrchestrationCounts.is_on() {
        return try_later(engine, claim, delay).await;
    }
    give_back(engine, claim.lease, Some(delay)).await;
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
    try_later(engine, claim, delay).await;
}

/// The handler of an instance whose code is not here: the recorded one, or the one that its next execution asks for.
pub(super) fn missing_handler(engine: &Engine, item: &OrchestrationItem) -> Option<String> {
    let history_end = HistoryEnd::of(&item.history);
    let recorded = item.history.iter().find_map(Event::started_handler);
    let Some((name, version)) = recorded.filter(|_| history_end != HistoryEnd::BetweenExecutions)
    else {
        return missing_beginning(engine, history_end, &item.messages);
    };
    let found = engine.orchestrations.resolve_recorded(&name, &version);
    found.is_none().then_some(name)
}

/// The handler that a start or continue-as-new among these messages asks for, if it is not here.
pub(super) fn missing_beginning(
    engine: &Engine,
    history_end: HistoryEnd,
    messages: &[WorkItem],
) -> Option<String> {
    let begins = |message: &&WorkItem| match message {
        WorkItem::StartOrchestration { .. } => history_end == HistoryEnd::Unborn,
        WorkItem::ContinueAsNew { .. } => true,
        _ => false,
    };
    let (name, version) = messages.iter().find(begins)?.begins()?;
    let found = engine.orchestrations.resolve_start(name, version);
    found.is_none().then(|| name.to_owned())
}
