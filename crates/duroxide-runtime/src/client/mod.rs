//! What programs call from outside an orchestration. Talks to the store and to nothing else.
//!
//! Starting: `start.rs` (the published calls), `start_typed.rs` (by definition), `restart.rs`, `retry.rs`. Sending:
//! `events.rs` (the published signals, queue messages and requests to cancel), `messages.rs` (with an answer to the
//! sender), `ask.rs` (request and reply); `payload.rs` says what may be sent. Waiting and reading: `handle.rs`,
//! `wait.rs`, `changes.rs`, `kv.rs`, `heartbeats.rs`, `explain/`. For operators: `query.rs`, `admin.rs`, `labels.rs`,
//! `pause.rs`, `dead_letters.rs`, `nodes.rs`, `retention.rs`, `apply/` (one verb for many); `audit.rs` logs what they
//! change. `error.rs` is what a call can answer instead of a result.

mod admin;
mod apply;
mod ask;
mod audit;
mod changes;
mod dead_letters;
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
mod payload;
mod query;
mod restart;
mod retention;
mod retry;
mod start;
mod start_typed;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::limits::DEFAULT_PAYLOAD_BYTES_MAX;
use duroxide_core::provider::Provider;

pub use apply::{Applied, Applying, Progress, Verb};
pub use ask::{Ask, AskError};
pub use changes::Changes;
pub use error::ClientError;
pub use explain::{ActivityPlace, Explanation, FailedBefore, Finding, Standing, Wait};
pub use handle::{Handle, ResultError};
pub use messages::{SendError, Sending};
pub use start::NewStart;
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

    /// Puts a message on the queue of its instance, to be seen after a delay if there is one.
    async fn enqueue(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ClientError> {
        Ok(self.store.enqueue_for_orchestrator(item, delay).await?)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("store", &self.store.name())
            .finish_non_exhaustive()
    }
}
