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

    async fn set_back(&self, by: Duration) -> bool {
        set_back(&self.clock, by)
    }

    async fn second(&self) -> Option<Arc<dyn EventStore>> {
        Some(Arc::new((*self.store).clone()))
    }
}

fn set_back(clock: &ManualClock, by: Duration) -> bool {
    let by_ms = u64::try_from(by.as_millis()).unwrap();
    clock.set(duroxide_core::clock::Clock::now_ms(clock) - by_ms);
    true
}

mod memory {
    duroxide_store::store_conformance!(super::Memory);
}

#[cfg(feature = "redb")]
mod on_redb {
    use super::*;
    use duroxide_store::redb::{Durability, RedbOptions, RedbStore};
    use std::sync::Mutex;

    struct Redb {
        /// Empty only while the file is closed.
        store: Mutex<Option<Arc<RedbStore>>>,
        durability: Durability,
        clock: ManualClock,
        folder: tempfile::TempDir,
    }

    fn open(durability: Durability) -> Redb {
        let redb = Redb {
            store: Mutex::default(),
            durability,
            clock: ManualClock::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        redb.open_file();
        redb
    }

    impl Redb {
        fn open_file(&self) {
            let options = RedbOptions {
                durability: self.durability,
                clock: (&self.clock).into(),
                ..RedbOptions::default()
            };
            let file = self.folder.path().join("store.redb");
            let store = RedbStore::open_with(file, options).unwrap();
            *self.store.lock().unwrap() = Some(Arc::new(store));
        }
    }

    /// Each test opens the file anew; relaxed, because what they show does not depend on the disk.
    #[async_trait::async_trait]
    impl Harness for Redb {
        async fn fresh() -> Self {
            open(Durability::Relaxed)
        }

        fn store(&self) -> Arc<dyn EventStore> {
            self.store.lock().unwrap().clone().unwrap()
        }

        async fn reopen(&self) -> Option<Arc<dyn EventStore>> {
            let closed = self.store.lock().unwrap().take();
            assert_eq!(closed.map_or(0, |store| Arc::strong_count(&store)), 1);
            self.open_file();
            Some(self.store())
        }

        async fn pass(&self, time: Duration) {
            self.clock.advance(time);
        }

        async fn set_back(&self, by: Duration) -> bool {
            set_back(&self.clock, by)
        }
    }

    mod redb {
        duroxide_store::store_conformance!(super::Redb);
    }

    #[tokio::test]
    async fn full_durability_keeps_the_same_promises() {
        use duroxide_store::conformance as cases;
        cases::a_guard_that_does_not_hold_stores_nothing(&open(Durability::Full)).await;
        cases::a_lapsed_lease_can_only_be_released(&open(Durability::Full)).await;
        cases::only_one_of_many_writers_wins_each_round(&open(Durability::Full)).await;
    }
}
