//! Storing how an activity ended. In: its lease and the completion. Out: the completion stored, or the lease lost.
//!
//! An outage of the store loses nothing that an activity has done: the worker tries the acknowledgement for as long as
//! the store does not say that the lease is gone. Nor does a store that refuses the result decide how the author's
//! program ends: the worker lists the instance as blocked, with what the store said, and offers the result again.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::defect::Defect;
use duroxide_core::provider::{BlockedInstance, Incarnation, ProviderError};
use tokio::time::Instant;

use super::claimed::give_back;
use crate::engine::{BlockCause, Engine};
use crate::executor::Task;
use crate::leases::{Attempt, Held};
use crate::observability::{ActivityEnd, FinishedSpan};

/// First pause between two tries of one acknowledgement; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An acknowledgement that takes longer than this goes on in the background and leaves its slot to others.
const ACK_FOREGROUND_MAX: Duration = Duration::from_secs(2);
/// How long an engine with [`Defect::CompletionDroppedAfterOutage`] offers a result.
const DEFECTIVE_LIMIT: Duration = Duration::from_millis(1_300);

/// A completion on its way to the store.
pub(super) struct Completion {
    pub(super) lease: Held,
    pub(super) item: WorkItem,
    /// What names the activity among those that were tried.
    pub(super) key: String,
    /// What was counted; taken back if the completion is not stored.
    pub(super) end: ActivityEnd,
    pub(super) execution_id: u64,
    pub(super) incarnation: Option<Incarnation>,
    /// What it leaves in its trace once it is stored.
    pub(super) span: Option<FinishedSpan>,
    /// Whether the store has refused it before.
    pub(super) is_refused: bool,
}

/// How one round of tries ended.
enum Tried {
    Over,
    /// The store was away all the time.
    Later(Box<Completion>),
}

impl Completion {
    /// Stores the completion. Returns when that is done or goes on in the background.
    pub(super) async fn store(self: Box<Self>, engine: &Arc<Engine>) {
        let Tried::Later(completion) = self.try_for(engine, Some(ACK_FOREGROUND_MAX)).await else {
            return;
        };
        tracing::warn!(
            target: "duroxide::runtime::worker",
            activity_name = %completion.end.name,
            "the store does not take the result of an activity; trying until its lease is lost"
        );
        let background = Arc::clone(engine);
        let task = Task::engine("the acknowledgement of an activity");
        engine.executor.spawn(task, async move {
            completion.try_for(&background, None).await;
        });
    }

    async fn try_for(mut self: Box<Self>, engine: &Engine, limit: Option<Duration>) -> Tried {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        // A round that goes on in the background follows one in which the store was away.
        let mut was_away = limit.is_none();
        loop {
            let token = self.lease.token();
            let acknowledged = engine.store.ack_work_item(token, Some(self.item.clone()));
            let error = match acknowledged.await {
                Ok(()) => {
                    self.lease.end();
                    engine.excuses.remove(&self.key);
                    if self.is_refused {
                        engine.blocked.remove(self.item.target_instance());
                    }
                    engine.turns_ready.notify_one();
                    if let (Some(sink), Some(span)) = (&engine.spans, self.span) {
                        sink.ended(span);
                    }
                    return Tried::Over;
                }
                Err(error) => error,
            };
            if error.is_lease_lost() {
                // Cancelled, or taken over by another worker that answers instead.
                tracing::debug!(target: "duroxide::runtime::worker", %error, "result discarded, the activity's lease is gone");
                engine.metrics.take_back_activity(&self.end);
                if was_away || self.lease.is_loss_excused() {
                    engine.excuses.add(&self.key);
                }
                self.lease.end();
                return Tried::Over;
            }
            was_away = true;
            if Defect::CompletionDroppedAfterOutage.is_on() && began.elapsed() > DEFECTIVE_LIMIT {
                return Box::pin(self.defective_give_up(engine)).await;
            }
            let refused = (!error.is_retryable()).then(|| self.block(engine, &error));
            self.is_refused |= refused.is_some();
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return Tried::Later(self);
            }
            tokio::time::sleep(refused.unwrap_or(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn defective_give_up(self: Box<Self>, engine: &Engine) -> Tried {
        engine.metrics.take_back_activity(&self.end);
        give_back(engine, self.lease, None, Attempt::Counted).await;
        Tried::Over
    }

    /// Lists the instance as blocked by what the store said; returns how long to wait before the result is offered
    /// again.
    fn block(&self, engine: &Engine, error: &ProviderError) -> Duration {
        let name = &self.end.name;
        if !self.is_refused {
            tracing::error!(target: "duroxide::runtime::worker", activity_name = %name, %error, "the store refuses the result of an activity; it is kept and offered again");
            engine.metrics.record_activity_infra_error(name);
        }
        let blocked = BlockedInstance {
            instance_id: self.item.target_instance().to_owned(),
            execution_id: self.execution_id,
            orchestration_name: String::new(),
            report: format!("the store refuses the result of its activity {name}: {error}"),
            attempts: 0,
        };
        let backoff = &engine.options.unregistered_backoff;
        // No turn is claimed, so there is no lease under which the store would note it.
        let (rest, _) =
            engine
                .blocked
                .insert(blocked, self.incarnation, BlockCause::MayPass, backoff);
        rest
    }
}
