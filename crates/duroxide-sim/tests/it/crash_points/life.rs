//! One run with one crash. In: a workload, a store, the call at which the process dies. Out: what is wrong in the end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide_core::clock::ClockRef;
use duroxide_core::provider::{Provider, ProviderError};
use duroxide_runtime::Client;
use duroxide_runtime::observability::{Layer, Layered};
use duroxide_sim::check::{Scene, check};
use duroxide_sim::client::RootClient;
use duroxide_sim::node::{self, Skewed};
use duroxide_sim::plan::{Code, NodePlan, Plan, Rates, RootPlan};
use duroxide_sim::rng::Rng;
use duroxide_sim::sim::Sim;
use duroxide_sqlite::{SqliteOptions, SqliteProvider};
use duroxide_store::memory::MemoryStore;
use duroxide_store::redb::{RedbOptions, RedbProvider};
use duroxide_store::{StoreClock, StoreProvider};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    Sqlite,
    Redb,
}

/// The call at which the process dies, and whether the call still reaches the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) call: u64,
    pub(super) after: bool,
}

/// What came of a run.
pub(super) struct Ran {
    pub(super) has_died: bool,
    pub(super) violations: Vec<String>,
}

/// The calls of a process, up to its death.
#[derive(Debug)]
struct Fate {
    point: Point,
    calls: AtomicU64,
    has_died: AtomicBool,
}

/// The way of a process to its store.
#[derive(Debug)]
struct Doomed(Arc<Fate>);

impl Layer for Doomed {
    async fn around<T: Send>(
        &self,
        _operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        if self.0.has_died.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let number = self.0.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if number != self.0.point.call {
            return call.await;
        }
        if self.0.point.after {
            let _unheard = call.await;
        }
        self.0.has_died.store(true, Ordering::SeqCst);
        std::future::pending().await
    }
}

/// Runs a workload with one crash.
pub(super) fn run(workload: &RootPlan, kind: Kind, point: Point) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        // Files are written in real time.
        .start_paused(kind == Kind::Memory)
        .build()
        .expect("a runtime without threads can always be built");
    runtime.block_on(live(workload, kind, point))
}

