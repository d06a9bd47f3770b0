//! Guarded batches and consistent reads: the two calls everything else is made of.
//!
//! Protocol of a commit: first all guards, lease conditions and event numbers are checked against the state before
//! the batch; if one does not hold, nothing happens. Then the operations are applied in order. Others see all of it or
//! nothing.

use async_trait::async_trait;

use crate::error::StoreError;
pub use crate::guard::Guard;
use crate::lease::{After, Lease, LeaseToken};
use crate::message::{Backlog, Depth, Message, NewMessage, Queue};
use crate::record::{Entry, PartitionInfo, Record};
use crate::wake::TopicWatch;

/// Writes that belong together, and what must hold for them to happen.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// All must hold.
    pub guards: Vec<Guard>,
    /// Applied in order, all or none.
    pub operations: Vec<Operation>,
    /// Topics whose watchers are woken after the commit.
    pub topics: Vec<String>,
}

impl Batch {
    /// A batch without guards.
    #[must_use]
    pub fn of(operations: impl IntoIterator<Item = Operation>) -> Self {
        Self {
            operations: operations.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds a guard.
    #[must_use]
    pub fn guarded_by(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }
}

/// One write. A commit answers with the number of records each operation touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Adds events. A number that exists fails the batch with [`StoreError::Conflict`]; nothing is ever overwritten.
    Append {
        /// The entity whose log grows.
        entity: String,
        /// The partition of the entity.
        partition: u64,
        /// The events to add, with their numbers.
        events: Vec<Record>,
    },
    /// Removes one partition; counts events.
    DeletePartition {
        /// The entity whose log is changed.
        entity: String,
        /// The partition of the entity.
        partition: u64,
    },
    /// Removes all partitions of an entity; counts events.
    DeleteEntity {
        /// The entity whose log is removed.
        entity: String,
    },
    /// Writes an entry.
    Put {
        /// The scope that the entry is in.
        scope: String,
        /// The key of the entry in its scope.
        key: String,
        /// The bytes to store under the key.
        value: Vec<u8>,
    },
    /// Removes an entry.
    Delete {
        /// The scope that the entry is in.
        scope: String,
        /// The key of the entry in its scope.
        key: String,
    },
    /// Removes all entries of a scope.
    DeleteScope {
        /// The scope whose entries are removed.
        scope: String,
    },
    /// Adds a message.
    Enqueue {
        /// The queue.
        queue: Queue,
        /// The message.
        message: NewMessage,
    },
    /// Holds the followers of a group back, those that are queued and those that come: no claim takes one, and they
    /// alone do not make the group ready. The next [`Complete`](Self::Complete) of the group ends that, and so does its
    /// deletion.
    HoldFollowers {
        /// The queue that the group is in.
        queue: Queue,
        /// The group in that queue.
        group: String,
    },
    /// Removes the messages of a lease and ends it; fails the batch with [`StoreError::LeaseLost`] unless it is
    /// valid. Counts messages. Marks the affinity key of the message, if any, as active.
    Complete {
        /// The lease.
        lease: LeaseToken,
    },
    /// Extends a lease to now plus `lease_ms`; fails the batch with [`StoreError::LeaseLost`] unless it is valid.
    /// Marks the affinity key of the message, if any, as active.
    Renew {
        /// The lease.
        lease: LeaseToken,
        /// New length, from now.
        lease_ms: u64,
    },
    /// Gives the messages of a lease back; fails the batch with [`StoreError::LeaseLost`] if the lease is unknown or
    /// taken over. One that expired and was not taken over can still be released.
    Release {
        /// The lease.
        lease: LeaseToken,
        /// When the messages can be claimed again.
        after: After,
        /// Whether the claim does not count as an attempt.
        forgive: bool,
    },
    /// Removes messages by number, leased or not. The last message of an item lease takes the lease with it.
    DeleteMessages {
        /// The queue that holds the messages.
        queue: Queue,
        /// Numbers; unknown ones are ignored.
        ids: Vec<u64>,
    },
    /// Makes messages of a queue of single messages visible that are not visible yet; they keep number and attempts.
    /// Counts messages.
    ShowMessages {
        /// The queue that holds the messages.
        queue: Queue,
        /// Numbers; unknown ones and those of visible messages are ignored.
        ids: Vec<u64>,
    },
    /// Removes the messages of a group that carry this key, leased or not.
    DeleteKeyed {
        /// The queue that holds the messages.
        queue: Queue,
        /// The group in that queue.
        group: String,
        /// The key that the messages carry.
        key: String,
    },
    /// Removes all messages of a group, leased or not, with the group's lease and label; counts messages.
    DeleteGroup {
        /// The queue that the group is in.
        queue: Queue,
        /// The group in that queue.
        group: String,
    },
    /// Labels a group of a grouped queue, and ends its rest; label and kind stay until they are changed or the group is
    /// deleted.
    SetLabel {
        /// The queue that the group is in.
        queue: Queue,
        /// The group in that queue.
        group: String,
        /// The label to give the group; `None` takes it away.
        label: Option<String>,
        /// Kind; a group without one has the kind of its oldest [`Role::Successor`](crate::Role::Successor), else that
        /// of its oldest [`Role::Lead`](crate::Role::Lead).
        kind: Option<String>,
    },
    /// Extends valid affinity leases of these owners to now plus `lease_ms`, if the key was active during the last
    /// `idle_ms`; counts keys.
    RenewAffinities {
        /// The queue whose affinity keys are renewed.
        queue: Queue,
        /// The owners whose affinity leases are extended.
        owners: Vec<String>,
        /// New length, from now.
        lease_ms: u64,
        /// A key that was idle for this long is not renewed.
        idle_ms: u64,
    },
    /// Forgets affinity leases that have run out and whose key no message carries; counts keys.
    SweepAffinities {
        /// The queue whose affinity keys are swept.
        queue: Queue,
    },
}

/// One question. Several asked together are answered from the same state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Events by number; answered by [`Answer::Events`].
    Events {
        /// The entity whose log is read.
        entity: String,
        /// The partition of the entity.
        partition: u64,
        /// Lowest number.
        from: u64,
        /// At most this many.
        limit: usize,
    },
    /// Sizes of a partition; answered by [`Answer::Partition`].
    Partition {
        /// The entity whose log is measured.
        entity: String,
        /// The partition of the entity.
        partition: u64,
    },
    /// Partitions that hold events; answered by [`Answer::Partitions`].
    Partitions {
        /// The entity whose partitions are listed.
        entity: String,
    },
    /// Events in the whole store; answered by [`Answer::Count`].
    EventCount,
    /// One entry; answered by [`Answer::Entry`].
    Entry {
        /// The scope that the entry is in.
        scope: String,
        /// The key of the entry in its scope.
        key: String,
    },
    /// Entries by key; answered by [`Answer::Entries`].
    Entries {
        /// The scope whose entries are read.
        scope: String,
        /// Only keys above this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// How many entries a scope has; answered by [`Answer::Count`].
    Count {
        /// The scope whose entries are counted.
        scope: String,
    },
    /// A lease on messages; answered by [`Answer::Lease`].
    Lease {
        /// Its token.
        token: LeaseToken,
    },
    /// The valid leases on messages of a group, by message; answered by [`Answer::Leases`].
    Leases {
        /// The queue that the group is in.
        queue: Queue,
        /// The group in that queue.
        group: String,
    },
    /// Messages by number, whatever their state; answered by [`Answer::Messages`].
    Messages {
        /// The queue that holds the messages.
        queue: Queue,
        /// Only of this group.
        group: Option<String>,
        /// Only numbers above this one.
        after: u64,
        /// At most this many.
        limit: usize,
    },
    /// Messages with these numbers, as far as they exist; answered by [`Answer::Messages`].
    MessagesById {
        /// The queue that holds the messages.
        queue: Queue,
        /// The numbers of the messages.
        ids: Vec<u64>,
    },
    /// Messages of a group that carry this key; answered by [`Answer::Messages`].
    MessagesByKey {
        /// The queue that holds the messages.
        queue: Queue,
        /// The group in that queue.
        group: String,
        /// The key that the messages carry.
        key: String,
    },
    /// What is ready and not leased, by kind, those that wait longest first; answered by [`Answer::Backlog`].
    Backlog {
        /// The queue whose ready messages are counted.
        queue: Queue,
        /// At most this many kinds.
        limit: usize,
        /// Counting a kind may stop here.
        count_max: u64,
    },
    /// What waits in a queue, by label; answered by [`Answer::Depths`].
    Depths {
        /// The queue whose messages are counted.
        queue: Queue,
    },
}

impl Query {
    /// All entries of a scope.
    #[must_use]
    pub fn all_entries(scope: impl Into<String>) -> Self {
        Self::Entries {
            scope: scope.into(),
            after: None,
            limit: usize::MAX,
        }
    }
}

/// The answer to a [`Query`], of the kind the query names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`Query::Events`].
    Events(Vec<Record>),
    /// To [`Query::Partition`].
    Partition(PartitionInfo),
    /// To [`Query::Partitions`].
    Partitions(Vec<u64>),
    /// To [`Query::EventCount`] and [`Query::Count`].
    Count(u64),
    /// To [`Query::Entry`].
    Entry(Option<Vec<u8>>),
    /// To [`Query::Entries`].
    Entries(Vec<Entry>),
    /// To [`Query::Lease`].
    Lease(Option<Lease>),
    /// To [`Query::Leases`].
    Leases(Vec<Lease>),
    /// To [`Query::Messages`], [`Query::MessagesById`] and [`Query::MessagesByKey`].
    Messages(Vec<Message>),
    /// To [`Query::Backlog`].
    Backlog(Vec<Backlog>),
    /// To [`Query::Depths`].
    Depths(Vec<Depth>),
}

