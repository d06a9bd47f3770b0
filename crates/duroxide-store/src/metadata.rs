//! The metadata store: small values under a scope and a key.

use async_trait::async_trait;

use crate::atomic::{AtomicOps, Batch, Operation, Query};
use crate::error::StoreError;
use crate::record::Entry;

/// Values by scope and key. Implemented for every store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use duroxide_store::{MetadataStore, memory::MemoryStore};
/// let store = MemoryStore::new();
/// store.put("colours", "sky", b"blue".to_vec()).await?;
/// assert_eq!(store.get("colours", "sky").await?, Some(b"blue".to_vec()));
/// # Ok::<(), duroxide_store::StoreError>(()) }).unwrap();
/// ```
#[async_trait]
pub trait MetadataStore: AtomicOps {
    /// Writes one value.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::commit`].
    async fn put(&self, scope: &str, key: &str, value: Vec<u8>) -> Result<(), StoreError> {
        let put = Operation::Put {
            scope: scope.to_owned(),
            key: key.to_owned(),
            value,
        };
        self.commit(Batch::of([put])).await.map(drop)
    }

    /// Reads one value.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn get(&self, scope: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let entry = Query::Entry {
            scope: scope.to_owned(),
            key: key.to_owned(),
        };
        self.query_one(entry).await?.into_entry()
    }

    /// All entries of a scope, by key.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::query`].
    async fn entries(&self, scope: &str) -> Result<Vec<Entry>, StoreError> {
        self.query_one(Query::all_entries(scope))
            .await?
            .into_entries()
    }

    /// Removes one value; returns whether it existed.
    ///
    /// # Errors
    ///
    /// Those of [`AtomicOps::commit`].
    async fn delete(&self, scope: &str, key: &str) -> Result<bool, StoreError> {
        let delete = Operation::Delete {
            scope: scope.to_owned(),
            key: key.to_owned(),
        };
        let counts = self.commit(Batch::of([delete])).await?;
        Ok(counts.first().is_some_and(|count| *count > 0))
    }
}

impl<S: AtomicOps + ?Sized> MetadataStore for S {}