async fn live(workload: &RootPlan, kind: Kind, point: Point) -> Ran {
    let sim = Sim::new(Rng::new(point.call), Rates::default(), false);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let store = open(kind, &sim, folder.path()).await;
    let fate = Arc::new(Fate {
        point,
        calls: AtomicU64::new(0),
        has_died: AtomicBool::new(false),
    });
    let client = Arc::new(RootClient {
        sim: Arc::clone(&sim),
        client: Client::new(Arc::clone(&store)),
        store: Arc::clone(&store),
        plan: workload.clone(),
        lives: Mutex::default(),
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let is_done = Arc::new(AtomicBool::new(false));
    let direct = {
        let (sim, store, client) = (Arc::clone(&sim), Arc::clone(&store), Arc::clone(&client));
        let (fate, is_over, is_done) = (
            Arc::clone(&fate),
            Arc::clone(&is_over),
            Arc::clone(&is_done),
        );
        async move {
            is_done.store(direct(&sim, &store, client, &fate).await, Ordering::SeqCst);
            is_over.store(true, Ordering::SeqCst);
        }
    };
    let group = sim.group("world");
    sim.scheduler.spawn(group, Box::pin(direct));
    let over = Arc::clone(&is_over);
    sim.scheduler.run(move || over.load(Ordering::SeqCst)).await;
    sim.scheduler.clear();
    let lives = client.lives.lock().expect("nobody panicked").clone();
    drop(client);
    // What is looked at is what the file holds.
    let store = match kind {
        Kind::Memory => store,
        Kind::Sqlite | Kind::Redb => {
            drop(store);
            open(kind, &sim, folder.path()).await
        }
    };
    let plan = plan(workload);
    let client = Arc::new(RootClient {
        sim: Arc::clone(&sim),
        client: Client::new(Arc::clone(&store)),
        store: Arc::clone(&store),
        plan: workload.clone(),
        lives: Mutex::new(lives),
    });
    let scene = Scene {
        sim: Arc::clone(&sim),
        store,
        clients: vec![client],
        plan,
    };
    check(&scene, is_done.load(Ordering::SeqCst)).await;
    Ran {
        has_died: fate.has_died.load(Ordering::SeqCst),
        violations: sim.violations(),
    }
}

/// How long a run may take; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than any lease.
const AGES: Duration = Duration::from_secs(600);

/// Lives through the crash. Whether everything has come to its end.
async fn direct(
    sim: &Arc<Sim>,
    store: &Arc<dyn Provider>,
    client: Arc<RootClient>,
    fate: &Arc<Fate>,
) -> bool {
    let plan = plan(&client.plan);
    let doomed: Arc<dyn Provider> =
        Arc::new(Layered::around(Arc::clone(store), Doomed(Arc::clone(fate))));
    let first = node::start(sim, doomed, 0, 0, &plan.nodes[0]).await;
    let is_finished = Arc::new(AtomicBool::new(false));
    let finished = Arc::clone(&is_finished);
    let detached = detached(&client);
    let group = sim.group("client");
    sim.scheduler.spawn(
        group,
        Box::pin(async move {
            client.live().await;
            finished.store(true, Ordering::SeqCst);
        }),
    );
    let ends = || is_finished.load(Ordering::SeqCst);
    let dies = || fate.has_died.load(Ordering::SeqCst);
    let first_rest = Rest {
        store,
        detached: &detached,
        ends: &ends,
        gives_up: &dies,
    };
    // The process may also die when the client has what it wanted, and detached work goes on.
    let (last, has_rested) = match first_rest.comes().await {
        is_there if !dies() => (first, is_there),
        _ => {
            sim.scheduler.kill(first.group);
            sim.disturb(0, AGES);
            drop(first);
            sim.jump(AGES);
            let second = node::start(sim, Arc::clone(store), 0, 1, &plan.nodes[0]).await;
            let rest = Rest {
                gives_up: &|| false,
                ..first_rest
            };
            (second, rest.comes().await)
        }
    };
    if ends() && !has_rested {
        sim.violation("the client is done, and the store does not come to rest");
    }
    last.runtime.shutdown(Some(2_000)).await;
    sim.scheduler.kill(last.group);
    has_rested
}

/// The ids that the workload starts detached.
fn detached(client: &RootClient) -> Vec<String> {
    let lives = 0..client.plan.lives.len();
    let labels = lives.flat_map(|life| client.expected(life).detached.into_keys());
    labels.map(|label| format!("d~{label}")).collect()
}

/// What is waited for: the client is done, nothing runs and nothing is queued.
struct Rest<'a> {
    store: &'a Arc<dyn Provider>,
    detached: &'a [String],
    ends: &'a (dyn Fn() -> bool + Sync),
    gives_up: &'a (dyn Fn() -> bool + Sync),
}

impl Rest<'_> {
    /// Whether it comes, in time and before waiting for it is given up.
    async fn comes(&self) -> bool {
        let until = tokio::time::Instant::now() + PATIENCE;
        while !(self.gives_up)() && tokio::time::Instant::now() < until {
            if (self.ends)() && self.is_there().await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        false
    }

    /// A claimed start is in no queue, and its instance does not run before the first turn is committed: what was
    /// started detached must be there as well.
    async fn is_there(&self) -> bool {
        let admin = self.store.as_management_capability();
        let admin = admin.expect("all stores have it");
        let known = admin.list_instances().await.unwrap_or_default();
        let are_born = self.detached.iter().all(|id| known.contains(id));
        let depths = admin.get_queue_depths().await.unwrap_or_default();
        let running = admin.count_running_instances().await.unwrap_or(1);
        are_born && depths.orchestrator_queue + depths.worker_queue == 0 && running == 0
    }
}

fn plan(workload: &RootPlan) -> Plan {
    Plan {
        nodes: vec![NodePlan {
            code: vec![Code::ALL],
            skew_ms: 0,
            slots: 2,
            sticky: 16,
            sessions_max: 2,
            serves_tag: true,
            stable_id: false,
            blocks: false,
            lock_timeout: Duration::from_secs(30),
            worker_lock_timeout: Duration::from_secs(30),
        }],
        roots: vec![workload.clone()],
        nemesis: Vec::new(),
        rates: Rates::default(),
        ..Plan::draw(0)
    }
}

async fn open(kind: Kind, sim: &Arc<Sim>, folder: &Path) -> Arc<dyn Provider> {
    let clock: ClockRef = Arc::new(Skewed {
        sim: Arc::clone(sim),
        skew_ms: 0,
    });
    match kind {
        Kind::Memory => {
            let store = MemoryStore::with_clock(clock);
            Arc::new(StoreProvider::over("memory", store))
        }
        Kind::Sqlite => {
            let url = format!("sqlite:{}", folder.join("store.db").display());
            let options = SqliteOptions {
                clock,
                ..SqliteOptions::default()
            };
            let store = SqliteProvider::new(&url, Some(options)).await;
            Arc::new(store.expect("the file can be opened"))
        }
        Kind::Redb => {
            let options = RedbOptions {
                clock: StoreClock::from(clock),
                ..RedbOptions::default()
            };
            let store = RedbProvider::open_async(folder.join("store.redb"), options).await;
            Arc::new(store.expect("the file can be opened"))
        }
    }
}
