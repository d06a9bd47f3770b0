//! What programs call from outside an orchestration. Talks to the store and to nothing else.

mod admin;
mod again;
mod ask;
mod audit;
mod changes;
mod error;
mod events;
mod explain;
mod handle;
mod heartbeats;
mod kv;
mod labels;
mod messages;
mod nodes;
mod pause;
mod query;
mod retention;
mod retry;
mod start;
mod start_typed;
mod wait;

use std::fmt;
use std::sync::Arc;

use duroxide_core::WorkItem;
use duroxide_core::limits::DEFAULT_PAYLOAD_BYTES_MAX;
use duroxide_core::provider::Provider;

pub use ask::{Ask, AskError};
pub use changes::Changes;
pub use error::ClientError;
pub use explain::{ActivityPlace, Explanation, Finding, Standing, Wait};
pub use handle::{Handle, ResultError};
pub use messages::{SendError, Sending};
pub use start_typed::{IfExists, Start};

pub use duroxide_core::limits::MAX_INSTANCE_ID_BYTES;
pub use duroxide_core::rewind::{Rewind, RewindPoint};

/// Starts, informs, cancels and watches orchestrations, and administers the store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide::providers::sqlite::SqliteProvider;
/// use duroxide::{Client, OrchestrationStatus};
/// use std::sync::Arc;
///
/// // No runtime runs here: what is sent waits in the store.
/// let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
/// client.start_orchestration("order-7", "order", "{}").await?;
/// client.enqueue_event("order-7", "notes", "leave it at the door").await?;
/// assert_eq!(client.get_queue_depths().await?.orchestrator_queue, 2);
/// assert_eq!(client.get_orchestration_status("order-7").await?, OrchestrationStatus::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Provider>,
    payload_bytes_max: usize,
    /// Who acts, for the audit trail.
    actor: Arc<str>,
}

impl Client {
    /// A client on a store. No runtime needs to run in this process.
    #[must_use]
    pub fn new(store: Arc<dyn Provider>) -> Self {
        Self {
            store,
            payload_bytes_max: DEFAULT_PAYLOAD_BYTES_MAX,
            actor: Arc::from("client"),
        }
    }

    /// Changes the largest payload this client sends, in bytes.
    #[must_use]
    pub fn with_payload_limit(mut self, bytes_max: usize) -> Self {
        self.payload_bytes_max = bytes_max;
        self
    }

    async fn put(&self, item: WorkItem) -> Result<(), ClientError> {
        Ok(self.store.enqueue_for_orchestrator(item, None).await?)
    }

    /// Refuses a payload before anything is stored.
    fn check_payload(&self, what: &str, payload: &str) -> Result<(), ClientError> {
        if payload.len() > self.payload_bytes_max {
            return Err(ClientError::invalid(format!(
                "{what} size ({} bytes) exceeds limit ({} bytes)",
                payload.len(),
                self.payload_bytes_max
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("store", &self.store.name())
            .finish_non_exhaustive()
    }
}
