//! Queues: messages that wait in order, are claimed under leases and stay until they are completed.
//!
//! A queue delivers either whole *groups* (all visible messages of one key under one exclusive lease) or *single*
//! messages. Order is the order of enqueueing. Attempts are counted at the claim.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::atomic::{AtomicOps, Batch, Operation, Query};
use crate::error::StoreError;
use crate::lease::{After, Lease, LeaseToken, Owner};

/// Names a queue and says how it delivers. A name is used with one kind of delivery only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Name.
    pub name: Cow<'static, str>,
    /// How it delivers.
    pub delivery: Delivery,
}

/// How a queue delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All visible messages of a group together, one lease per group.
    Grouped,
    /// One message at a time, one lease each.
    Single,
}

impl Queue {
    /// A queue that delivers whole groups.
    pub const fn grouped(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            delivery: Delivery::Grouped,
        }
    }

    /// A queue that delivers single messages.
    pub const fn single(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            delivery: Delivery::Single,
        }
    }

    /// Checks that the queue delivers this way.
    ///
    /// # Errors
    ///
    /// [`StoreError::Permanent`] if it does not.
    pub fn expect(&self, delivery: Delivery) -> Result<(), StoreError> {
        if self.delivery == delivery {
            return Ok(());
        }
        Err(StoreError::Permanent(format!(
            "queue {} cannot be used for {:?} delivery, or was used for another before",
            self.name, delivery
        )))
    }
}

/// When a message can be claimed. The store computes it with its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visible {
    /// From the commit on.
    #[default]
    Now,
    /// From this time on, in milliseconds since the Unix epoch.
    At(u64),
    /// This many milliseconds after the commit.
    AfterMs(u64),
}

impl Visible {
    /// The absolute time, for a commit at `now_ms`.
    #[must_use]
    pub fn at_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Now => now_ms,
            Self::At(time) => time,
            Self::AfterMs(delay) => now_ms.saturating_add(delay),
        }
    }
}

/// A message to enqueue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// Group it belongs to.
    pub group: String,
    /// Key by which it can be deleted; unique within a group by the caller's choice only.
    pub key: Option<String>,
    /// Affinity key: while one owner holds it, nobody else can claim the message. Single delivery only.
    pub affinity: Option<String>,
    /// Label: selects messages at the claim in a queue of single messages, and is counted in [`Depth`].
    pub label: Option<String>,
    /// A number that travels with the message, at most `i64::MAX`; the store does not look at it.
    pub stamp: Option<u64>,
    /// Bytes the store does not look into.
    pub payload: Vec<u8>,
    /// When it can be claimed.
    pub visible: Visible,
}

impl NewMessage {
    /// A message that is visible at once, without key, affinity or label.
    pub fn new(group: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            group: group.into(),
            payload: payload.into(),
            ..Self::default()
        }
    }

    /// The stored form, for a commit at `now_ms`.
    #[must_use]
    pub fn stored_as(self, id: u64, now_ms: u64) -> Message {
        Message {
            id,
            group: self.group,
            key: self.key,
            affinity: self.affinity,
            label: self.label,
            stamp: self.stamp,
            payload: self.payload,
            visible_at: self.visible.at_ms(now_ms),
            enqueued_at: now_ms,
            attempts: 0,
        }
    }
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its number; grows in the order of enqueueing, unique in the store.
    pub id: u64,
    /// Group.
    pub group: String,
    /// Key by which it can be deleted.
    pub key: Option<String>,
    /// Affinity key.
    pub affinity: Option<String>,
    /// Label.
    pub label: Option<String>,
    /// The number that travels with it.
    pub stamp: Option<u64>,
    /// Bytes the store does not look into.
    pub payload: Vec<u8>,
    /// When it can be claimed, in milliseconds since the Unix epoch.
    pub visible_at: u64,
    /// When it was enqueued, in milliseconds since the Unix epoch.
    pub enqueued_at: u64,
    /// How often it was claimed.
    pub attempts: u32,
}

/// Which labels a claim accepts: a quick, pure predicate on the label of a group or of a single message.
#[derive(Clone)]
pub struct Labels(Arc<Predicate>);

type Predicate = dyn Fn(Option<&str>) -> bool + Send + Sync;

impl Labels {
    /// All labels, and none.
    #[must_use]
    pub fn any() -> Self {
        Self(Arc::new(|_| true))
    }

    /// Those for which the predicate holds.
    pub fn matching(accepts: impl Fn(Option<&str>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(accepts))
    }

    /// Whether a label is accepted.
    #[must_use]
    pub fn accepts(&self, label: Option<&str>) -> bool {
        (self.0)(label)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Labels(..)")
    }
}

/// What a caller asks for when it claims.
#[derive(Debug, Clone)]
pub struct Claim {
    /// From which queue.
    pub queue: Queue,
    /// How many groups or messages at most.
    pub max: usize,
    /// Length of each lease.
    pub lease_ms: u64,
    /// How long to wait for the first one; zero tries once.
    pub wait: Duration,
    /// Which labels.
    pub labels: Labels,
    /// Who claims; without an owner, messages with an affinity key are left alone.
    pub owner: Option<Owner>,
    /// Scope whose entry named like the group is read in the same step and handed out with the claim.
    pub attach: Option<String>,
}

impl Claim {
    /// A claim of one group or message, whatever its label, without waiting.
    #[must_use]
    pub fn one(queue: Queue, lease_ms: u64) -> Self {
        Self {
            queue,
            max: 1,
            lease_ms,
            wait: Duration::ZERO,
            labels: Labels::any(),
            owner: None,
            attach: None,
        }
    }
}

/// What a claim handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Proof of the lease.
    pub token: LeaseToken,
    /// Group of the messages.
    pub group: String,
    /// The messages in order; exactly one in a queue of single messages.
    pub messages: Vec<Message>,
    /// The entry asked for with [`Claim::attach`].
    pub attached: Option<Vec<u8>>,
}

/// Messages of one label in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Depth {
    /// The messages' label.
    pub label: Option<String>,
    /// Visible and not leased.
    pub ready: u64,
    /// Not visible yet and not leased.
    pub delayed: u64,
    /// Under a valid lease.
    pub leased: u64,
}

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
    /// A group is eligible if it has a visible message, no valid lease and an accepted label; the claim takes all its
    /// visible messages. A single message is eligible if it is visible, not leased, has an accepted label, and its
    /// affinity key is free or held by the claiming owner; the claim takes or extends the affinity lease. Groups
    /// come in the order in which they became eligible, single messages in the order of their numbers. Each
    /// message's attempts grow by one.
    ///
    /// Waits up to `claim.wait` for the first one and is woken by commits, due times and lapsing leases. Dropping the
    /// future is safe: a lease taken just before lapses by itself.
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
