//! The store of a harness: the one in memory, with a courier who may deliver answers late, or twice.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    Answer, AtomicOps, Batch, Claim, Claimed, Delivery, MessageQueue, Operation, Query, StoreError,
    TopicWatch, Visible,
};

use crate::rng::Rng;

/// How answers are delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Each comes twice.
    pub(crate) twice: bool,
    /// Each comes up to so much later.
    pub(crate) late_ms: u64,
}

impl Manner {
    pub(crate) fn late(&mut self, by: Duration) {
        self.late_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    }
}

/// The store in memory, and its courier.
#[derive(Debug)]
pub(crate) struct Courier {
    inner: MemoryStore,
    manner: Manner,
    delays: Mutex<Rng>,
}

impl Courier {
    pub(crate) fn new(inner: MemoryStore, manner: Manner, delays: Rng) -> Self {
        Self {
            inner,
            manner,
            delays: Mutex::new(delays),
        }
    }

    fn deliver(&self, batch: &mut Batch) {
        let mut again = Vec::new();
        for operation in &mut batch.operations {
            let Operation::Enqueue { queue, message } = operation else {
                continue;
            };
            if queue.delivery != Delivery::Grouped || !is_answer(&message.payload) {
                continue;
            }
            if self.manner.late_ms > 0 && message.visible == Visible::Now {
                message.visible = Visible::AfterMs(self.delay_ms());
            }
            if self.manner.twice {
                again.push(operation.clone());
            }
        }
        batch.operations.extend(again);
    }

    fn delay_ms(&self) -> u64 {
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        delays.between(0, self.manner.late_ms)
    }
}

/// Whether a message answers an activity or a child.
fn is_answer(payload: &[u8]) -> bool {
    [
        &b"{\"ActivityCompleted\""[..],
        b"{\"ActivityFailed\"",
        b"{\"SubOrchCompleted\"",
        b"{\"SubOrchFailed\"",
    ]
    .iter()
    .any(|kind| payload.starts_with(kind))
}

#[async_trait]
impl AtomicOps for Courier {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn clock_ms(&self) -> u64 {
        self.inner.clock_ms()
    }

    async fn commit(&self, mut batch: Batch) -> Result<Vec<u64>, StoreError> {
        self.deliver(&mut batch);
        self.inner.commit(batch).await
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        self.inner.query(queries).await
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        self.inner.watch(topic)
    }
}

#[async_trait]
impl MessageQueue for Courier {
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.inner.claim(claim).await
    }
}
