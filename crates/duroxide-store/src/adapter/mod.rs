//! The adapter: a complete provider over any store. The only room that knows orchestrations.
//!
//! In: calls of the storage contract. Out: claims, batches and queries of the generic store. Never a second copy of
//! what the store holds.

mod admin;
mod append;
mod awaited;
mod blocked;
mod closing;
mod dead_letters;
mod delete;
mod duties;
mod enqueue;
mod error;
mod inspect;
mod kept;
mod kinds;
mod labels;
mod names;
mod nodes;
mod pause;
mod pending;
mod provider;
mod prune;
mod read;
mod rows;
mod sessions;
mod snapshot;
mod submit;
mod token;
mod turn;
mod unborn;
mod work;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::InstanceWatch;

use self::kept::Kept;
use crate::EventStore;
use crate::message::LAST_MS;
use crate::wake::TopicWatch;

/// How long a message for an unknown instance waits for a start, unless configured otherwise.
pub const DEFAULT_UNKNOWN_INSTANCE_GRACE: Duration = Duration::from_secs(60);

/// A complete provider over a store.
///
/// ```
/// use duroxide_core::provider::Provider;
/// use duroxide_store::{adapter::StoreProvider, memory::MemoryStore};
/// let provider = StoreProvider::over("mine", MemoryStore::new());
/// assert_eq!(provider.name(), "mine");
/// ```
#[derive(Debug)]
pub struct StoreProvider<S> {
    store: Arc<S>,
    name: &'static str,
    unknown_instance_grace: Duration,
    kept: Arc<Kept>,
    /// Dead letters go back into their queues, and instances are restored, one at a time.
    requeue: Arc<tokio::sync::Mutex<()>>,
}

impl<S: EventStore> StoreProvider<S> {
    /// A provider over this store, with a name for logs.
    pub fn over(name: &'static str, store: impl Into<Arc<S>>) -> Self {
        Self {
            store: store.into(),
            name,
            unknown_instance_grace: DEFAULT_UNKNOWN_INSTANCE_GRACE,
            kept: Arc::default(),
            requeue: Arc::default(),
        }
    }

    /// Sets how long a message for an unknown instance waits for a start before it becomes a dead letter. Every length
    /// can work: without one it becomes a dead letter as soon as a claim meets it, with [`Duration::MAX`] never.
    #[must_use]
    pub fn with_unknown_instance_grace(mut self, grace: Duration) -> Self {
        self.unknown_instance_grace = grace;
        self
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }
}

impl<S> Clone for StoreProvider<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            name: self.name,
            unknown_instance_grace: self.unknown_instance_grace,
            kept: Arc::clone(&self.kept),
            requeue: Arc::clone(&self.requeue),
        }
    }
}

/// Notices of one instance's commits.
struct Watch(TopicWatch);

#[async_trait]
impl InstanceWatch for Watch {
    async fn changed(&mut self) {
        self.0.changed().await;
    }
}

/// Milliseconds, rounded up so that a short time is not none, and at most what every database can store.
fn ms(duration: Duration) -> u64 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).map_or(LAST_MS, |ms| ms.min(LAST_MS))
}
