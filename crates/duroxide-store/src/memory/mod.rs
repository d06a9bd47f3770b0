//! The reference store: one lock over plain maps. In: claims, batches, queries. Out: answers. Nothing survives the
//! process.

mod group;
mod grouped;
mod indexed_messages;
mod logs;
mod queues;
mod scopes;
mod single;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use self::state::State;
use crate::adapter::StoreProvider;
use crate::atomic::{Answer, AtomicOps, Batch, Query};
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::message::{Backlog, Claim, Claimed, Depth};
use crate::queue::MessageQueue;
use crate::wake::{TopicWatch, Wakeups};
use duroxide_core::defect::Defect;

/// A store in memory. Clones share the content.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: StoreClock,
    wakeups: Arc<Wakeups>,
}

impl MemoryStore {
    /// An empty store that follows the operating system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(StoreClock::default())
    }

    /// An empty store with a clock of the caller's.
    pub fn with_clock(clock: impl Into<StoreClock>) -> Self {
        let clock = clock.into();
        let wakeups = Arc::default();
        clock.attach(&wakeups);
        Self {
            state: Arc::default(),
            clock,
            wakeups,
        }
    }

    /// The same content under another clock. No store should have two: this is for the proof that the conformance kit
    /// notices one that does.
    #[doc(hidden)]
    #[must_use]
    pub fn under_another_clock(&self, clock: impl Into<StoreClock>) -> Self {
        Self {
            state: Arc::clone(&self.state),
            clock: clock.into(),
            wakeups: Arc::clone(&self.wakeups),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A batch is checked before it is applied, so a panic under the lock cannot leave half of one behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl AtomicOps for MemoryStore {
    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn clock_ms(&self) -> u64 {
        self.clock.clock_ms()
    }

    async fn commit(&self, mut batch: Batch) -> Result<Vec<u64>, StoreError> {
        let topics = std::mem::take(&mut batch.topics);
        self.clock.adjust(&mut batch);
        let receipt = self.state().commit(batch, self.now_ms())?;
        for queue in &receipt.wake {
            if Defect::LostWakeUp.is_on() {
                break;
            }
            self.wakeups.wake(queue);
        }
        for topic in &topics {
            self.wakeups.notify(topic);
        }
        Ok(receipt.counts)
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        let now_ms = self.now_ms();
        let state = self.state();
        let answers = queries.into_iter().map(|query| state.answer(query, now_ms));
        answers.collect()
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        Some(self.wakeups.watch(topic))
    }
}

#[async_trait]
impl MessageQueue for MemoryStore {
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let claim = &claim;
        let attempt = || async move { self.state().claim(claim, self.now_ms()) };
        let found = self
            .wakeups
            .poll(&self.clock, &claim.queue.name, claim.wait, attempt)
            .await?;
        Ok(found.unwrap_or_default())
    }
}

/// Kinds with what is ready of them, those that wait longest first.
fn by_age(found: BTreeMap<Option<String>, (u64, u64)>) -> Vec<Backlog> {
    let mut all: Vec<_> = found
        .into_iter()
        .map(|(kind, (count, since_ms))| Backlog {
            kind,
            count,
            since_ms,
        })
        .collect();
    all.sort_by_key(|one| one.since_ms);
    all
}

fn labelled(depths: BTreeMap<Option<&str>, Depth>) -> Vec<Depth> {
    let labelled = depths.into_iter().map(|(label, depth)| Depth {
        label: label.map(str::to_owned),
        ..depth
    });
    labelled.collect()
}

/// A provider in memory: for tests, and for work that may be forgotten with the process.
pub type MemoryProvider = StoreProvider<MemoryStore>;

impl MemoryProvider {
    /// An empty provider that follows the operating system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::over("memory", MemoryStore::new())
    }

    /// An empty provider with a clock of the caller's.
    pub fn with_clock(clock: impl Into<StoreClock>) -> Self {
        Self::over("memory", MemoryStore::with_clock(clock))
    }
}

impl Default for MemoryProvider {
    fn default() -> Self {
        Self::new()
    }
}
