//! The whole provider kit over every store. Time is moved, not waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::{Clock, ClockRef, SystemClock};
use duroxide_core::provider::Provider;
use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    AtomicOps, Batch, EventLog, EventStore, Message, NewMessage, Operation, Query, Queue, Record,
    StoreProvider,
};
use duroxide_validation::{Capability, ProviderFactory, TestClock};

const TURNS: Queue = Queue::grouped("orchestrator");
const WORK: Queue = Queue::single("worker");
const GRACE: Duration = Duration::from_secs(60);

/// Makes empty stores of one kind.
pub(crate) trait Shop: Default + Send + Sync + 'static {
    type Store: EventStore + 'static;
    const NAME: &'static str;
    fn open(&self, clock: ClockRef) -> Self::Store;
    /// Opens the store that was opened last again, once it is closed; `None` if it is gone with its handles.
    fn reopen(&self, _clock: ClockRef) -> Option<Self::Store> {
        None
    }
    /// What the factory declares. No store here is opened by two machines at once, so no clocks can be apart.
    fn offers() -> &'static [Capability];
}

#[derive(Default)]
pub(crate) struct Memory;

impl Shop for Memory {
    type Store = MemoryStore;
    const NAME: &'static str = "memory";

    /// What was in memory is gone with it.
    fn offers() -> &'static [Capability] {
        static OFFERS: LazyLock<Vec<Capability>> =
            LazyLock::new(|| Capability::all_but(&[Capability::SkewedHandle, Capability::Reopen]));
        &OFFERS
    }

    fn open(&self, clock: ClockRef) -> MemoryStore {
        MemoryStore::with_clock(clock)
    }
}

/// The system's clock, moved forward as far as a case wants.
#[derive(Debug, Default)]
struct MovableClock {
    ahead_ms: AtomicU64,
    behind_ms: AtomicU64,
}

impl Clock for MovableClock {
    fn now_ms(&self) -> u64 {
        let ahead = SystemClock.now_ms() + self.ahead_ms.load(Ordering::SeqCst);
        ahead - self.behind_ms.load(Ordering::SeqCst)
    }
}

impl TestClock for MovableClock {
    fn advance(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap();
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    fn set_back(&self, by: Duration) -> bool {
        let by_ms = u64::try_from(by.as_millis()).unwrap();
        self.behind_ms.fetch_add(by_ms, Ordering::SeqCst);
        true
    }

    fn now_ms(&self) -> u64 {
        Clock::now_ms(self)
    }
}

/// The kit's factory over a shop; offers everything the kit can ask for but what the shop leaves out.
pub(crate) struct Factory<K: Shop> {
    shop: K,
    clock: Arc<MovableClock>,
    last: Mutex<Option<StoreProvider<K::Store>>>,
}

impl<K: Shop> Default for Factory<K> {
    fn default() -> Self {
        Self {
            shop: K::default(),
            clock: Arc::default(),
            last: Mutex::default(),
        }
    }
}

impl<K: Shop> Factory<K> {
    fn last(&self) -> StoreProvider<K::Store> {
        self.last.lock().unwrap().clone().unwrap()
    }

    async fn messages(&self, queue: Queue, instance: &str) -> Vec<Message> {
        let query = Query::Messages {
            queue,
            group: Some(instance.into()),
            after: 0,
            limit: usize::MAX,
        };
        let answer = self.last().store().query_one(query).await.unwrap();
        answer.into_messages().unwrap()
    }