macro_rules! unwrap_answer {
    ($($name:ident: $variant:ident -> $type:ty;)*) => {
        impl Answer {
            $(
                /// The content of this kind of answer.
                ///
                /// # Errors
                ///
                /// [`StoreError::Permanent`] if the store answered another question.
                pub fn $name(self) -> Result<$type, StoreError> {
                    match self {
                        Self::$variant(content) => Ok(content),
                        other => Err(StoreError::Permanent(format!(
                            "the store answered another question: {other:?}"
                        ))),
                    }
                }
            )*
        }
    };
}

unwrap_answer! {
    into_events: Events -> Vec<Record>;
    into_partition: Partition -> PartitionInfo;
    into_partitions: Partitions -> Vec<u64>;
    into_count: Count -> u64;
    into_entry: Entry -> Option<Vec<u8>>;
    into_entries: Entries -> Vec<Entry>;
    into_lease: Lease -> Option<Lease>;
    into_leases: Leases -> Vec<Lease>;
    into_messages: Messages -> Vec<Message>;
    into_backlog: Backlog -> Vec<Backlog>;
    into_depths: Depths -> Vec<Depth>;
}

/// The two calls everything else is made of, the store's clock, and notices of commits.
#[async_trait]
pub trait AtomicOps: Send + Sync {
    /// Milliseconds since the Unix epoch, by the clock that leases and visibility are computed with.
    fn now_ms(&self) -> u64;

