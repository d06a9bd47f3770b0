//! The provider as a program holds it: opening, closing, and the ways from a method of the contract to the threads. In:
//! a url and options. Out: a [`SqliteProvider`], whose contract is in `provider.rs` and `admin.rs`.

use std::sync::Arc;

use duroxide_core::provider::ProviderError;

use crate::error::{AtOperation, SqliteError};
use crate::ops;
use crate::options::SqliteOptions;
use crate::requests::LeaseView;
use crate::store::{ReadView, Store};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// A store in one SQLite file, or in memory.
#[derive(Debug)]
pub struct SqliteProvider {
    pub(crate) store: Arc<Store>,
}

impl SqliteProvider {
    /// Opens the database named by `sqlite:path`, `sqlite://path` or `sqlite::memory:`, and creates the file if it
    /// is missing. `?mode=rw` or `?mode=ro` never create it; `?durability=relaxed` chooses [`Durability::Relaxed`].
    ///
    /// # Errors
    ///
    /// If the url is not understood, the file cannot be opened, belongs to another program or to a newer build, or
    /// cannot promise the durability asked for. A file that is not ours is left as it is.
    ///
    /// [`Durability::Relaxed`]: crate::Durability::Relaxed
    pub async fn new(
        database_url: &str,
        options: Option<SqliteOptions>,
    ) -> Result<Self, SqliteError> {
        let url = database_url.to_owned();
        let options = options.unwrap_or_default();
        // Opening waits for the disk, and for other processes that open the same file.
        let store = tokio::task::spawn_blocking(move || Store::open(&url, &options))
            .await
            .map_err(|error| SqliteError::Panicked {
                detail: error.to_string(),
            })??;
        let provider = Self {
            store: Arc::new(store),
        };
        // A process that died may have left part of a deletion to do.
        provider.sweep_all("open").await;
        Ok(provider)
    }

    /// A store of its own in memory; it is gone with the provider.
    ///
    /// # Errors
    ///
    /// If the threads of the store cannot be started.
    pub async fn new_in_memory() -> Result<Self, SqliteError> {
        Self::new_in_memory_with_options(None).await
    }

    /// As [`new_in_memory`](Self::new_in_memory), with options.
    ///
    /// # Errors
    ///
    /// If the threads of the store cannot be started.
    pub async fn new_in_memory_with_options(
        options: Option<SqliteOptions>,
    ) -> Result<Self, SqliteError> {
        Self::new("sqlite::memory:", options).await
    }

    /// Copies the write-ahead log into the database file and empties it. Commits and reads go on meanwhile.
    ///
    /// # Errors
    ///
    /// If another connection has been reading the log for several seconds, or the disk fails.
    pub async fn checkpoint(&self) -> Result<(), SqliteError> {
        self.store.checkpoint().await
    }

    /// How many checkpoints failed since the store was opened. The log grows until one succeeds.
    #[must_use]
    pub fn failed_checkpoints(&self) -> u64 {
        self.store.failed_checkpoints()
    }

    /// Closes the store: it answers the requests that are queued, refuses later ones, and checkpoints the log into the
    /// database file. Dropping the last handle does the same, but blocks its thread meanwhile.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duroxide_sqlite::SqliteError> {
    /// let store = duroxide_sqlite::SqliteProvider::new_in_memory().await?;
    /// store.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) {
        let store = Arc::clone(&self.store);
        // A panic of a thread is logged where it is joined.
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }

    /// Sizes and first rows of both queues, for a person.
    pub async fn debug_dump(&self) -> String {
        self.reading("debug_dump", |tx| ops::dump::run(tx))
            .await
            .unwrap_or_else(|error| error.to_string())
    }
}

impl SqliteProvider {
    /// Runs a step in the writer's next transaction, on behalf of this method of the contract, unless the store is
    /// closed.
    pub(crate) async fn writing<T: Send + 'static>(
        &self,
        operation: &str,
        leases: LeaseView,
        step: impl FnMut(&mut WriterTx<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let step = ops::closed::while_open(step);
        self.store.write(leases, step).await.at(operation)
    }

    /// As [`writing`](Self::writing), also while the store is closed: for what changes no instance, and for a restore.
    pub(crate) async fn writing_always<T: Send + 'static>(
        &self,
        operation: &str,
        leases: LeaseView,
        step: impl FnMut(&mut WriterTx<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        self.store.write(leases, step).await.at(operation)
    }

    /// Runs a step that reads what is committed, on behalf of this method of the contract.
    pub(crate) async fn reading<T: Send + 'static>(
        &self,
        operation: &str,
        step: impl FnMut(&mut Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let view = ReadView::Committed;
        self.store.read(view, step).await.at(operation)
    }

    /// As [`reading`](Self::reading), of one instance. What is damaged is damaged at the next try, too: who walks
    /// through many goes on behind it, as not behind an outage.
    pub(crate) async fn reading_alone<T: Send + 'static>(
        &self,
        operation: &str,
        step: impl FnMut(&mut Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let view = ReadView::Committed;
        self.store.read(view, step).await.at_alone(operation)
    }
}