    async fn damage(&self, queue: Queue, instance: &str) {
        let messages = self.messages(queue.clone(), instance).await;
        let remove = Operation::DeleteMessages {
            queue: queue.clone(),
            ids: messages.iter().map(|m| m.id).collect(),
        };
        let damaged = messages.into_iter().map(|m| Operation::Enqueue {
            queue: queue.clone(),
            message: NewMessage {
                key: m.key,
                affinity: m.affinity,
                label: m.label,
                kind: m.kind,
                role: m.role,
                stamp: m.stamp,
                ..NewMessage::new(m.group, "{\"NoSuchKind\":{}}")
            },
        });
        let batch = Batch::of(std::iter::once(remove).chain(damaged));
        self.last().store().commit(batch).await.unwrap();
    }
}

#[async_trait]
impl<K: Shop> ProviderFactory for Factory<K> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let store = self.shop.open(self.clock.clone());
        let provider = StoreProvider::over(K::NAME, store).with_unknown_instance_grace(GRACE);
        *self.last.lock().unwrap() = Some(provider.clone());
        Arc::new(provider)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let store = Arc::clone(self.last().store());
        for partition in store.partitions(instance).await.unwrap() {
            let remove = Operation::DeletePartition {
                entity: instance.into(),
                partition,
            };
            store.commit(Batch::of([remove])).await.unwrap();
            let damaged = Record {
                number: 1,
                data: b"{\"not\":\"an event\"}".to_vec(),
            };
            let append = store.append(instance, partition, vec![damaged]).await;
            append.unwrap();
        }
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let messages = self.messages(TURNS, instance).await;
        messages.iter().map(|m| m.attempts).max().unwrap_or(0)
    }

    fn supports(&self, capability: Capability) -> bool {
        K::offers().contains(&capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        K::offers()
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        Some(self.clock.clone())
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self::default()))
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        Some(GRACE)
    }

    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        self.damage(TURNS, instance).await;
    }

    async fn corrupt_worker_items(&self, instance: &str) {
        self.damage(WORK, instance).await;
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        drop(self.last.lock().unwrap().take());
        let store = self.shop.reopen(self.clock.clone());
        let store = store.expect("asked only of stores that can");
        let provider = StoreProvider::over(K::NAME, store).with_unknown_instance_grace(GRACE);
        *self.last.lock().unwrap() = Some(provider.clone());
        Arc::new(provider)
    }

    /// A provider of its own on the same store, with nothing that the first one keeps beside the store.
    async fn second_handle(&self) -> Arc<dyn Provider> {
        let store = Arc::clone(self.last().store());
        let handle = StoreProvider::<K::Store>::over(K::NAME, store);
        Arc::new(handle.with_unknown_instance_grace(GRACE))
    }
}

mod memory {
    use super::{Factory, Memory};
    duroxide_validation::conformance!(Factory::<Memory>::default());
}

#[cfg(feature = "redb")]
mod on_redb {
    use std::sync::LazyLock;

    use super::{Capability, ClockRef, Factory, Shop};
    use duroxide_store::redb::{Durability, RedbOptions, RedbStore};

    pub(crate) struct Redb {
        folder: tempfile::TempDir,
        opened: std::sync::atomic::AtomicU32,
    }

    impl Default for Redb {
        fn default() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                opened: Default::default(),
            }
        }
    }

    impl Shop for Redb {
        type Store = RedbStore;
        const NAME: &'static str = "redb";

        fn offers() -> &'static [Capability] {
            static OFFERS: LazyLock<Vec<Capability>> =
                LazyLock::new(|| Capability::all_but(&[Capability::SkewedHandle]));
            &OFFERS
        }

        fn open(&self, clock: ClockRef) -> RedbStore {
            self.opened
                .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            self.open_last(clock)
        }

        fn reopen(&self, clock: ClockRef) -> Option<RedbStore> {
            Some(self.open_last(clock))
        }
    }

    impl Redb {
        fn open_last(&self, clock: ClockRef) -> RedbStore {
            let number = self.opened.load(std::sync::atomic::Ordering::SeqCst);
            let file = self.folder.path().join(format!("{number}.redb"));
            let options = RedbOptions {
                durability: Durability::Relaxed,
                clock: clock.into(),
                ..RedbOptions::default()
            };
            RedbStore::open_with(file, options).unwrap()
        }
    }

    mod redb {
        use super::{Factory, Redb};
        duroxide_validation::conformance!(Factory::<Redb>::default());
    }
}
