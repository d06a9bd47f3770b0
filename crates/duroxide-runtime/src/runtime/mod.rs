//! A runtime: started, running, shut down. In: a store, handlers, options. Out: work that goes on.

mod builder;
mod gauges;
mod node;
mod retain;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::{ClockRef, SystemClock};
use duroxide_core::defect::Defect;
use duroxide_core::provider::{BlockedInstance, Provider};
use duroxide_core::{Event, EventKind};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::instrument::WithSubscriber;

use crate::client::Client;
use crate::engine::{
    BlockedInstances, CodeHere, CodeWanted, Engine, Excuses, HandlerNames, NotBefore,
    RunningActivities, StickyCache, StickyLimits, StoreTime,
};
use crate::executor::{Executor, Poller, Task};
use crate::leases::{Leases, Returns};
use crate::observability::{
    InstrumentedProvider, MetricsSnapshot, ObservabilityConfig, ObservabilityHandle, SpanSink,
    check_logging,
};
use crate::options::{InvalidOptions, RuntimeOptions};
use crate::registry::{ActivityRegistry, OrchestrationRegistry};
use crate::status::OrchestrationDescriptor;
use crate::{orchestration, worker};

pub use builder::{BuildError, RuntimeBuilder};

/// What a runtime takes from the world around it: what polls its futures, what time it is, where its spans go. By
/// default: the engine's threads, the system clock, no span sink.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) poller: Option<Arc<dyn Poller>>,
    pub(crate) clock: Option<ClockRef>,
    pub(crate) spans: Option<Arc<dyn SpanSink>>,
}

/// How a shutdown spends its time: what runs may finish, then it is aborted and its leases are given back.
#[derive(Debug, Clone, Copy)]
struct ShutdownTimes {
    grace: Duration,
    aborting: Duration,
}

impl ShutdownTimes {
    const LONGEST_ABORT: Duration = Duration::from_millis(500);
    /// Giving leases back takes a write of the store: a short limit is halved for it, and no limit at all leaves this.
    const SHORTEST_ABORT: Duration = Duration::from_millis(200);

    /// No shutdown waits longer; a later deadline could overflow.
    const LONGEST: Duration = Duration::from_secs(365 * 86_400);

    fn within(limit_ms: Option<u64>) -> Self {
        let limit = limit_ms.map(|ms| Duration::from_millis(ms).min(Self::LONGEST));
        let Some(limit) = limit else {
            return Self {
                grace: Duration::from_secs(1),
                aborting: Self::LONGEST_ABORT,
            };
        };
        if limit.is_zero() {
            return Self {
                grace: Duration::ZERO,
                aborting: Self::SHORTEST_ABORT,
            };
        }
        let enough = Self::SHORTEST_ABORT.min(limit / 2);
        let aborting = (limit / 4).clamp(enough, Self::LONGEST_ABORT);
        Self {
            grace: limit - aborting,
            aborting,
        }
    }
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
        Self::try_start(store, &activities, orchestrations, options, Host::default())
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_start(
        store: Arc<dyn Provider>,
        activities: &ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
        host: Host,
    ) -> Result<Arc<Self>, InvalidOptions> {
        options.validate()?;
        let observability = observe(&options.observability)?;
        let metrics = Arc::clone(observability.metrics_provider());
        let own = host.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let clock = Arc::new(StoreTime::new(own));
        let measured = InstrumentedProvider::new(Arc::clone(&store), Some(Arc::clone(&metrics)));
        let (tasks, keepers) = (TaskTracker::new(), TaskTracker::new());
        let abort = CancellationToken::new();
        let activities = worker::with_built_ins(activities, &(Arc::clone(&clock) as ClockRef));
        metrics.prepare(&orchestrations, &activities, &options.worker_tag_filter);
        let (leases, returns) = Leases::new();
        let engine = Arc::new(Engine {
            code_here: CodeHere::of(&orchestrations, &activities),
            store: Arc::new(measured),
            limits: options.turn_limits(),
            filter: options.capability_filter(),
            orchestrations,
            activities,
            sticky: Arc::new(StickyCache::new(
                StickyLimits {
                    instances_max: options.sticky_instances_max,
                    bytes_max: options.sticky_bytes_max,
                    idle_max: options.sticky_idle_max,
                },
                Arc::clone(&metrics),
            )),
            metrics,
            spans: host.spans,
            clock,
            runtime_id: uuid::Uuid::new_v4().simple().to_string(),
            stop: CancellationToken::new(),
            executor: Executor::start(tasks.clone(), &keepers, abort.clone(), host.poller),
            abort,
            tasks,
            keepers,
            leases,
            leases_over: CancellationToken::new(),
            running: Arc::new(RunningActivities::default()),
            names: HandlerNames::new(),
            blocked: BlockedInstances::default(),
            code_wanted: CodeWanted::new(),
            excuses: Excuses::new(options.max_attempts),
            not_before: NotBefore::new(),
            turns_ready: tokio::sync::Notify::new(),
            work_ready: tokio::sync::Notify::new(),
            options,
        });
        announce(&engine);
        spawn_dispatchers(&engine, returns);
        Ok(Arc::new(Self {
            engine,
            observability,
            store,
        }))
    }

