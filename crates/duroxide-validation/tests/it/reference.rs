//! The reference store: a factory that offers everything, and the proof that it passes every case.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::{Clock, ClockRef, SystemClock};
use duroxide_core::provider::Provider;
use duroxide_store::{
    AtomicOps as _, Batch, MemoryProvider, NewMessage, Operation, Query, Queue, Record,
};
use duroxide_validation::{Capability, ClockSkew, ProviderFactory, TestClock, run_all_validations};

const TURNS: Queue = Queue::grouped("orchestrator");
const WORK: Queue = Queue::single("worker");
const UNKNOWN_INSTANCE_GRACE: Duration = Duration::from_secs(60);
static DECLARED: LazyLock<Vec<Capability>> = LazyLock::new(|| Capability::all_but(&[]));

/// The system's clock, moved forward as far as a case wants.
#[derive(Debug, Default)]
pub(crate) struct MovableClock {
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
        let by_ms = u64::try_from(by.as_millis()).expect("cases move the clock by little");
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    fn set_back(&self, by: Duration) -> bool {
        let by_ms = u64::try_from(by.as_millis()).expect("cases move the clock by little");
        self.behind_ms.fetch_add(by_ms, Ordering::SeqCst);
        true
    }

    fn now_ms(&self) -> u64 {
        Clock::now_ms(self)
    }
}

/// Makes memory providers over one movable clock.
#[derive(Default)]
pub(crate) struct Memory {
    clock: Arc<MovableClock>,
    last: Mutex<Option<MemoryProvider>>,
    patience: Option<Duration>,
}

impl Memory {
    /// With which an engine is not waited for as long.
    pub(crate) fn impatient(patience: Duration) -> Self {
        Self {
            patience: Some(patience),
            ..Self::default()
        }
    }

    pub(crate) fn create(&self) -> MemoryProvider {
        let clock: ClockRef = self.clock.clone();
        let provider =
            MemoryProvider::with_clock(clock).with_unknown_instance_grace(UNKNOWN_INSTANCE_GRACE);
        *self.last.lock().expect("no case panics under this lock") = Some(provider.clone());
        provider
    }

    pub(crate) fn movable(&self) -> Arc<MovableClock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn last(&self) -> MemoryProvider {
        self.last
            .lock()
            .expect("no case panics under this lock")
            .clone()
            .expect("a provider was created")
    }

    /// A provider of its own on the memory of the last one, with nothing that the last one keeps beside the memory.
    pub(crate) fn handle(&self) -> MemoryProvider {
        MemoryProvider::over("memory", Arc::clone(self.last().store()))
            .with_unknown_instance_grace(UNKNOWN_INSTANCE_GRACE)
    }

    async fn damage_queue(&self, queue: Queue, instance: &str) {
        let store = Arc::clone(self.last().store());
        let query = Query::Messages {
            queue: queue.clone(),
            group: Some(instance.into()),
            after: 0,
            limit: usize::MAX,
        };
        let messages = store
            .query_one(query)
            .await
            .expect("the memory store answers")
            .into_messages()
            .expect("the memory store answers");
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
        store.commit(batch).await.expect("the memory store answers");
    }
}

#[async_trait]
impl ProviderFactory for Memory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.create())
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let store = Arc::clone(self.last().store());
        let partitions = Query::Partitions {
            entity: instance.into(),
        };
        let partitions = store
            .query_one(partitions)
            .await
            .expect("the memory store answers")
            .into_partitions()
            .expect("the memory store answers");
        for partition in partitions {
            let remove = Operation::DeletePartition {
                entity: instance.into(),
                partition,
            };
            let damage = Operation::Append {
                entity: instance.into(),
                partition,
                events: vec![Record {
                    number: 1,
                    data: b"{\"not\":\"an event\"}".to_vec(),
                }],
            };
            // Numbers are checked against the state before a batch, so removal and damage are two.
            store
                .commit(Batch::of([remove]))
                .await
                .expect("the memory store answers");
            store
                .commit(Batch::of([damage]))
                .await
                .expect("the memory store answers");
        }
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let query = Query::Messages {
            queue: TURNS,
            group: Some(instance.into()),
            after: 0,
            limit: usize::MAX,
        };
        let answer = self
            .last()
            .store()
            .query_one(query)
            .await
            .expect("the memory store answers");
        let messages = answer.into_messages().expect("the memory store answers");
        messages.iter().map(|m| m.attempts).max().unwrap_or(0)
    }

    fn engine_patience(&self) -> Duration {
        self.patience.unwrap_or(Duration::from_secs(30))
    }

    fn supports(&self, capability: Capability) -> bool {
        Capability::OF_FACTORIES.contains(&capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        &DECLARED
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        Some(self.clock.clone())
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self::default()))
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        Some(UNKNOWN_INSTANCE_GRACE)
    }

    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        self.damage_queue(TURNS, instance).await;
    }

    async fn corrupt_worker_items(&self, instance: &str) {
        self.damage_queue(WORK, instance).await;
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        Arc::new(self.handle())
    }

    /// The memory is the medium: it outlives the handles of the cases.
    async fn reopen(&self) -> Arc<dyn Provider> {
        Arc::new(self.handle())
    }

    /// The clock belongs to the memory, as that of a server does to the server: whatever the machine of a handle shows,
    /// the memory is asked. [`Flawed`](crate::mutants) has handles that ask their machine.
    async fn skewed_handle(&self, _skew: ClockSkew) -> Arc<dyn Provider> {
        Arc::new(self.handle())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_passes_every_case() {
    let report = run_all_validations(Memory::default()).await;
    report.assert_ok();
    let skipped: Vec<&str> = report.skipped().map(|o| o.case.name).collect();
    // It waits for work, so it has no short poll.
    let not_offered = [
        "test_short_poll_returns_immediately",
        "test_short_poll_work_item_returns_immediately",
    ];
    assert_eq!(skipped, not_offered);
}

mod every_case {
    use super::Memory;
    duroxide_validation::conformance!(Memory::default());
}
