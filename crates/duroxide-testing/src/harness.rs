//! The real engine on the in-memory store, in virtual time.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::Event;
use duroxide_core::clock::Clock;
use duroxide_core::provider::Provider;
use duroxide_runtime::{Client, OrchestrationStatus};
use duroxide_store::TokioClock;
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;

use crate::determinism::check_determinism;
use crate::sched::Group;
use crate::script::{ActivityCall, Script};
use crate::workers::Workers;

type Panic = Box<dyn Any + Send>;

/// How often nothing can be polled in a row until nothing more will happen at this moment.
const IDLE_LOOKS: u32 = 4;
/// Longer than any test sleeps; nothing wakes up in between to look around.
pub(crate) const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 20);

/// How long nothing is committed until the harness asks whether anything can still happen.
const STILL: Duration = Duration::from_secs(60 * 60 * 24 * 30);

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
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime needs nothing but memory")
        .block_on(test)
}

/// A running engine in virtual time.
pub struct Harness {
    clock: TokioClock,
    pub(crate) workers: Arc<Workers>,
    pub(crate) script: Arc<Script>,
    seed: u64,
    pub(crate) runs: u32,
    /// Polls the workers, and starts those again that die.
    hosts: Vec<JoinHandle<()>>,
    /// What clients do after a time.
    clients: Group,
    panicked: Arc<Mutex<Option<Panic>>>,
    /// How many of them are left.
    later: Arc<AtomicUsize>,
}

impl Harness {
    pub(crate) async fn begin(
        workers: Arc<Workers>,
        script: Arc<Script>,
        clock: TokioClock,
        seed: u64,
    ) -> Self {
        let scheduler = Arc::clone(&workers.scheduler);
        let polls = tokio::spawn(async move { scheduler.run(|| false).await });
        for worker in 0..workers.count() {
            workers.boot(worker).await;
        }
        let raises = tokio::spawn(Arc::clone(&workers).raise_the_dead());
        Self {
            clock,
            clients: workers.scheduler.group(),
            workers,
            script,
            seed,
            runs: 0,
            hosts: vec![polls, raises],
            panicked: Arc::default(),
            later: Arc::default(),
        }
    }

    /// The seed that decides every order.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A client on the store. It survives crashes.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.workers.store))
    }

    /// The store under test, for [`verify_store`](crate::verify_store) and other looks at it.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.workers.store)
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
        self.assert_tree_deterministic(&instance).await;
        status
    }

    /// Every turn of an instance, of its children and of theirs decides the same when it is executed again.
    pub(crate) async fn assert_tree_deterministic(&self, instance: &str) {
        let tree = self.client().get_instance_tree(instance).await;
        let tree = tree.unwrap_or_else(|error| panic!("{error}"));
        for member in &tree.all_ids {
            self.assert_deterministic(member).await;
        }
    }

    /// Waits for an instance's end, through crashes if any were asked for.
    ///
    /// # Panics
    ///
    /// If it does not end within twenty years or 100,000 commits; and if nothing happens for thirty days and nothing
    /// can happen any more: no timer is set, no activity runs, and nothing is to be done [`after`](Self::after) a time.
    /// The panic says what the instance waits for. What a task of the test itself would do later the harness does not
    /// see: wait with [`wait_within`](Self::wait_within) for that.
    pub async fn wait(&mut self, instance: &str) -> OrchestrationStatus {
        self.wait_within(instance, AGES).await
    }

    /// As [`wait`](Self::wait), but not for longer than this, and for all of it, whether or not anything can happen.
    ///
    /// # Panics
    ///
    /// If it does not end in time, or after 100,000 commits, or if what was to be done [`after`](Self::after) a time
    /// panicked.
    pub async fn wait_within(&mut self, instance: &str, limit: Duration) -> OrchestrationStatus {
        let first = self.commits();
        let mut watch = self
            .workers
            .store
            .watch_instance(instance)
            .expect("the in-memory store wakes its watchers");
        let deadline = tokio::time::Instant::now() + limit;
        let mut seen = first;
        loop {
            self.rethrow();
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
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    let why = self.client().explain(instance).await;
                    let why = why.map_or_else(|_| String::new(), |why| why.to_string());
                    panic!("{instance} did not end within {limit:?}; it stands at {status:?}\n{why}")
                }
                () = tokio::time::sleep(STILL), if limit == AGES => {
                    let stands_still = std::mem::replace(&mut seen, self.commits()) == seen;
                    if let (true, Some(why)) = (stands_still, self.stuck(instance).await) {
                        panic!("{instance} cannot end any more: nothing that is left can happen by itself (a task of \
                             the test is not seen; `wait_within` waits for one)\n{why}");
                    }
                }
            }
        }
    }

    /// Lets time pass, with everything that is due in it.
    ///
    /// # Panics
    ///
    /// If what was to be done [`after`](Self::after) a time panicked.
    pub async fn advance(&mut self, by: Duration) {
        tokio::time::sleep(by).await;
        self.settle().await;
    }

    /// Lets everything happen that can happen without time passing.
    ///
    /// # Panics
    ///
    /// As [`advance`](Self::advance).
    pub async fn settle(&mut self) {
        // Timers that are due wake their futures in between, and answers to one future may wake another.
        let mut idle = 0;
        while idle < IDLE_LOOKS {
            tokio::task::yield_now().await;
            if self.workers.scheduler.is_idle() {
                idle += 1
            } else {
                idle = 0
            }
        }
        self.rethrow();
    }

    /// Does something after a time, while the test goes on.
    pub fn after<F, Fut>(&self, delay: Duration, action: F)
    where
        F: FnOnce(Client) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (client, panicked) = (self.client(), Arc::clone(&self.panicked));
        let later = Arc::clone(&self.later);
        later.fetch_add(1, Ordering::Relaxed);
        let acting = AssertUnwindSafe(async move {
            tokio::time::sleep(delay).await;
            action(client).await;
        });
        let job = async move {
            if let Err(panic) = acting.catch_unwind().await {
                *panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
            later.fetch_sub(1, Ordering::Relaxed);
        };
        self.workers.scheduler.spawn(self.clients, Box::pin(job));
    }

    /// Whether something is still to be done after a time.
    pub(crate) fn acts_later(&self) -> bool {
        self.later.load(Ordering::Relaxed) > 0
    }

    /// Panics of what was to be done after a time are panics of the test.
    fn rethrow(&self) {
        let mut panicked = self.panicked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panicked.take() {
            drop(panicked);
            std::panic::resume_unwind(panic);
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
        self.workers
            .store
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
            .workers
            .store
            .as_management_capability()
            .expect("the in-memory store has an administrative half");
        let executions = admin.list_executions(instance).await;
        let mut history = Vec::new();
        for execution in executions.unwrap_or_else(|error| panic!("{error}")) {
            let events = self.workers.store.read_with_execution(instance, execution);
            let events = events.await;
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
        if let Err(report) = check_determinism(&history, &self.workers.code().orchestrations) {
            panic!("{instance} is not deterministic: {report}");
        }
    }

    /// Stops the engine.
    ///
    /// # Panics
    ///
    /// As [`advance`](Self::advance).
    pub async fn stop(self) {
        self.rethrow();
        self.workers.shut_down().await;
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.seed;
            eprintln!("the seed of this harness is {seed}; to run it again: DUROXIDE_SEED={seed}");
        }
        for host in &self.hosts {
            host.abort();
        }
        self.workers.scheduler.clear();
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("seed", &self.seed)
            .field("now_ms", &self.now_ms())
            .field("commits", &self.commits())
            .finish_non_exhaustive()
    }
}
