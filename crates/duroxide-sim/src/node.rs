//! Nodes: real runtimes with real registries, started, shut down, paused and killed. In: what a life of a node has code
//! for. Out: a runtime whose futures the scheduler polls.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::OrchestrationContext;
use duroxide_core::clock::Clock;
use duroxide_core::provider::{Provider, TagFilter};
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{
    ActivityContext, OnDivergence, OrchestrationRegistry, Runtime, RuntimeOptions,
};
use duroxide_store::StoreProvider;

use crate::effects::Effect;
use crate::handler;
use crate::plan::{Code, NodePlan};
use crate::program::{self, BEAT_MS, Job, ORCHESTRATION, Order, RARE_WORK, TAG, VERSIONS, WORK};
use crate::sched::{Group, GroupPoller};
use crate::sim::Sim;
use crate::store::SimStore;

/// The store as all of a run share it.
pub type SharedStore = Arc<StoreProvider<SimStore>>;

/// One run of a node.
#[derive(Debug)]
pub struct NodeRun {
    pub group: Group,
    pub name: String,
    pub runtime: Arc<Runtime>,
}

/// The clock of the run, right or off by something.
#[derive(Debug)]
pub struct Skewed {
    pub sim: Arc<Sim>,
    pub skew_ms: i64,
}

impl Clock for Skewed {
    fn now_ms(&self) -> u64 {
        self.sim.time_ms().saturating_add_signed(self.skew_ms)
    }
}

/// Starts a run of a node on a store, as the node sees it.
pub async fn start(
    sim: &Arc<Sim>,
    store: Arc<dyn Provider>,
    number: usize,
    life: usize,
    plan: &NodePlan,
) -> NodeRun {
    let name = format!("node{number}.{life}");
    let group = sim.group(name.clone());
    let code = plan.code[life.min(plan.code.len() - 1)];
    let code = if sim.healed.is_cancelled() {
        Code::ALL
    } else {
        code
    };
    sim.set_sessions_max(&name, plan.sessions_max);
    sim.note(format_args!("{name} starts with {code:?}"));
    let runtime = Runtime::builder()
        .with_provider(store)
        .with_activities(activities(sim, number, &name, code, plan.serves_tag))
        .with_orchestrations(orchestrations(code))
        .with_options(options(plan, number))
        .with_clock(Arc::new(Skewed {
            sim: Arc::clone(sim),
            skew_ms: plan.skew_ms,
        }))
        .with_poller(Arc::new(GroupPoller {
            scheduler: Arc::clone(&sim.scheduler),
            group,
        }))
        .build()
        .await
        .expect("the options of a simulated node are valid");
    NodeRun {
        group,
        name,
        runtime,
    }
}

fn options(plan: &NodePlan, number: usize) -> RuntimeOptions {
    let tags = if plan.serves_tag {
        TagFilter::default_and([TAG])
    } else {
        TagFilter::DefaultOnly
    };
    RuntimeOptions {
        orchestration_concurrency: plan.slots,
        worker_concurrency: plan.slots,
        orchestrator_lock_timeout: plan.lock_timeout,
        orchestrator_lock_renewal_buffer: plan.lock_timeout / 3,
        worker_lock_timeout: plan.worker_lock_timeout,
        worker_lock_renewal_buffer: plan.worker_lock_timeout / 3,
        sticky_instances_max: plan.sticky,
        max_sessions_per_runtime: plan.sessions_max,
        session_idle_timeout: Duration::from_secs(40),
        session_lock_timeout: Duration::from_secs(10),
        session_lock_renewal_buffer: Duration::from_secs(3),
        worker_tag_filter: tags,
        worker_node_id: plan.stable_id.then(|| format!("node{number}")),
        on_divergence: if plan.blocks {
            OnDivergence::Block
        } else {
            OnDivergence::Fail
        },
        max_attempts: MAX_ATTEMPTS,
        // Announcements carry what differs from run to run: the process and a random id.
        node_announce_interval: None,
        ..RuntimeOptions::default()
    }
}

/// How often something may be tried. A run with very many crashes can use up the default.
pub const MAX_ATTEMPTS: u32 = 20;