    /// What the clock shows that callers compute times with ([`Visible::At`](crate::Visible::At)), in milliseconds
    /// since the Unix epoch. A store whose own time goes on while that clock is set back answers with the clock.
    ///
    /// Default: [`now_ms`](Self::now_ms).
    fn clock_ms(&self) -> u64 {
        self.now_ms()
    }

    /// Applies a batch, all or nothing; returns how many records each operation touched. Once it returned, the
    /// writes are as durable as the store promises.
    ///
    /// # Errors
    ///
    /// See [`Guard`] and [`Operation`]. After [`StoreError::Retryable`] the same batch may be tried again; after
    /// [`StoreError::Unknown`] it may have been applied.
    async fn commit(&self, batch: Batch) -> Result<Vec<u64>, StoreError>;

    /// Answers queries from one consistent state, in the order they were asked.
    ///
    /// # Errors
    ///
    /// [`StoreError::Retryable`] if the store is out of reach, [`StoreError::Corrupt`] if it cannot read its data.
    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError>;

    /// Notices of commits that name a topic. `None`: the store cannot wake.
    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        let _ = topic;
        None
    }

    /// Answers one query.
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query).
    async fn query_one(&self, query: Query) -> Result<Answer, StoreError> {
        let mut answers = self.query(vec![query]).await?;
        answers
            .pop()
            .ok_or_else(|| StoreError::Permanent("the store gave no answer".to_owned()))
    }
}
