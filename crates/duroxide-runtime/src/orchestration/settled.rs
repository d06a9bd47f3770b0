//! Claimed turns that end without running code. In: a claim that the code cannot or need not see. Out: the instance
//! blocked, its messages consumed without effect, or the claim given back.

use duroxide_core::provider::OrchestrationItem;

use super::blocked::block;
use super::claim::{ClaimInHand, INSTANCE_REST};
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
        if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
            forced::end(engine, self, item, request.into_end()).await;
            return;
        }
        let report = format!(
            "its history does not decode: {}",
            item.history_error.as_deref().unwrap_or_default()
        );
        let of = ExecutionRef {
            instance: item.instance,
            execution_id: item.execution_id,
            name: item.orchestration_name,
            parent: None,
            incarnation: self.incarnation,
        };
        block(engine, self.lease, &of, BlockCause::MayPass, report).await;
    }

    /// An execution that this code cannot run, as an earlier turn of it showed.
    pub(super) async fn still_blocked(
        self,
        engine: &Engine,
        item: OrchestrationItem,
        report: String,
    ) {
        if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
            forced::end(engine, self, item, request.into_end()).await;
            return;
        }
        let of = ExecutionRef {
            instance: item.instance,
            execution_id: item.execution_id,
            name: item.orchestration_name,
            parent: None,
            incarnation: self.incarnation,
        };
        block(engine, self.lease, &of, BlockCause::ThisCode, report).await;
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
        let mut writes = TurnCommit::nothing(item.execution_id);
        writes.to_orchestrators = batch.refusals;
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
            "the next execution has no visible start; the messages rest for {delay:?}"
        );
        try_later(engine, self, delay).await;
    }
}
