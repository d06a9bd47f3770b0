//! The real engine on the in-memory store, in virtual time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::Event;
use duroxide_core::clock::{Clock, ClockRef};
use duroxide_core::provider::Provider;
use duroxide_runtime::observability::{Layered, ObservabilityConfig};
use duroxide_runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide_runtime::{Client, Handlers, OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide_store::{MemoryProvider, TokioClock};
use tokio::task::JoinHandle;

use crate::crash::{Fate, Life};
use crate::determinism::check_determinism;
use crate::script::{ActivityCall, Script};

/// When tests begin: 2026-01-01 00:00:00 UTC.
const BEGINNING_MS: u64 = 1_767_225_600_000;
/// Longer than any test sleeps; nothing wakes up in between to look around.
const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 20);

/// More commits than any test needs: an orchestration that makes as many does not end.
pub(crate) const COMMITS_MAX: u64 = 100_000;

/// Runs a test in virtual time, for tests that are not async themselves. The same as
/// `#[tokio::test(start_paused = true)]`.
///
/// # Panics
///
/// If the async runtime cannot be built.
pub fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime needs nothing but memory")
        .block_on(test)
}

/// Collects what a [`Harness`] runs.
#[derive(Default)]
#[must_use]
pub struct HarnessBuilder {
    pub(crate) activities: ActivityRegistry,
    pub(crate) orchestrations: OrchestrationRegistry,
    options: RuntimeOptions,
    pub(crate) script: Script,
    begins_at_ms: Option<u64>,
}

impl HarnessBuilder {
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
    /// [`block_on`].
    ///
    /// # Panics
    ///
    /// If time is not paused: thirty days would take thirty days.
    pub async fn start(self) -> Harness {
        tokio::time::advance(Duration::ZERO).await;
        let clock = TokioClock::starting_at(self.begins_at_ms.unwrap_or(BEGINNING_MS));
        let script = Arc::new(self.script);
        let mut harness = Harness {
            clock,
            store: Arc::new(MemoryProvider::with_clock(clock)),
            fate: Arc::new(Fate::default()),
            activities: Script::stage(&script, &self.activities),
            orchestrations: self.orchestrations,
            options: quiet(self.options),
            script,
            runtime: None,
            runs: 0,
            crashes: 0,
            actions: Mutex::default(),
        };
        harness.boot().await;
        harness
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

/// A running engine in virtual time.
pub struct Harness {
    clock: TokioClock,
    store: Arc<MemoryProvider>,
    fate: Arc<Fate>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
    options: RuntimeOptions,
    script: Arc<Script>,
    runtime: Option<Arc<Runtime>>,
    pub(crate) runs: u32,
    crashes: u32,
    /// What is to be done after a time.
    actions: Mutex<Vec<JoinHandle<()>>>,
}

impl Harness {
    /// Begins a harness.
    pub fn builder() -> HarnessBuilder {
        HarnessBuilder::default()
    }

    async fn boot(&mut self) {
        let life = Life::new(Arc::clone(&self.fate));
        let store: Arc<dyn Provider> = Arc::clone(&self.store) as _;
        let clock: ClockRef = Arc::new(self.clock);
        let runtime = Runtime::builder()
            .with_provider(Arc::new(Layered::around(store, life)))
            .with_activities(self.activities.clone())
            .with_orchestrations(self.orchestrations.clone())
            .with_options(self.options.clone())
            .with_clock(clock)
            .build()
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        self.runtime = Some(runtime);
    }

    /// A client on the store. It survives crashes.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.store) as _)
    }

    /// What the clock shows, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Starts an orchestration under an id and returns at once.
    ///
    /// # Panics
    ///
    /// If the start is refused.
    pub async fn start(&self, instance: &str, orchestration: &str, input: &str) {
        self.client()
            .start_orchestration(instance, orchestration, input)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Starts an orchestration and waits for its end, however long it sleeps. Then every turn of it, and of its
    /// children, is executed again, many times, and must decide the same.
    ///
    /// # Panics
    ///
    /// If it does not end, or if a turn decides something else when it is run again.
    pub async fn run(&mut self, orchestration: &str, input: &str) -> OrchestrationStatus {
        self.runs += 1;
        let instance = format!("run-{}", self.runs);
        self.start(&instance, orchestration, input).await;
        let status = self.wait(&instance).await;
        let tree = self.client().get_instance_tree(&instance).await;
        let tree = tree.unwrap_or_else(|error| panic!("{error}"));
        for member in &tree.all_ids {
            self.assert_deterministic(member).await;
        }
        status
    }

    /// Waits for an instance's end, through crashes if any were asked for.
    ///
    /// # Panics
    ///
    /// If it does not end within twenty years or 100,000 commits.
    pub async fn wait(&mut self, instance: &str) -> OrchestrationStatus {
        self.wait_within(instance, AGES).await
    }

    /// As [`wait`](Self::wait), but not for longer than this.
    ///
    /// # Panics
    ///
    /// If it does not end in time, or after 100,000 commits, or if what was to be done [`after`](Self::after) a time
    /// panicked.
    pub async fn wait_within(&mut self, instance: &str, limit: Duration) -> OrchestrationStatus {
        let first = self.commits();
        let mut watch = self
            .store
            .watch_instance(instance)
            .expect("the in-memory store wakes its watchers");
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            self.rethrow().await;
            assert!(
                self.commits() - first < COMMITS_MAX,
                "{instance} did not end within {COMMITS_MAX} commits"
            );
            let status = self
                .client()
                .get_orchestration_status(instance)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            if let OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. } =
                status
            {
                return status;
            }
            let fate = Arc::clone(&self.fate);
            tokio::select! {
                () = watch.changed() => {}
                () = fate.died() => self.restart().await,
                () = tokio::time::sleep_until(deadline) => {
                    panic!("{instance} did not end within {limit:?}; it stands at {status:?}")
                }
            }
        }
    }

