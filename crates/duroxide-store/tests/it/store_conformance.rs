//! Every store passes the same cases.

use std::sync::Arc;
use std::time::Duration;

use duroxide_store::conformance::Harness;
use duroxide_store::memory::MemoryStore;
use duroxide_store::{EventStore, ManualClock};

struct Memory {
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

#[async_trait::async_trait]
impl Harness for Memory {
    async fn fresh() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::with_clock(&clock));
        Self { store, clock }
    }

    fn store(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.store) as Arc<dyn EventStore>
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

mod memory {
    duroxide_store::store_conformance!(super::Memory);
}
