//! A runtime: started, running, shut down. In: a store, handlers, options. Out: work that goes on.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use duroxide_core::clock::{ClockRef, SystemClock};
use duroxide_core::provider::Provider;
use duroxide_core::{Event, EventKind};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::RuntimeBuilder;
use crate::client::Client;
use crate::engine::Engine;
use crate::executor::{Executor, Lane};
use crate::leases::Leases;
use crate::observability::{
    InstrumentedProvider, MetricsSnapshot, ObservabilityConfig, ObservabilityHandle,
};
use crate::options::{InvalidOptions, RuntimeOptions};
use crate::orchestration::StickyCache;
use crate::registry::{ActivityRegistry, OrchestrationRegistry};
use crate::status::OrchestrationDescriptor;
use crate::worker::{HandlerNames, RunningActivities};
use crate::{gauges, orchestration, worker};

/// Grace period of [`Runtime::shutdown`] if none is given.
const DEFAULT_GRACE: Duration = Duration::from_secs(1);

/// An instance that waits for code that fits its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedInstance {
    /// Which.
    pub instance_id: String,
    /// Its execution.
    pub execution_id: u64,
    /// Its handler.
    pub orchestration_name: String,
    /// What is recorded against what the code attempted.
    pub report: String,
    /// How often it was tried.
    pub attempts: u32,
}

/// Runs orchestrations and activities on a store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide::providers::sqlite::SqliteProvider;
/// use duroxide::{ActivityRegistry, OrchestrationContext, OrchestrationRegistry, Runtime};
/// use std::{sync::Arc, time::Duration};
///
/// let store = Arc::new(SqliteProvider::new_in_memory().await?);
/// let activities = ActivityRegistry::default();
/// let orchestrations = OrchestrationRegistry::builder()
///     .register("echo", |_ctx: OrchestrationContext, input: String| async move { Ok(input) })
///     .build_result()?;
/// let runtime = Runtime::start_with_store(store, activities, orchestrations).await;
///
/// let client = runtime.client();
/// client.start_orchestration("first", "echo", "hello").await?;
/// let output: String = client.wait_for_orchestration_typed("first", Duration::from_secs(30)).await??;
/// assert_eq!(output, "hello");
///
/// runtime.shutdown(None).await;
/// # Ok(())
/// # }
/// ```
pub struct Runtime {
    engine: Arc<Engine>,
    observability: ObservabilityHandle,
    store: Arc<dyn Provider>,
}

