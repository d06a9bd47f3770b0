//! What a harness runs, and how. In: code, stubs, a seed. Out: a running harness.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide_core::provider::Provider;
use duroxide_runtime::RuntimeOptions;
use duroxide_runtime::observability::ObservabilityConfig;
use duroxide_runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide_store::memory::MemoryStore;
use duroxide_store::{StoreProvider, TokioClock};

use crate::courier::{Courier, Manner};
use crate::fate::Fate;
use crate::harness::{AGES, Harness};
use crate::rng::Rng;
use crate::sched::Scheduler;
use crate::script::{ActivityCall, Script};
use crate::seed::seed_of_environment;
use crate::workers::{Code, Workers};

/// When tests begin: 2026-01-01 00:00:00 UTC.
const BEGINNING_MS: u64 = 1_767_225_600_000;

/// Collects what a [`Harness`] runs.
#[must_use]
pub struct HarnessBuilder {
    pub(crate) activities: ActivityRegistry,
    pub(crate) orchestrations: OrchestrationRegistry,
    options: RuntimeOptions,
    pub(crate) script: Script,
    begins_at_ms: Option<u64>,
    pub(crate) seed: u64,
    workers: usize,
    manner: Manner,
}

impl Harness {
    /// Begins a harness.
    pub fn builder() -> HarnessBuilder {
        HarnessBuilder::default()
    }
}

impl Default for HarnessBuilder {
    fn default() -> Self {
        Self {
            activities: ActivityRegistry::default(),
            orchestrations: OrchestrationRegistry::default(),
            options: RuntimeOptions::default(),
            script: Script::default(),
            begins_at_ms: None,
            seed: seed_of_environment().unwrap_or(0),
            workers: 1,
            manner: Manner::default(),
        }
    }
}

