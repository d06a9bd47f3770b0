//! The conformance kit, against a file and against memory.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::{Clock, SystemClock};
use duroxide_core::provider::Provider;
use duroxide_sqlite::{Durability, SqliteOptions, SqliteProvider};
use duroxide_validation::{Capability, ProviderFactory, TestClock};
use tempfile::TempDir;

use crate::support::{shell, url};

/// The system's clock, moved forward as far as a case wants.
#[derive(Debug, Default)]
struct MovableClock {
    ahead_ms: AtomicI64,
}

impl Clock for MovableClock {
    fn now_ms(&self) -> u64 {
        SystemClock
            .now_ms()
            .saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }
}

impl TestClock for MovableClock {
    fn advance(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap();
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    fn set_back(&self, by: Duration) -> bool {
        let by_ms = i64::try_from(by.as_millis()).unwrap();
        self.ahead_ms.fetch_sub(by_ms, Ordering::SeqCst);
        true
    }

    fn now_ms(&self) -> u64 {
        Clock::now_ms(self)
    }
}

fn options(clock: &Arc<MovableClock>) -> SqliteOptions {
    SqliteOptions {
        durability: Durability::Relaxed,
        clock: clock.clone(),
        ..SqliteOptions::default()
    }
}

/// Every handle on a file reads the clock of the same machine: no clocks can be apart.
static OF_FILES: LazyLock<Vec<Capability>> =
    LazyLock::new(|| Capability::all_but(&[Capability::SkewedHandle]));

/// A file that only one store may have open.
static OF_ONE: LazyLock<Vec<Capability>> =
    LazyLock::new(|| Capability::all_but(&[Capability::SkewedHandle, Capability::SecondHandle]));

/// What is in memory can be neither damaged nor read from outside, and nobody else opens it.
static OF_MEMORY: LazyLock<Vec<Capability>> = LazyLock::new(|| {
    Capability::all_but(&[
        Capability::SkewedHandle,
        Capability::SecondHandle,
        Capability::Reopen,
        Capability::CorruptHistory,
        Capability::CorruptMessages,
        Capability::AttemptCounts,
    ])
});

/// Stores in files of a folder that goes with the factory.
struct Files {
    folder: TempDir,
    clock: Arc<MovableClock>,
    made: Mutex<u32>,
    /// As with a SQLite that only the writer may checkpoint.
    alone: bool,
}

impl Files {
    fn new() -> Self {
        Self::checkpointed(false)
    }

    fn checkpointed(alone: bool) -> Self {
        Self {
            alone,
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::default(),
            made: Mutex::new(0),
        }
    }

    fn path(&self) -> PathBuf {
        let made = *self.made.lock().unwrap();
        self.folder.path().join(format!("{made}.db"))
    }

    async fn open(&self) -> Arc<dyn Provider> {
        let url = url(&self.path());
        let mut options = options(&self.clock);
        options.tuning.writer_checkpoints_alone = self.alone;
        let store = SqliteProvider::new(&url, Some(options)).await;
        Arc::new(store.unwrap())
    }

    fn damage(&self, sql: &str, instance: &str) {
        let rows = shell(&self.path()).execute(sql, [instance]).unwrap();
        assert!(rows > 0, "nothing to damage for {instance}");
    }
}

#[async_trait]
impl ProviderFactory for Files {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        *self.made.lock().unwrap() += 1;
        self.open().await
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        self.open().await
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        self.open().await
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.damage(
            "UPDATE history SET event_data = '{\"torn' WHERE instance_id = ?1",
            instance,
        );
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        shell(&self.path())
            .query_row(
                "SELECT COALESCE(MAX(attempt_count), 0) FROM orchestrator_queue WHERE instance_id = ?1",
                [instance],
                |row| row.get(0),
            )
            .unwrap()
    }

    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        self.damage(
            "UPDATE orchestrator_queue SET work_item = '{\"FromTheFuture\":{}}' WHERE instance_id = ?1",
            instance,
        );
    }

    async fn corrupt_worker_items(&self, instance: &str) {
        self.damage(
            "UPDATE worker_queue SET work_item = '{\"torn' WHERE instance_id = ?1",
            instance,
        );
    }

    fn supports(&self, capability: Capability) -> bool {
        self.must_offer().contains(&capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        if self.alone { &OF_ONE } else { &OF_FILES }
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        Some(self.clock.clone())
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        Some(SqliteOptions::default().unknown_instance_grace)
    }
}

/// Stores in memory.
struct Memory {
    clock: Arc<MovableClock>,
}

impl Memory {
    fn new() -> Self {
        Self {
            clock: Arc::default(),
        }
    }
}

#[async_trait]
impl ProviderFactory for Memory {
    fn supports(&self, capability: Capability) -> bool {
        self.must_offer().contains(&capability)
    }

    async fn create_provider(&self) -> Arc<dyn Provider> {
        let store = SqliteProvider::new_in_memory_with_options(Some(options(&self.clock)));
        Arc::new(store.await.unwrap())
    }

    fn must_offer(&self) -> &'static [Capability] {
        &OF_MEMORY
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        Some(self.clock.clone())
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        Some(SqliteOptions::default().unknown_instance_grace)
    }
}

mod files {
    use super::Files;
    duroxide_validation::conformance!(Files::new());
}

mod memory {
    use super::Memory;
    duroxide_validation::conformance!(Memory::new());
}

mod alone {
    use super::Files;
    duroxide_validation::conformance!(Files::checkpointed(true));
}