impl Runtime {
    /// Collects what a runtime needs; see [`RuntimeBuilder`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use duroxide::providers::sqlite::SqliteProvider;
    /// use duroxide::{Runtime, RuntimeOptions};
    /// use std::sync::Arc;
    ///
    /// let store = Arc::new(SqliteProvider::new_in_memory().await?);
    /// let options = RuntimeOptions { worker_concurrency: 4, ..RuntimeOptions::default() };
    /// let runtime = Runtime::builder().with_provider(store).with_options(options).build().await?;
    /// runtime.shutdown(None).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Starts a runtime on a private in-memory store; see [`client`](Self::client) for a way to it.
    ///
    /// # Panics
    ///
    /// If the in-memory store cannot be opened.
    #[cfg(feature = "sqlite")]
    pub async fn start(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Arc<Self> {
        let store = duroxide_sqlite::SqliteProvider::new_in_memory()
            .await
            .expect("an in-memory store needs nothing but memory");
        Self::start_with_store(Arc::new(store), activities, orchestrations).await
    }

    /// Starts a runtime with default options.
    pub async fn start_with_store(
        store: Arc<dyn Provider>,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Arc<Self> {
        Self::start_with_options(store, activities, orchestrations, RuntimeOptions::default()).await
    }

    /// Starts a runtime.
    ///
    /// # Panics
    ///
    /// When the options cannot work; [`Runtime::builder`] returns an error instead.
    pub async fn start_with_options(
        store: Arc<dyn Provider>,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Arc<Self> {
        Self::try_start(store, &activities, orchestrations, options, None)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_start(
        store: Arc<dyn Provider>,
        activities: &ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
        clock: Option<ClockRef>,
    ) -> Result<Arc<Self>, InvalidOptions> {
        options.validate()?;
        let observability = observe(&options.observability);
        let metrics = Arc::clone(observability.metrics_provider());
        let clock = clock.unwrap_or_else(|| Arc::new(SystemClock));
        let measured = InstrumentedProvider::new(Arc::clone(&store), Some(Arc::clone(&metrics)));
        let (tasks, keepers) = (TaskTracker::new(), TaskTracker::new());
        let abort = CancellationToken::new();
        let engine = Arc::new(Engine {
            store: Arc::new(measured),
            limits: options.turn_limits(),
            filter: options.capability_filter(),
            orchestrations,
            activities: worker::with_built_ins(activities, &clock),
            sticky: Arc::new(StickyCache::new(
                options.sticky_instances_max,
                Arc::clone(&metrics),
            )),
            metrics,
            clock,
            runtime_id: uuid::Uuid::new_v4().simple().to_string(),
            stop: CancellationToken::new(),
            executor: Executor::start(tasks.clone(), &keepers, abort.clone()),
            abort,
            tasks,
            keepers,
            leases: Arc::new(Leases::default()),
            running: Arc::new(RunningActivities::default()),
            names: HandlerNames::new(),
            blocked: std::sync::Mutex::default(),
            turns_ready: tokio::sync::Notify::new(),
            work_ready: tokio::sync::Notify::new(),
            options,
        });
        announce(&engine);
        spawn_dispatchers(&engine);
        Ok(Arc::new(Self {
            engine,
            observability,
            store,
        }))
    }

    /// Stops the runtime. Nothing new is claimed; what runs may finish within the grace period (1 s if `None`) and is
    /// aborted then, to run again later. Returns when every task of the runtime has ended. May be called again.
    pub async fn shutdown(self: Arc<Self>, timeout_ms: Option<u64>) {
        let engine = &self.engine;
        engine.stop.cancel();
        engine.tasks.close();
        engine.keepers.close();
        let grace = timeout_ms.map_or(DEFAULT_GRACE, Duration::from_millis);
        // Without a grace period no clock is needed, so this also works outside an async runtime's context.
        if !grace.is_zero() {
            let drained = tokio::time::timeout(grace, engine.tasks.wait()).await;
            if drained.is_err() {
                tracing::warn!(target: "duroxide::runtime", "work still running after {grace:?} is aborted and will run again");
            }
        }
        engine.abort.cancel();
        engine.tasks.wait().await;
        engine.keepers.wait().await;
        engine.sticky.clear();
    }

    /// What runs under an instance id, by its current execution; `None` if it is unknown or the store cannot tell.
    pub async fn get_orchestration_descriptor(
        &self,
        instance: &str,
    ) -> Option<OrchestrationDescriptor> {
        let history: Vec<Event> = self.store.read(instance).await.ok()?;
        history
            .into_iter()
            .rev()
            .find_map(|event| match event.kind {
                EventKind::OrchestrationStarted {
                    name,
                    version,
                    parent_instance,
                    parent_id,
                    ..
                } => Some(OrchestrationDescriptor {
                    name,
                    version,
                    parent_instance,
                    parent_id,
                }),
                _ => None,
            })
    }

    /// The counters as they are now.
    #[must_use]
    pub fn metrics_snapshot(&self) -> Option<MetricsSnapshot> {
        Some(self.observability.metrics_snapshot())
    }

    /// Logging and metrics of this runtime.
    #[must_use]
    pub fn observability_handle(&self) -> Option<&ObservabilityHandle> {
        Some(&self.observability)
    }

    /// The store this runtime works on.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.store)
    }

    /// A client on the same store.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.store()).with_payload_limit(self.engine.options.payload_bytes_max)
    }

    /// Instances that wait for code that fits their history, with `on_divergence` set to `Block`.
    #[must_use]
    pub fn blocked_instances(&self) -> Vec<BlockedInstance> {
        let blocked = self
            .engine
            .blocked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = blocked.values().cloned().collect();
        all.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
        all
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("runtime_id", &self.engine.runtime_id)
            .field("store", &self.store.name())
            .finish_non_exhaustive()
    }
}

fn observe(config: &ObservabilityConfig) -> ObservabilityHandle {
    ObservabilityHandle::init(config).unwrap_or_else(|error| {
        // A program that installed its own subscriber keeps it.
        tracing::debug!(target: "duroxide::runtime", %error, "logging is set up already");
        let config = ObservabilityConfig {
            install_subscriber: false,
            ..config.clone()
        };
        ObservabilityHandle::init(&config).expect("metrics alone cannot fail")
    })
}

fn announce(engine: &Engine) {
    let observability = &engine.options.observability;
    tracing::info!(
        target: "duroxide::runtime",
        service_name = %observability.service_name,
        service_version = observability.service_version.as_deref().unwrap_or(""),
        "duroxide runtime ({}) starting with provider {} ({})",
        duroxide_core::BUILD_VERSION, engine.store.name(), engine.store.version()
    );
    let range = &engine.filter.supported_duroxide_versions[0];
    tracing::info!(
        target: "duroxide::runtime",
        supported_range = %format!(">={}, <={}", range.min, range.max),
        "Orchestration dispatcher capability filter configured"
    );
}

fn spawn_dispatchers(engine: &Arc<Engine>) {
    let leases = Arc::clone(&engine.leases);
    engine
        .keepers
        .spawn(leases.keep(Arc::clone(&engine.store), engine.abort.clone()));
    engine.tasks.spawn(gauges::poll(Arc::clone(engine)));
    if engine.options.orchestration_concurrency > 0 {
        let dispatcher = orchestration::dispatch(Arc::clone(engine));
        engine.executor.spawn(Lane::Engine, dispatcher);
    }
    if worker::can_work(engine) {
        let dispatcher = worker::dispatch(Arc::clone(engine));
        engine.executor.spawn(Lane::Engine, dispatcher);
    }
}
