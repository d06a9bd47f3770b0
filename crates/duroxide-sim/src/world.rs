//! A run: nodes, clients, faults, and the end. In: a plan. Out: a report.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderAdmin};
use duroxide_runtime::Client;
use duroxide_runtime::observability::Layered;
use duroxide_store::{MessageQueue, StoreProvider};
use tokio::time::Instant;

use crate::check::{self, Scene};
use crate::client::RootClient;
use crate::faults::Way;
use crate::node::{self, NodeRun, SharedStore};
use crate::plan::{Nemesis, Plan};
use crate::rng::Rng;
use crate::sim::Sim;
use crate::store::SimStore;

/// How long everything may take once nothing goes wrong any more.
const RECOVERY_MAX: Duration = Duration::from_secs(30 * 60);
/// How long what clients do not wait for may take after that.
const SETTLING: Duration = Duration::from_secs(10 * 60);
/// How long after that renewals are made up for.
const SLACK: Duration = Duration::from_secs(3);
/// More polls than any run needs.
const POLLS_MAX: u64 = 3_000_000;

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<String>,
    pub hash: u64,
    pub timeline: Vec<String>,
    pub crashes: u64,
    pub faults: u64,
    pub polls: u64,
    /// Virtual time, in milliseconds.
    pub length_ms: u64,
}

/// Runs a plan. With a timeline to read, or without.
#[must_use]
pub fn run(plan: &Plan, traced: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads can always be built");
    let mut report = Report::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(simulate(plan, traced))
    }));
    match outcome {
        Ok(done) => report = done,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            report
                .violations
                .push(format!("panicked: {}", text.unwrap_or_default()));
        }
    }
    report.seed = plan.seed;
    report
}

async fn simulate(plan: &Plan, traced: bool) -> Report {
    let sim = Sim::new(Rng::new(plan.seed), plan.rates, traced);
    sim.set_work_ms(plan.work_ms());
    let store: SharedStore = Arc::new(StoreProvider::over("sim", SimStore::new(Arc::clone(&sim))));
    let world = Arc::new(World {
        store: Arc::clone(&store),
        clients: clients(&sim, &store, plan),
        plan: plan.clone(),
        nodes: Mutex::default(),
        crashes: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        sim,
    });
    let group = world.sim.group("world");
    let sim = Arc::clone(&world.sim);
    sim.scheduler
        .spawn(group, Box::pin(Arc::clone(&world).direct()));
    let (over, scheduler) = (Arc::clone(&world), Arc::clone(&sim.scheduler));
    let done = move || over.is_over.load(Ordering::Relaxed) || scheduler.polls() > POLLS_MAX;
    sim.scheduler.run(done).await;
    if sim.scheduler.polls() > POLLS_MAX {
        sim.violation(format!("does not settle after {POLLS_MAX} polls"));
    }
    sim.scheduler.clear();
    let (hash, timeline) = sim.timeline();
    Report {
        seed: plan.seed,
        violations: sim.violations(),
        hash,
        timeline,
        crashes: world.crashes.load(Ordering::Relaxed),
        faults: sim.faults(),
        polls: sim.scheduler.polls(),
        length_ms: sim.now_ms(),
    }
}

fn clients(sim: &Arc<Sim>, store: &SharedStore, plan: &Plan) -> Vec<Arc<RootClient>> {
    let clients = plan.roots.iter().map(|root| {
        let way = Way {
            sim: Arc::clone(sim),
            node: plan.nodes.len(),
        };
        let inner: Arc<dyn Provider> = Arc::clone(store) as _;
        Arc::new(RootClient {
            sim: Arc::clone(sim),
            client: Client::new(Arc::new(Layered::around(Arc::clone(&inner), way))),
            store: inner,
            plan: root.clone(),
            lives: Mutex::default(),
        })
    });
    clients.collect()
}

/// Everything of one run.
#[derive(Debug)]
pub struct World {
    pub sim: Arc<Sim>,
    pub store: SharedStore,
    pub clients: Vec<Arc<RootClient>>,
    pub plan: Plan,
    /// Nodes that are up, and how many lives each had.
    nodes: Mutex<BTreeMap<usize, (Option<NodeRun>, usize)>>,
    crashes: AtomicU64,
    is_over: AtomicBool,
}

