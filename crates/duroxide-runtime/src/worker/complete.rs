//! Storing how an activity ended. In: its lease and the completion. Out: the completion stored, or the lease lost.
//!
//! What an activity has done is not thrown away because the store is away for a while: the acknowledgement is tried for
//! as long as the store does not say that the lease is gone.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::defect::Defect;
use tokio::time::Instant;

use super::claimed::give_back;
use crate::engine::Engine;
use crate::executor::Task;
use crate::leases::Held;
use crate::observability::ActivityEnd;

/// First pause between two tries of one acknowledgement; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An acknowledgement that takes longer than this goes on in the background and leaves its slot to others.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an activity rests whose result the store refuses.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// A completion on its way to the store.
pub(super) struct Completion {
    pub(super) lease: Held,
    pub(super) item: WorkItem,
    /// What names the activity among those that were tried.
    pub(super) key: String,
    /// What was counted; taken back if the completion is not stored.
    pub(super) end: ActivityEnd,
}

/// How one round of tries ended.
enum Tried {
    Over,
    /// The store was away all the time.
    Later(Box<Completion>),
}

impl Completion {
    /// Stores the completion. Returns when that is done or goes on in the background.
    pub(super) async fn store(self, engine: &Arc<Engine>) {
        let Tried::Later(completion) = self.try_for(engine, Some(PATIENCE)).await else {
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

    async fn try_for(self, engine: &Engine, limit: Option<Duration>) -> Tried {
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
                    engine.turns_ready.notify_one();
                    return Tried::Over;
                }
                Err(error) => error,
            };
            if error.is_lease_lost() {
                // Cancelled, or taken over by another worker that answers instead.
                tracing::debug!(target: "duroxide::runtime::worker", %error, "result discarded, the activity's lease is gone");
                engine.metrics.take_back_activity(&self.end);
                if was_away {
                    engine.excuses.add(&self.key);
                }
                self.lease.end();
                return Tried::Over;
            }
            was_away = true;
            let gives_up = Defect::CompletionDroppedAfterOutage.is_on()
                && began.elapsed() > Duration::from_millis(1_300);
            if !error.is_retryable() || gives_up {
                tracing::warn!(target: "duroxide::runtime::worker", %error, "worker: atomic ack failed, abandoning work item");
                engine.metrics.take_back_activity(&self.end);
                engine.metrics.record_activity_infra_error(&self.end.name);
                give_back(engine, self.lease, Some(REST_AFTER_REFUSAL), false).await;
                return Tried::Over;
            }
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return Tried::Later(Box::new(self));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