    /// Lets time pass, with everything that is due in it.
    pub async fn advance(&mut self, by: Duration) {
        let passed = tokio::time::sleep(by);
        tokio::pin!(passed);
        loop {
            let fate = Arc::clone(&self.fate);
            tokio::select! {
                () = &mut passed => break,
                () = fate.died() => self.restart().await,
            }
        }
        self.settle().await;
    }

    /// Lets everything happen that can happen without time passing (but for a millisecond).
    pub async fn settle(&mut self) {
        // Time moves only when nothing else can: after this, everything runnable has run.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Does something after a time, while the test goes on.
    pub fn after<F, Fut>(&self, delay: Duration, action: F)
    where
        F: FnOnce(Client) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let client = self.client();
        let task = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            action(client).await;
        });
        let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions.push(task);
    }

    /// Panics of what was to be done after a time are panics of the test.
    async fn rethrow(&self) {
        let ended: Vec<JoinHandle<()>> = {
            let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
            let all = std::mem::take(&mut *actions);
            let (ended, open) = all.into_iter().partition(JoinHandle::is_finished);
            *actions = open;
            ended
        };
        for action in ended {
            if let Err(error) = action.await
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Sends a message to a queue after a time.
    pub fn enqueue_after(&self, delay: Duration, instance: &str, queue: &str, data: &str) {
        let (instance, queue, data) = (instance.to_owned(), queue.to_owned(), data.to_owned());
        self.after(delay, move |client| async move {
            client
                .enqueue_event(instance, queue, data)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
        });
    }

    /// Asks to cancel an instance after a time.
    pub fn cancel_after(&self, delay: Duration, instance: &str, reason: &str) {
        let (instance, reason) = (instance.to_owned(), reason.to_owned());
        self.after(delay, move |client| async move {
            client
                .cancel_instance(instance, reason)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
        });
    }

    /// Raises a signal after a time.
    pub fn raise_after(&self, delay: Duration, instance: &str, event: &str, data: &str) {
        let (instance, event, data) = (instance.to_owned(), event.to_owned(), data.to_owned());
        self.after(delay, move |client| async move {
            client
                .raise_event(instance, event, data)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
        });
    }

    /// Kills the process now and starts it again with other code: a deployment.
    ///
    /// # Panics
    ///
    /// When the code is not complete, or contradicts itself.
    pub async fn deploy(&mut self, handlers: Handlers) {
        let (activities, orchestrations) = handlers
            .build()
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        self.activities = Script::stage(&self.script, &activities);
        self.orchestrations = orchestrations;
        self.restart().await;
    }

    /// Kills the process now and starts it again. What was not committed is lost; leases run out by themselves.
    pub async fn crash(&mut self) {
        self.restart().await;
    }

    /// Kills the process at its n-th commit from now, before that commit reaches the store, and starts it again.
    pub fn crash_before_commit(&self, nth: u64) {
        self.fate.die_at_commit(nth, false);
    }

    /// Kills the process at its n-th commit from now, after that commit reached the store but before the process heard of
    /// it, and starts it again.
    pub fn crash_after_commit(&self, nth: u64) {
        self.fate.die_at_commit(nth, true);
    }

    /// Commits so far, over all lives.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.fate.commits()
    }

    /// Crashes so far.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    async fn restart(&mut self) {
        self.crashes += 1;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown(Some(0)).await;
        }
        self.boot().await;
    }

    /// Calls of an activity so far.
    #[must_use]
    pub fn calls(&self, activity: &str) -> Vec<ActivityCall> {
        self.script.calls(activity)
    }

    /// The history of an instance's latest execution.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub async fn history(&self, instance: &str) -> Vec<Event> {
        self.store
            .read(instance)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The histories of all executions of an instance, one after another.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub async fn full_history(&self, instance: &str) -> Vec<Event> {
        let admin = self
            .store
            .as_management_capability()
            .expect("the in-memory store has an administrative half");
        let executions = admin.list_executions(instance).await;
        let mut history = Vec::new();
        for execution in executions.unwrap_or_else(|error| panic!("{error}")) {
            let events = self.store.read_with_execution(instance, execution).await;
            history.extend(events.unwrap_or_else(|error| panic!("{error}")));
        }
        history
    }

    /// Executes every turn of an instance again, in all its executions, more than once, and compares what it decides.
    ///
    /// # Panics
    ///
    /// If it decides something else.
    pub async fn assert_deterministic(&self, instance: &str) {
        let history = self.full_history(instance).await;
        if let Err(report) = check_determinism(&history, &self.orchestrations) {
            panic!("{instance} is not deterministic: {report}");
        }
    }

    /// Stops the engine.
    pub async fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown(None).await;
        }
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("now_ms", &self.now_ms())
            .field("commits", &self.commits())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HarnessBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessBuilder")
            .field("orchestrations", &self.orchestrations)
            .finish_non_exhaustive()
    }
}