impl World {
    async fn direct(self: Arc<Self>) {
        for number in 0..self.plan.nodes.len() {
            self.start(number).await;
        }
        let finished = Arc::new(AtomicU64::new(0));
        for client in &self.clients {
            let group = self.sim.group(format!("client {}", client.plan.id));
            let (client, finished) = (Arc::clone(client), Arc::clone(&finished));
            let live = async move {
                client.live().await;
                finished.fetch_add(1, Ordering::Relaxed);
            };
            self.sim.scheduler.spawn(group, Box::pin(live));
        }
        if self.plan.requeues {
            let group = self.sim.group("operator");
            let requeues = Arc::clone(&self).requeue();
            self.sim.scheduler.spawn(group, Box::pin(requeues));
        }
        self.strike().await;
        let all = self.clients.len() as u64;
        let is_done = self
            .within(RECOVERY_MAX, || finished.load(Ordering::Relaxed) == all)
            .await;
        if is_done {
            self.settle().await;
        }
        let scene = Scene {
            sim: Arc::clone(&self.sim),
            store: Arc::clone(&self.store) as _,
            clients: self.clients.clone(),
            plan: self.plan.clone(),
        };
        check::check(&scene, is_done).await;
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Puts dead letters back into their queues. Nothing of that may change what comes of any instance; most are
    /// refused.
    async fn requeue(self: Arc<Self>) {
        let way = Way {
            sim: Arc::clone(&self.sim),
            node: self.plan.nodes.len(),
        };
        let inner: Arc<dyn Provider> = Arc::clone(&self.store) as _;
        let client = Client::new(Arc::new(Layered::around(inner, way)));
        while !self.sim.healed.is_cancelled() {
            tokio::time::sleep(Duration::from_secs(4)).await;
            for letter in client.list_dead_letters(20).await.unwrap_or_default() {
                let requeued = client.requeue_dead_letter(letter.id).await;
                let is_there = requeued.is_ok_and(|done| done);
                self.sim
                    .note(format_args!("requeue {}: {is_there}", letter.id));
            }
        }
    }

    /// Waits for something; whether it came in time.
    async fn within(&self, limit: Duration, is_there: impl Fn() -> bool) -> bool {
        let until = Instant::now() + limit;
        while !is_there() {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        true
    }

    /// Waits until nothing runs and nothing is queued.
    async fn settle(&self) {
        let until = Instant::now() + SETTLING;
        while Instant::now() < until {
            let depths = self.store.get_queue_depths().await.unwrap_or_default();
            let running = self.store.count_running_instances().await.unwrap_or(1);
            let is_idle = self
                .sim
                .leases
                .is_empty(duroxide_core::clock::Clock::now_ms(&self.sim.clock));
            let is_empty = depths.orchestrator_queue == 0 && depths.worker_queue == 0;
            if is_empty && running == 0 && is_idle {
                return;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }

    fn nodes(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, (Option<NodeRun>, usize)>> {
        self.nodes
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn start(&self, number: usize) {
        let life = self.nodes().get(&number).map_or(0, |(_, lives)| *lives);
        let node = &self.plan.nodes[number];
        let way = Way {
            sim: Arc::clone(&self.sim),
            node: number,
        };
        let store: Arc<dyn Provider> = Arc::clone(&self.store) as _;
        let store = Arc::new(Layered::around(store, way));
        let started = node::start(&self.sim, store, number, life, node).await;
        self.nodes().insert(number, (Some(started), life + 1));
    }

    fn take(&self, number: usize) -> Option<NodeRun> {
        self.nodes().get_mut(&number)?.0.take()
    }

    /// Does what the plan says, then lets everything be well.
    async fn strike(self: &Arc<Self>) {
        let began = Instant::now();
        let group = self.sim.group("nemesis");
        for strike in &self.plan.nemesis {
            tokio::time::sleep_until(began + strike.at).await;
            self.sim.note(format_args!("{:?}", strike.what));
            let world = Arc::clone(self);
            let what = strike.what;
            let struck = async move { world.suffer(what).await };
            self.sim.scheduler.spawn(group, Box::pin(struck));
        }
        tokio::time::sleep_until(began + self.plan.heal_at).await;
        self.sim.heal();
        self.sim.note(format_args!("faults stop"));
        let groups: Vec<_> = self
            .nodes()
            .values()
            .filter_map(|(run, _)| run.as_ref().map(|run| run.group))
            .collect();
        for group in groups {
            self.sim.scheduler.resume(group);
        }
    }

    async fn suffer(&self, what: Nemesis) {
        match what {
            Nemesis::Crash { node, down } => {
                let Some(run) = self.take(node) else { return };
                self.crashes.fetch_add(1, Ordering::Relaxed);
                self.sim.scheduler.kill(run.group);
                self.sim.disturb(node, down);
                drop(run);
                self.pause(down).await;
                self.start(node).await;
            }
            Nemesis::Deploy { node, grace, down } => {
                let Some(run) = self.take(node) else { return };
                self.shut_down(node, run, grace).await;
                self.pause(down).await;
                self.start(node).await;
            }
            Nemesis::Pause { node, length } => {
                let group = match self.nodes().get(&node) {
                    Some((Some(run), _)) => run.group,
                    _ => return,
                };
                self.sim.scheduler.pause(group);
                self.sim.disturb(node, length);
                self.pause(length).await;
                self.sim.scheduler.resume(group);
            }
            Nemesis::Partition { node, length } => {
                self.sim.set_partitioned(node, true);
                if length > self.harmless(node) {
                    self.sim.disturb(node, length + SLACK);
                }
                self.pause(length).await;
                self.sim.set_partitioned(node, false);
            }
            Nemesis::Outage { length } => {
                self.sim.set_outage(true);
                for node in 0..self.plan.nodes.len() {
                    if length > self.harmless(node) {
                        self.sim.disturb(node, length + SLACK);
                    }
                }
                self.pause(length).await;
                self.sim.set_outage(false);
            }
        }
    }

    /// A store that is out of reach for no longer costs a node no lease of an activity.
    fn harmless(&self, node: usize) -> Duration {
        self.plan.nodes[node].worker_lock_timeout / 4
    }

    /// Waits, but not longer than faults may last.
    async fn pause(&self, length: Duration) {
        tokio::select! {
            biased;
            () = self.sim.healed.cancelled() => {}
            () = tokio::time::sleep(length) => {}
        }
    }

    /// Shuts a node down as an operator would, and looks at what it still holds.
    async fn shut_down(&self, node: usize, run: NodeRun, grace: Duration) {
        let began_ms = self.sim.now_ms();
        // A node that stands still cannot be asked to shut down.
        self.sim.scheduler.resume(run.group);
        let grace_ms = grace.as_millis() as u64;
        run.runtime.shutdown(Some(grace_ms)).await;
        let took = self.sim.now_ms() - began_ms;
        self.sim.note(format_args!("{} is shut down", run.name));
        if took >= grace_ms - (grace_ms / 4).min(500) {
            // What was still on its way is given up: the last part of the limit is for giving work back.
            self.sim.disturb(node, Duration::ZERO);
        }
        if took > grace_ms + 2_500 {
            self.sim.violation(format!(
                "{} took {took} ms to shut down, grace {grace_ms}",
                run.name
            ));
        }
        // A claim whose giving back failed is left to its lease.
        let plan = &self.plan.nodes[node];
        let longest = plan.lock_timeout.max(plan.worker_lock_timeout).as_millis() as u64;
        let was_well = self
            .sim
            .last_fault_ms(node)
            .is_none_or(|last| last + longest + 500 < began_ms);
        let now_ms = duroxide_core::clock::Clock::now_ms(&self.sim.clock);
        for (token, lease) in self.sim.leases.held_by(&run.name, now_ms) {
            let stored = self.store.store().inner().lease(&token).await;
            let is_valid = stored.is_ok_and(|lease| lease.is_some_and(|lease| lease.valid));
            if was_well && is_valid {
                self.sim.violation(format!(
                    "{} is shut down and still holds {}",
                    run.name, lease.subject
                ));
            }
        }
        self.sim.scheduler.kill(run.group);
    }
}