impl HarnessBuilder {
    /// Decides every order that a deployment leaves to chance: which turn runs first, which activity, which client. The
    /// same seed is the same run. It is 0 by default, and the environment variable `DUROXIDE_SEED` says it for all
    /// harnesses that name none. A test that fails prints it.
    ///
    /// ```
    /// use duroxide::testing::{Harness, block_on};
    /// use duroxide::{OrchestrationContext, OrchestrationRegistry};
    ///
    /// async fn race(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     let runners = ["ada", "ben", "eve"].map(|name| ctx.schedule_activity("run", name));
    ///     ctx.join(runners.into()).await;
    ///     Ok(String::new())
    /// }
    ///
    /// async fn finish(seed: u64) -> Vec<String> {
    ///     let mut harness = Harness::builder()
    ///         .orchestrations(OrchestrationRegistry::builder().register("race", race).build())
    ///         .stub_value("run", "")
    ///         .seed(seed)
    ///         .start()
    ///         .await;
    ///     harness.run("race", "").await;
    ///     harness.calls("run").into_iter().map(|call| call.input).collect()
    /// }
    ///
    /// let orders: Vec<_> = (0..20).map(|seed| block_on(finish(seed))).collect();
    /// assert!(orders.iter().any(|order| *order != orders[0]), "other seeds, other orders");
    /// assert_eq!(orders[7], block_on(finish(7)), "the same seed, the same order");
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many worker processes share the store; one, if not said. Each has all of the code.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "a harness without workers runs nothing");
        self.workers = workers;
        self
    }

    /// Every answer of an activity or a child is delivered twice, as after a lost acknowledgement.
    pub fn deliver_twice(mut self) -> Self {
        self.manner.twice = true;
        self
    }

    /// Answers of activities and children are delivered later by up to this, as the seed decides, so that they overtake
    /// each other.
    pub fn deliver_late(mut self, by: Duration) -> Self {
        self.manner.late(by);
        self
    }

    /// The orchestrations under test.
    pub fn orchestrations(mut self, orchestrations: OrchestrationRegistry) -> Self {
        self.orchestrations = orchestrations;
        self
    }

    /// Real activities, for those that are not stubbed.
    pub fn activities(mut self, activities: ActivityRegistry) -> Self {
        self.activities = activities;
        self
    }

    /// Replaces an activity.
    pub fn stub(
        mut self,
        name: &str,
        stub: impl Fn(&ActivityCall) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.script.stub(name, stub);
        self
    }

    /// Replaces an activity by a constant answer.
    pub fn stub_value(self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.stub(name, move |_| Ok(value.clone()))
    }

    /// Replaces an activity by one that takes its time, which passes as everywhere in a harness.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duroxide::testing::{Harness, block_on};
    /// use duroxide::{Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
    ///
    /// async fn patient(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     let limit = ctx.schedule_timer(Duration::from_secs(60));
    ///     match ctx.select2(ctx.schedule_activity("ask", ""), limit).await {
    ///         Either2::First(answer) => answer,
    ///         Either2::Second(()) => Ok("no answer".to_owned()),
    ///     }
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder()
    ///         .orchestrations(OrchestrationRegistry::builder().register("patient", patient).build())
    ///         .stub_async("ask", |_call| async {
    ///             tokio::time::sleep(Duration::from_secs(3_600)).await;
    ///             Ok("yes".to_owned())
    ///         })
    ///         .start()
    ///         .await;
    ///     let status = harness.run("patient", "").await;
    ///     assert!(matches!(status, OrchestrationStatus::Completed { output, .. } if output == "no answer"));
    /// });
    /// ```
    pub fn stub_async<Fut>(
        mut self,
        name: &str,
        stub: impl Fn(ActivityCall) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.script.stub_async(name, stub);
        self
    }

    /// Replaces an activity by a constant answer that comes after a time.
    pub fn stub_after(self, name: &str, delay: Duration, value: impl Into<String>) -> Self {
        let value = value.into();
        self.stub_async(name, move |_| {
            let value = value.clone();
            async move {
                tokio::time::sleep(delay).await;
                Ok(value)
            }
        })
    }

    /// Replaces an orchestration, in all its versions: a child whose code is not under test. The stub gets its input.
    ///
    /// ```
    /// use duroxide::testing::{Harness, block_on};
    /// use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
    ///
    /// async fn order(ctx: OrchestrationContext, item: String) -> Result<String, String> {
    ///     ctx.schedule_sub_orchestration("shipping", item).await
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder()
    ///         .orchestrations(OrchestrationRegistry::builder().register("order", order).build())
    ///         .stub_child("shipping", |item| Ok(format!("{item} is on its way")))
    ///         .start()
    ///         .await;
    ///     let status = harness.run("order", "a book").await;
    ///     assert!(matches!(status, OrchestrationStatus::Completed { output, .. } if output == "a book is on its way"));
    /// });
    /// ```
    pub fn stub_child(
        mut self,
        name: &str,
        stub: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.script.stub_child(name, stub);
        self
    }

    /// Fails the n-th call of an activity, counted from 1; other calls are not touched.
    pub fn fail_call(mut self, name: &str, call: u32, error: &str) -> Self {
        self.script.fail(name, call, error);
        self
    }

    /// Options of the runtime.
    pub fn options(mut self, options: RuntimeOptions) -> Self {
        self.options = options;
        self
    }

    /// What the clock shows at first, in milliseconds since the Unix epoch.
    pub fn begins_at(mut self, now_ms: u64) -> Self {
        self.begins_at_ms = Some(now_ms);
        self
    }

    /// Starts the engine. Needs a current-thread runtime with paused time: `#[tokio::test(start_paused = true)]` or
    /// [`block_on`](crate::block_on).
    ///
    /// # Panics
    ///
    /// If time is not paused: thirty days would take thirty days.
    pub async fn start(self) -> Harness {
        tokio::time::advance(Duration::ZERO).await;
        let clock = TokioClock::starting_at(self.begins_at_ms.unwrap_or(BEGINNING_MS));
        let mut chance = Rng::new(self.seed);
        let scheduler = Scheduler::new(chance.fork());
        let store = MemoryStore::with_clock(clock);
        let store = Courier::new(store, self.manner, chance.fork());
        let store: Arc<dyn Provider> = Arc::new(StoreProvider::over("memory", store));
        let script = Arc::new(self.script);
        let code = Code {
            activities: Script::stage(&script, &self.activities),
            orchestrations: script.stage_children(&self.orchestrations),
        };
        let workers = Arc::new(Workers {
            scheduler,
            fate: Arc::new(Fate::default()),
            store,
            clock: Arc::new(clock),
            options: quiet(self.options),
            code: Mutex::new(code),
            running: Mutex::new((0..self.workers).map(|_| None).collect()),
            crashes: std::sync::atomic::AtomicU32::new(0),
        });
        Harness::begin(workers, script, clock, self.seed).await
    }
}

/// Nothing looks around on its own: in virtual time every look is a step.
fn quiet(options: RuntimeOptions) -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_long_poll_timeout: AGES,
        session_cleanup_interval: AGES,
        node_announce_interval: None,
        observability: ObservabilityConfig {
            gauge_poll_interval: AGES,
            ..options.observability
        },
        ..options
    }
}

impl fmt::Debug for HarnessBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessBuilder")
            .field("orchestrations", &self.orchestrations)
            .finish_non_exhaustive()
    }
}