/// The orchestrations of a life.
#[must_use]
pub fn orchestrations(code: Code) -> OrchestrationRegistry {
    let mut builder = OrchestrationRegistry::builder();
    for (version, has) in code.versions.into_iter().enumerate() {
        if has {
            let handler = move |ctx: OrchestrationContext, input: String| async move {
                if code.is_broken && ctx.is_replaying() {
                    std::future::pending::<()>().await;
                }
                handler::run(ctx, input, version).await
            };
            builder = builder.register_versioned(ORCHESTRATION, VERSIONS[version], handler);
        }
    }
    builder.build()
}

fn activities(
    sim: &Arc<Sim>,
    node: usize,
    life: &str,
    code: Code,
    serves_tag: bool,
) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder();
    for name in [WORK, RARE_WORK] {
        if name == RARE_WORK && !code.rare_work {
            continue;
        }
        let (sim, life) = (Arc::clone(sim), life.to_owned());
        builder = builder.register(name, move |ctx: ActivityContext, input: String| {
            if ctx.tag().is_some() && !serves_tag {
                sim.violation(format!("{life} runs {input} and does not serve its tag"));
            }
            work(Arc::clone(&sim), (node, life.clone()), ctx, input)
        });
    }
    builder.build()
}

/// Enters the end of a run of an activity, also when it is dropped.
struct Running {
    sim: Arc<Sim>,
    number: usize,
    label: String,
    is_finished: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let now_ms = self.sim.now_ms();
        self.sim.effects.end(self.number, now_ms, self.is_finished);
        let how = if self.is_finished { "done" } else { "given up" };
        self.sim.note(format_args!("activity {} {how}", self.label));
    }
}

/// Goes on from where an earlier attempt said it was, and says how far it is.
async fn beat(sim: &Sim, ctx: &ActivityContext, label: &str, times: u32) {
    let said = loop {
        match ctx.last_heartbeat::<(String, u32)>().await {
            Ok(said) => break said,
            // The store is away.
            Err(_) => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    };
    if let Some(complaint) = sim.effects.hear(label, said.as_ref()) {
        sim.violation(complaint);
    }
    let done = said.map_or(0, |(_, done)| done);
    for beat in done..times {
        tokio::time::sleep(Duration::from_millis(BEAT_MS.into())).await;
        sim.effects.say(label, beat + 1);
        ctx.heartbeat(&(label, beat + 1));
    }
}

async fn work(
    sim: Arc<Sim>,
    (node, life): (usize, String),
    ctx: ActivityContext,
    input: String,
) -> Result<String, String> {
    let order: Order = serde_json::from_str(&input).map_err(|e| format!("not an order: {e}"))?;
    let effect = Effect {
        label: order.label.clone(),
        instance: ctx.instance_id().to_owned(),
        execution: ctx.execution_id(),
        activity: ctx.activity_id(),
        key: format!("{} {}", ctx.idempotency_key(), order.label),
        session: ctx.session_id().map(str::to_owned),
        node,
        life,
        began_ms: sim.now_ms(),
        ended_ms: None,
        is_finished: false,
    };
    let (number, attempt) = sim.effects.begin(effect);
    sim.note(format_args!(
        "activity {} begins, attempt {attempt}",
        order.label
    ));
    let mut running = Running {
        sim,
        number,
        label: order.label.clone(),
        is_finished: false,
    };
    match order.job {
        Job::Beats(times) => beat(&running.sim, &ctx, &order.label, times.into()).await,
        Job::Slow(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
        Job::Stuck => {
            ctx.cancellation_token().cancelled().await;
            return Err("told to end".to_owned());
        }
        Job::Quick | Job::Fails | Job::Panics | Job::Flaky(_) => {}
    }
    running.is_finished = true;
    match order.job {
        Job::Fails => Err("fails".to_owned()),
        // As a panic, without a report on the screen.
        Job::Panics => std::panic::resume_unwind(Box::new("panics".to_owned())),
        Job::Flaky(times) if attempt < usize::from(times) => Err("not yet".to_owned()),
        Job::Quick | Job::Slow(_) | Job::Flaky(_) | Job::Stuck | Job::Beats(_) => {
            Ok(program::answer(&order.label))
        }
    }
}
