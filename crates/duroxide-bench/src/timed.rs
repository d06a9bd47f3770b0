//! A store that adds up the time spent inside it. In: calls. Out: the same calls, and a sum. What a provider takes
//! beyond that sum is the adapter's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use duroxide_store::{
    Answer, AtomicOps, Batch, Claim, Claimed, MessageQueue, Query, StoreError, TopicWatch,
};

/// How much time was spent inside a store, in nanoseconds.
pub(crate) type Inside = Arc<AtomicU64>;

/// A store with a stopwatch.
pub(crate) struct Timed<S> {
    store: S,
    inside: Inside,
}

impl<S> Timed<S> {
    pub(crate) fn new(store: S, inside: Inside) -> Self {
        Self { store, inside }
    }

    async fn timed<T>(&self, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = call.await;
        self.inside
            .fetch_add(nanos(began.elapsed()), Ordering::Relaxed);
        answer
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[async_trait]
impl<S: AtomicOps> AtomicOps for Timed<S> {
    fn now_ms(&self) -> u64 {
        self.store.now_ms()
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<u64>, StoreError> {
        self.timed(self.store.commit(batch)).await
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        self.timed(self.store.query(queries)).await
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        self.store.watch(topic)
    }
}

#[async_trait]
impl<S: MessageQueue> MessageQueue for Timed<S> {
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.timed(self.store.claim(claim)).await
    }
}