    /// Stops the runtime within a limit in milliseconds. Nothing new is claimed; what runs may finish in the first
    /// three quarters of the limit (1 s if `None`) and is aborted then, to run again later: its lease is given back and
    /// no attempt is counted. The last quarter, at most 500 ms and at least 200 ms, is for that. Returns when every
    /// task of the runtime has ended, or when the limit is over if code does not return: such code is named in a
    /// warning and left to its thread. May be called again.
    pub async fn shutdown(self: Arc<Self>, timeout_ms: Option<u64>) {
        let engine = &self.engine;
        engine.stop.cancel();
        engine.tasks.close();
        engine.keepers.close();
        let ShutdownTimes { grace, aborting } = ShutdownTimes::within(timeout_ms);
        let until = Instant::now() + grace + aborting;
        if !engine.ends_within(engine.tasks.wait(), grace).await && !grace.is_zero() {
            tracing::warn!(target: "duroxide::runtime", "work still running after {grace:?} is aborted and will run again");
        }
        engine.abort.cancel();
        // Half of what is left for work to end, half for its leases to be given back.
        let half = until.saturating_duration_since(Instant::now()) / 2;
        if !engine.ends_within(engine.tasks.wait(), half).await {
            let stuck = engine.executor.stuck();
            tracing::error!(
                target: "duroxide::runtime",
                "the runtime shuts down though code of it does not return: {}", stuck.join(", ")
            );
        }
        engine.leases_over.cancel();
        let left = || until.saturating_duration_since(Instant::now());
        engine.ends_within(engine.keepers.wait(), left()).await;
        // This runs destructors of authors, which may block.
        let sticky = Arc::clone(&engine.sticky);
        engine.executor.run_aside(move || sticky.clear());
        if let Some(spans) = engine.spans.clone() {
            engine.executor.run_aside(move || spans.flush());
        }
        engine.ends_within(engine.tasks.wait(), left()).await;
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

    /// Instances that cannot go on for now, as far as this node has seen them: their code does not fit their history
    /// and `on_divergence` is `Block`, or the store refuses what they decided. Another node may know of others.
    #[must_use]
    pub fn blocked_instances(&self) -> Vec<BlockedInstance> {
        self.engine.blocked.list()
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

fn observe(config: &ObservabilityConfig) -> Result<ObservabilityHandle, InvalidOptions> {
    if config.install_subscriber {
        check_logging(config).map_err(InvalidOptions)?;
    }
    let handle = ObservabilityHandle::init(config).unwrap_or_else(|error| {
        // A program that installed its own subscriber keeps it.
        tracing::debug!(target: "duroxide::runtime", %error, "logging is set up already");
        let config = ObservabilityConfig {
            install_subscriber: false,
            ..config.clone()
        };
        ObservabilityHandle::init(&config).expect("metrics alone cannot fail")
    });
    Ok(handle)
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

fn spawn_dispatchers(engine: &Arc<Engine>, returns: Returns) {
    let (store, last) = (engine.store_of_keepers(), engine.leases_over.clone());
    engine.spawn_keeper(returns.give_back(store, last));
    let leases = Arc::clone(&engine.leases);
    let mut kept_until = engine.abort.clone();
    if Defect::RenewalEndsAtStop.is_on() {
        kept_until = engine.stop.clone();
    }
    engine.spawn_keeper(leases.keep(engine.store_of_keepers(), kept_until));
    let clock = Arc::clone(&engine.clock).follow(engine.store_of_keepers());
    let abort = engine.abort.clone();
    engine.spawn_keeper(async move {
        abort.run_until_cancelled_owned(clock).await;
    });
    let gauges = gauges::poll(Arc::clone(engine)).with_current_subscriber();
    engine.executor.spawn_on_host(&engine.tasks, gauges);
    // In virtual time every announcement would be a step.
    if !engine.executor.is_in_virtual_time() {
        let node = node::announce(Arc::clone(engine)).with_current_subscriber();
        engine.executor.spawn_on_host(&engine.tasks, node);
    }
    let retention = retain::retain(Arc::clone(engine)).with_current_subscriber();
    engine.executor.spawn_on_host(&engine.tasks, retention);
    let sweeper = sweep_memory(Arc::clone(engine));
    engine
        .executor
        .spawn(Task::engine("the sweeper of memory"), sweeper);
    if engine.options.orchestration_concurrency > 0 {
        let dispatcher = orchestration::dispatch(Arc::clone(engine));
        engine
            .executor
            .spawn(Task::engine("the dispatcher of turns"), dispatcher);
    }
    if worker::can_work(engine) {
        let dispatcher = worker::dispatch(Arc::clone(engine));
        engine
            .executor
            .spawn(Task::engine("the dispatcher of activities"), dispatcher);
    }
}

/// Lets orchestrations leave memory that have been idle for too long. Runs where authors' destructors may block.
async fn sweep_memory(engine: Arc<Engine>) {
    loop {
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            () = engine.sticky.next_stale() => engine.sticky.sweep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_spends_no_more_than_its_limit_and_has_time_to_give_leases_back() {
        for ms in [1, 50, 260, 800, 1_000, 60_000] {
            let ShutdownTimes { grace, aborting } = ShutdownTimes::within(Some(ms));
            assert_eq!(grace + aborting, Duration::from_millis(ms), "{ms} ms");
            assert!(
                aborting >= Duration::from_millis(ms.min(800) / 4),
                "{ms} ms"
            );
        }
        let at_once = ShutdownTimes::within(Some(0));
        assert_eq!(at_once.grace, Duration::ZERO);
        assert_eq!(at_once.aborting, ShutdownTimes::SHORTEST_ABORT);
    }
}
