//! The event log: numbered, immutable records in partitions of entities.

use async_trait::async_trait;

use crate::atomic::{AtomicOps, Batch, Operation, Query};
use crate::error::StoreError;
use crate::record::{PartitionInfo, Record};

/// Append-only logs, one per entity and partition. Implemented for every store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use duroxide_store::{EventLog, Record, memory::MemoryStore};
/// let store = MemoryStore::new();
/// store.append("cart-7", 1, vec![Record { number: 1, data: b"opened".to_vec() }]).await?;
/// assert_eq!(store.events("cart-7", 1, 0).await?.len(), 1);
/// # Ok::<(), duroxide_store::StoreError>(()) }).unwrap();
/// ```
#[async_trait]
pub trait EventLog: AtomicOps {
    /// Appends events, all or none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if a number is taken.
    async fn append(
        &self,
        entity: &str,
        partition: u64,
        events: Vec<Record>,
    ) -> Result<(), StoreError> {
        let append = Operation::Append {
            entity: entity.to_owned(),
            partition,
            events,
        };
        self.commit(Batch::of([append])).await.map(drop)
    }

    /// Events with a number of at least `from`, ascending.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn events(
        &self,
        entity: &str,
        partition: u64,
        from: u64,
    ) -> Result<Vec<Record>, StoreError> {
        let events = Query::Events {
            entity: entity.to_owned(),
            partition,
            from,
            limit: usize::MAX,
        };
        self.query_one(events).await?.into_events()
    }

    /// Sizes of one partition; zeros if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn partition(&self, entity: &str, partition: u64) -> Result<PartitionInfo, StoreError> {
        let info = Query::Partition {
            entity: entity.to_owned(),
            partition,
        };
        self.query_one(info).await?.into_partition()
    }

    /// Partitions of an entity that hold events, ascending.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn partitions(&self, entity: &str) -> Result<Vec<u64>, StoreError> {
        let partitions = Query::Partitions {
            entity: entity.to_owned(),
        };
        self.query_one(partitions).await?.into_partitions()
    }
}

impl<S: AtomicOps + ?Sized> EventLog for S {}
