//! Claims with nothing to run. In: a claim that the code cannot or need not see. Out: the instance blocked, its
//! messages consumed without effect, or the claim given back. What a request to cancel ends goes to `forced`.

use duroxide_core::provider::OrchestrationItem;

use super::blocked::block;
use super::claim_in_hand::{ClaimInHand, INSTANCE_REST};
use super::commit::try_later;
use super::forced::{self, CancelRequest, Consumed};
use super::plan::{ExecutionRef, TurnCommit};
use super::sort::Batch;
use crate::engine::{BlockCause, Engine};
use crate::options::OnDivergence;

impl ClaimInHand<'_> {
    /// An instance whose history does not decode: it waits for code that can read it, or is poison in the end.
    pub(super) async fn undecodable(self, engine: &Engine, item: OrchestrationItem) {
        if engine.options.on_divergence == OnDivergence::Fail {
            try_later(engine, self, INSTANCE_REST).await;
            return;
        }
        let report = format!(
            "its history does not decode: {}",
            item.history_error.as_deref().unwrap_or_default()
        );
        self.end_or_block(engine, item, BlockCause::MayPass, report)
            .await;
    }

    /// An execution that this code cannot run, as an earlier turn of it showed.
    pub(super) async fn still_blocked(
        self,
        engine: &Engine,
        item: OrchestrationItem,
        report: String,
    ) {
        self.end_or_block(engine, item, BlockCause::ThisCode, report)
            .await;
    }

    /// Ends the instance if a message of the claim asks for that, and blocks it otherwise.
    async fn end_or_block(
        self,
        engine: &Engine,
        item: OrchestrationItem,
        cause: BlockCause,
        report: String,
    ) {
        if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
            forced::end(engine, self, item, request.into_end()).await;
            return;
        }
        let of = ExecutionRef::of(item, self.incarnation);
        block(engine, self.lease, &of, cause, report).await;
    }

    /// Consumes messages that can have no effect, and answers starts that came too late.
    pub(super) async fn acknowledge(
        self,
        engine: &Engine,
        item: OrchestrationItem,
        batch: Batch,
        reason: &'static str,
    ) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance,
            "messages for an instance that has ended or never began are consumed without effect"
        );
        let writes = TurnCommit::sending(item.execution_id, batch.refusals);
        let consumed = forced::consume(engine, self.incarnation, self.lease, item, writes);
        if consumed.await == Consumed::Yes {
            for _ in &batch.messages {
                engine.metrics.record_dropped_message(reason);
            }
        }
    }

    /// The execution has ended and the message that begins the next one is not visible yet.
    pub(super) async fn await_successor(self, engine: &Engine, instance: String) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %instance,
            "the next execution has no visible start; the instance rests for {delay:?}"
        );
        try_later(engine, self, delay).await;
    }
}
