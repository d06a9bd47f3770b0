//! Claims with nothing to run. In: a claim that the code cannot or need not see. Out: the instance blocked, its
//! messages consumed without effect, or the claim given back. What a request to cancel ends goes to `forced`.

use duroxide_core::provider::OrchestrationItem;

use super::blocked::block;
use super::claim_in_hand::ClaimInHand;
use super::forced::{self, CancelRequest, Consumed};
use super::give_back::{INSTANCE_REST, try_later};
use super::plan::{ExecutionRef, TurnCommit};
use super::sort::Batch;
use crate::engine::{BlockCause, Engine};
use crate::options::OnDivergence;

/// An instance whose history does not decode: it waits for code that can read it, or is poison in the end.
pub(super) async fn undecodable(engine: &Engine, claim: ClaimInHand<'_>, item: OrchestrationItem) {
    if engine.options.on_divergence == OnDivergence::Fail {
        try_later(engine, claim, INSTANCE_REST).await;
        return;
    }
    let report = format!(
        "its history does not decode: {}",
        item.history_error.as_deref().unwrap_or_default()
    );
    end_or_block(engine, claim, item, BlockCause::MayPass, report).await;
}

/// An execution that this code cannot run, as an earlier turn of it showed.
pub(super) async fn still_blocked(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    report: String,
) {
    end_or_block(engine, claim, item, BlockCause::ThisCode, report).await;
}

/// Ends the instance if a message of the claim asks for that, and blocks it otherwise.
async fn end_or_block(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    cause: BlockCause,
    report: String,
) {
    if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
        forced::end(engine, claim, item, request.into_end()).await;
        return;
    }
    let of = ExecutionRef::of(item, claim.incarnation);
    block(engine, claim.lease, &of, cause, report).await;
}

/// Consumes messages that can have no effect, and answers starts that came too late.
pub(super) async fn acknowledge(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    batch: Batch,
    reason: &'static str,
) {
    tracing::warn!(
        target: "duroxide::runtime",
        instance_id = %item.instance,
        "messages for an instance that has ended or never began are consumed without effect"
    );
    let writes = TurnCommit::sending(item.execution_id, batch.late_start_answers);
    let consumed = forced::consume(engine, claim.incarnation, claim.lease, item, writes);
    if consumed.await == Consumed::Yes {
        for _ in &batch.messages {
            engine.metrics.record_dropped_message(reason);
        }
    }
}

/// The execution has ended and the message that begins the next one is not visible yet.
pub(super) async fn await_successor(engine: &Engine, claim: ClaimInHand<'_>, instance: String) {
    let delay = engine.options.unregistered_backoff.delay(claim.attempt);
    tracing::warn!(
        target: "duroxide::runtime",
        instance_id = %instance,
        "the next execution has no visible start; the instance rests for {delay:?}"
    );
    try_later(engine, claim, delay).await;
}
