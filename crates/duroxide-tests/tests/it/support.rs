//! A running engine on a store in memory, for tests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::runtime::observability::MetricsSnapshot;
use duroxide::{
    ActivityRegistry, ActivityRegistryBuilder, Client, Event, EventKind, OrchestrationRegistry,
    OrchestrationRegistryBuilder, OrchestrationStatus, Runtime, RuntimeOptions,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) store: Arc<dyn Provider>,
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
}

impl World {
    pub(crate) async fn start(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Self {
        Self::with_options(activities, orchestrations, quick()).await
    }

    pub(crate) async fn with_options(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Self {
        Self::on(in_memory().await, activities, orchestrations, options).await
    }

    pub(crate) async fn on(
        store: Arc<dyn Provider>,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Self {
        let runtime =
            Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
        Self {
            client: Client::new(store.clone()),
            store,
            runtime,
        }
    }

    /// Starts an instance and waits for its outcome.
    pub(crate) async fn run(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
    ) -> OrchestrationStatus {
        self.begin(instance, orchestration, input).await;
        self.outcome(instance).await
    }

    /// Starts an instance.
    pub(crate) async fn begin(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        input: impl Into<String>,
    ) {
        let started = self
            .client
            .start_orchestration(instance, orchestration, input);
        started.await.unwrap();
    }

    /// Sends a signal.
    pub(crate) async fn raise(
        &self,
        instance: impl Into<String>,
        event: impl Into<String>,
        data: impl Into<String>,
    ) {
        self.client
            .raise_event(instance, event, data)
            .await
            .unwrap();
    }

    /// Asks an instance to cancel itself.
    pub(crate) async fn cancel(&self, instance: impl Into<String>, reason: impl Into<String>) {
        self.client.cancel_instance(instance, reason).await.unwrap();
    }

    /// Waits until workers have claimed this many activities.
    pub(crate) async fn claimed_activities(&self, count: u64) {
        until("activities are claimed", async || {
            let counted = self.runtime.metrics_snapshot().unwrap();
            counted.worker_dispatcher_items_fetched == count
        })
        .await;
    }

    pub(crate) async fn outcome(&self, instance: &str) -> OrchestrationStatus {
        self.client
            .wait_for_orchestration(instance, PATIENCE)
            .await
            .unwrap_or_else(|e| panic!("{instance}: {e}"))
    }

    pub(crate) async fn history(&self, instance: &str) -> Vec<Event> {
        self.store.read(instance).await.unwrap()
    }

    /// Waits until an event of the current execution is recorded.
    pub(crate) async fn recorded(&self, instance: &str, wanted: impl Fn(&EventKind) -> bool) {
        until(instance, async || {
            self.history(instance).await.iter().any(|e| wanted(&e.kind))
        })
        .await;
    }

    /// Waits until a positional wait of this name is recorded.
    pub(crate) async fn waits_for(&self, instance: &str, event: &str) {
        self.recorded(
            instance,
            |kind| matches!(kind, EventKind::ExternalSubscribed { name } if name == event),
        )
        .await;
    }

    /// Stops the runtime and returns what it counted: facts are counted after they are stored, so a client may be
    /// faster.
    pub(crate) async fn stopped(self) -> MetricsSnapshot {
        let runtime = self.runtime.clone();
        self.stop().await;
        runtime.metrics_snapshot().unwrap()
    }

    pub(crate) async fn stop(self) {
        self.runtime.shutdown(None).await;
    }
}

/// The environment variable that names the store below the tests.
const STORE: &str = "DUROXIDE_TEST_STORE";

/// A store of its own, of the kind that the environment names; SQLite in memory if it names none.
pub(crate) async fn in_memory() -> Arc<dyn Provider> {
    match std::env::var(STORE).as_deref() {
        Err(_) => Arc::new(SqliteProvider::new_in_memory().await.unwrap()),
        Ok("memory") => Arc::new(duroxide::providers::memory::MemoryProvider::new()),
        Ok("redb") => in_a_redb_file(),
        Ok("postgres") => on_postgres().await,
        Ok(other) => panic!("{STORE} names no store that the tests know: {other}"),
    }
}

/// A file that is gone with its folder as soon as it is open: what is open stays readable.
fn in_a_redb_file() -> Arc<dyn Provider> {
    use duroxide::providers::redb::RedbProvider;
    let folder = tempfile::tempdir().unwrap();
    Arc::new(RedbProvider::open(folder.path().join("store.redb")).unwrap())
}

async fn on_postgres() -> Arc<dyn Provider> {
    use duroxide::providers::postgres::PostgresProvider;
    use std::sync::atomic::{AtomicU32, Ordering};
    static STORES: AtomicU32 = AtomicU32::new(0);
    let url = std::env::var("DUROXIDE_TEST_POSTGRES_URL")
        .expect("DUROXIDE_TEST_POSTGRES_URL names a server");
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_micros();
    let number = STORES.fetch_add(1, Ordering::Relaxed);
    let schema = format!("e2e_{}_{now}_{number}", std::process::id());
    Arc::new(
        PostgresProvider::new_with_schema(&url, Some(&schema))
            .await
            .unwrap(),
    )
}

/// Options with short waits, so that what is tested does not take longer than it must.
pub(crate) fn quick() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(5),
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(2),
            max_delay: Duration::from_millis(10),
        },
        activity_cancellation_grace_period: Duration::from_millis(200),
        ..RuntimeOptions::default()
    }
}

pub(crate) fn activities() -> ActivityRegistryBuilder {
    ActivityRegistry::builder()
}

pub(crate) fn orchestrations() -> OrchestrationRegistryBuilder {
    OrchestrationRegistry::builder()
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let patient = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, patient).await.is_err() {
        panic!("waited in vain: {what}");
    }
}

/// What handlers did, in the order they did it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.lock().push(note.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.lock().clone()
    }

    pub(crate) fn count(&self, note: &str) -> usize {
        self.lock().iter().filter(|n| *n == note).count()
    }

    pub(crate) async fn wait_for(&self, note: &str) {
        until(note, async || self.count(note) > 0).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stored names of events, in order.
pub(crate) fn kinds(history: &[Event]) -> Vec<String> {
    history
        .iter()
        .map(|event| {
            let json = serde_json::to_value(event).unwrap();
            json["type"].as_str().unwrap_or_default().to_owned()
        })
        .collect()
}

pub(crate) fn output(status: &OrchestrationStatus) -> &str {
    match status {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("not completed: {other:?}"),
    }
}

pub(crate) fn failure(status: &OrchestrationStatus) -> String {
    match status {
        OrchestrationStatus::Failed { details, .. } => details.display_message(),
        other => panic!("not failed: {other:?}"),
    }
}

/// The details of a failure.
pub(crate) fn details(status: OrchestrationStatus) -> duroxide::ErrorDetails {
    match status {
        OrchestrationStatus::Failed { details, .. } => details,
        other => panic!("not failed: {other:?}"),
    }
}
