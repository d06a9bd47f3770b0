//! Flaws of what has to be one step and is two: the look at a lease and the write under it, and the parts of a
//! deletion.

use duroxide_core::WorkItem;
use duroxide_core::provider::{DeleteInstanceResult, Provider, ProviderError};
use duroxide_store::{AtomicOps as _, Batch, LeaseToken, Message, Operation, Query, Queue};

use super::commits::Turn;
use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

const TURNS: Queue = Queue::grouped("orchestrator");

/// The lease in a token of the reference store, which says how long it is and what stands before it.
fn lease_of(token: &str) -> Option<LeaseToken> {
    let mut parts = token.splitn(5, ':');
    let length: usize = parts.nth(3)?.parse().ok()?;
    let (lease, _) = parts.next()?.split_at_checked(length)?;
    Some(LeaseToken::new(lease))
}

fn broken(error: impl std::fmt::Display) -> ProviderError {
    ProviderError::permanent("mutant", error.to_string())
}

impl Mutant {
    async fn holds(&self, token: &str) -> Result<bool> {
        let Some(token) = lease_of(token) else {
            return Ok(false);
        };
        let answer = self.inner.store().query_one(Query::Lease { token }).await;
        let held = answer.map_err(broken)?.into_lease().map_err(broken)?;
        Ok(held.is_some_and(|held| held.valid))
    }

    /// Looks at the lease; what happens to it until the write makes no difference any more.
    pub(super) async fn commit_after_a_look(&self, turn: Turn) -> Result<()> {
        let held = self.holds(&turn.token).await?;
        tokio::task::yield_now().await;
        let (token, execution) = (turn.token.clone(), turn.execution_id);
        let (events, work, messages) = (
            turn.events.clone(),
            turn.work.clone(),
            turn.messages.clone(),
        );
        match self.commit_inner(turn).await {
            Err(error) if held && error.is_lease_lost() => {
                self.append_anyway(&token, execution, events).await?;
            }
            answer => return answer,
        }
        for item in work {
            self.inner.enqueue_for_worker(item).await?;
        }
        for item in messages {
            self.inner.enqueue_for_orchestrator(item, None).await?;
        }
        Ok(())
    }

    async fn queued(&self, instance: &str) -> Result<Vec<Message>> {
        let messages = Query::Messages {
            queue: TURNS,
            group: Some(instance.into()),
            after: 0,
            limit: usize::MAX,
        };
        let answer = self.inner.store().query_one(messages).await;
        answer.map_err(broken)?.into_messages().map_err(broken)
    }

    /// Deletes in two steps, of which one is not done.
    pub(super) async fn delete_torn(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult> {
        let mut queued = Vec::new();
        for id in ids {
            queued.extend(self.queued(id).await?);
        }
        if self.has(Flaw::DeletionTakesMessagesFirst) {
            let take = Operation::DeleteMessages {
                queue: TURNS,
                ids: queued.iter().map(|message| message.id).collect(),
            };
            let taken = self.inner.store().commit(Batch::of([take])).await;
            taken.map_err(broken)?;
            let mut deleted = self.reference().delete_instances_atomic(ids, force).await?;
            deleted.queue_messages_deleted += queued.len() as u64;
            return Ok(deleted);
        }
        let deleted = self.reference().delete_instances_atomic(ids, force).await?;
        for message in queued {
            let item: WorkItem = serde_json::from_slice(&message.payload).map_err(broken)?;
            self.inner.enqueue_for_orchestrator(item, None).await?;
        }
        Ok(deleted)
    }
}
