//! Queues: messages that wait in order, are claimed under leases and stay until they are completed.
//!
//! A queue delivers either whole *groups* (all visible messages of one key under one exclusive lease) or *single*
//! messages. Order is the order of enqueueing. Attempts are counted at the claim.

use async_trait::async_trait;

use crate::atomic::{AtomicOps, Batch, Operation, Query};
use crate::error::StoreError;
use crate::lease::{After, Lease, LeaseToken};
use crate::message::{Claim, Claimed, Depth, NewMessage, Queue};

/// Queues with leases.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use duroxide_store::{Claim, MessageQueue, NewMessage, Queue, memory::MemoryStore};
/// const MAIL: Queue = Queue::single("mail");
/// let store = MemoryStore::new();
/// store.enqueue(&MAIL, NewMessage::new("anna", "hello")).await?;
/// let claimed = store.claim(Claim::one(MAIL, 30_000)).await?;
/// assert_eq!(claimed[0].messages[0].payload, b"hello");
/// store.complete(&claimed[0].token).await?;
/// # Ok::<(), duroxide_store::StoreError>(()) }).unwrap();
/// ```
#[async_trait]
pub trait MessageQueue: AtomicOps {
    /// Takes up to `claim.max` groups or messages under leases, in one atomic step.
    ///
    /// A group is eligible if it has a visible message, no valid lease, an accepted label and an accepted kind (or an
    /// alarm that is old enough); the claim takes its visible messages up to the claim's bounds, oldest first. A single
    /// message is eligible if it is visible, not leased, has an accepted label and kind, and its affinity key is free
    /// or held by the claiming owner; the claim takes or extends the affinity lease. Groups come in the order in which
    /// they became eligible, single messages in the order of their numbers. Each message's attempts grow by one. A
    /// lease lasts at least one millisecond, so that no claim takes the same twice.
    ///
    /// What became visible stays visible, also if the clock is set back.
    ///
    /// Waits up to `claim.wait` for the first one and is woken by commits, due times and leases that run out. Dropping
    /// the future is safe: a lease taken just before runs out by itself.
    ///
    /// # Errors
    ///
    /// After any error no lease is held.
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError>;

    /// Adds a message.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::commit`].
    async fn enqueue(&self, queue: &Queue, message: NewMessage) -> Result<(), StoreError> {
        let enqueue = Operation::Enqueue {
            queue: queue.clone(),
            message,
        };
        self.commit(Batch::of([enqueue])).await.map(drop)
    }

    /// Removes claimed messages for good.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] unless the lease is valid.
    async fn complete(&self, lease: &LeaseToken) -> Result<(), StoreError> {
        let complete = Operation::Complete {
            lease: lease.clone(),
        };
        self.commit(Batch::of([complete])).await.map(drop)
    }

    /// Extends a lease, from now.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] unless the lease is valid.
    async fn renew(&self, lease: &LeaseToken, lease_ms: u64) -> Result<(), StoreError> {
        let renew = Operation::Renew {
            lease: lease.clone(),
            lease_ms,
        };
        self.commit(Batch::of([renew])).await.map(drop)
    }

    /// Gives claimed messages back.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] if the lease is unknown or taken over.
    async fn release(
        &self,
        lease: &LeaseToken,
        after: After,
        forgive: bool,
    ) -> Result<(), StoreError> {
        let release = Operation::Release {
            lease: lease.clone(),
            after,
            forgive,
        };
        self.commit(Batch::of([release])).await.map(drop)
    }

    /// Looks a lease up; `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn lease(&self, token: &LeaseToken) -> Result<Option<Lease>, StoreError> {
        let lease = Query::Lease {
            token: token.clone(),
        };
        self.query_one(lease).await?.into_lease()
    }

    /// What waits in a queue, by label.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn depths(&self, queue: &Queue) -> Result<Vec<Depth>, StoreError> {
        let depths = Query::Depths {
            queue: queue.clone(),
        };
        self.query_one(depths).await?.into_depths()
    }
}
