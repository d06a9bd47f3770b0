//! Programs as data: what the generated orchestrations do, and the one handler that runs them all.
//!
//! Every operation has a label, its path in the program, so that it can be recognised whatever its event id is.
//! Everything the program sees goes into its output, so that two runs that differ in anything differ in the output.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    BackoffStrategy, OrchestrationContext, OrchestrationHandler, OrchestrationRef, RetryPolicy,
};
use futures::StreamExt;
use futures::future::{join_all, select_all};
use futures::stream::FuturesUnordered;

use crate::history::EPOCH_MS;
use crate::world::handler;

/// A durable operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Activity,
    Tagged,
    OnSession,
    Surfaced,
    /// Up to three attempts.
    Retried,
    Timer,
    /// A signal; 0 means a name of its own.
    Wait(u8),
    /// A queue; 0 means a name of its own.
    Dequeue(u8),
    Child,
    NamedChild,
    /// Up to three children.
    RetriedChild,
    Guid,
    Now,
    ForeignKv,
}

/// Who joins branches.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Joiner {
    Context,
    JoinAll,
    Unordered,
}

/// One step of a program.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Await(Op),
    Hold(Op),
    Claim(u8),
    Drop(u8),
    Race(Op, Op),
    RaceMany(Vec<Op>),
    RaceHeld(u8, Op),
    Join(Vec<Op>),
    JoinBranches(Joiner, Vec<Vec<Step>>),
    RaceBranches(Vec<Step>, Vec<Step>),
    If(Vec<Step>, Vec<Step>),
    Retry,
    Detach,
    KvAdd(u8),
    KvClear(u8),
    KvClearAll,
    KvPrune(u8),
    Status,
    ResetStatus,
    BreakLimit,
    Continue,
    Return,
    Fail,
    Panic,
}

type Held<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;
type Running<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// The handler that runs a program.
pub(crate) fn interpreter(program: Vec<Step>) -> Arc<dyn OrchestrationHandler> {
    let program = Arc::new(program);
    handler(move |ctx, input| {
        let program = Arc::clone(&program);
        async move {
            let log = run(&ctx, "p".into(), &program).await?;
            Ok(format!("{input}:{log}"))
        }
    })
}

/// A number that depends on a label alone.
pub(crate) fn hash(label: &str) -> u64 {
    let fold = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    label.bytes().fold(0xcbf2_9ce4_8422_2325, fold) >> 7
}

fn begin(ctx: &OrchestrationContext, op: Op, label: String) -> Held<'_> {
    let execution = ctx.execution_id();
    let text = |r: Result<String, String>| r.unwrap_or_else(|e| format!("err({e})"));
    let name = |kind: &str, shared: u8| match shared {
        0 => format!("{kind}-{label}"),
        n => format!("{kind}{n}"),
    };
    match op {
        Op::Activity => Box::pin(ctx.schedule_activity("A", label).map(text)),
        Op::Tagged => {
            let work = ctx.schedule_activity("T", label).with_tag("gpu");
            Box::pin(work.map(text))
        }
        Op::OnSession => Box::pin(ctx.schedule_activity_on_session("S", label, "se").map(text)),
        Op::Surfaced => {
            let work = ctx.schedule_activity("P", label).surface_system_failures();
            Box::pin(work.map(text))
        }
        Op::Retried => {
            let attempts = ctx.schedule_activity_with_retry("R", label, policy());
            Box::pin(async move { text(attempts.await) })
        }
        Op::Timer => {
            let delay = Duration::from_millis(hash(&label) % 5_000);
            Box::pin(ctx.schedule_timer(delay).map(|()| "fired".into()))
        }
        Op::Wait(n) => Box::pin(ctx.schedule_wait(name("w", n))),
        Op::Dequeue(n) => Box::pin(ctx.dequeue_event(name("q", n))),
        Op::Child => Box::pin(ctx.schedule_sub_orchestration("C", label).map(text)),
        Op::NamedChild => {
            let id = format!("child-{execution}-{label}");
            let version = Some("2.0.0".to_owned());
            let child = ctx.schedule_sub_orchestration_versioned_with_id("C", version, id, label);
            Box::pin(child.map(text))
        }
        Op::RetriedChild => {
            const C: OrchestrationRef<String, String> = OrchestrationRef::new("C");
            let child = ctx.child(C, &label).retry(policy());
            // With an id of its own, or with those of the engine.
            let child = if hash(&label).is_multiple_of(2) {
                child.id(format!("again-{execution}-{label}"))
            } else {
                child
            };
            Box::pin(async move { text(child.await.map_err(Into::into)) })
        }
        Op::Guid => {
            let guid = ctx.new_guid();
            Box::pin(async move { text(guid.await) })
        }
        Op::Now => {
            let now = ctx.utc_now();
            Box::pin(async move { format!("{:?}", now.await) })
        }
        Op::ForeignKv => {
            let value = ctx.get_kv_value_from_instance("other", label);
            Box::pin(value.map(|v| format!("{v:?}")))
        }
    }
}

fn policy() -> RetryPolicy {
    RetryPolicy::new(3)
        .with_backoff(BackoffStrategy::Fixed {
            delay: Duration::from_millis(10),
        })
        .with_timeout(Duration::from_secs(5))
}

/// What one branch of a program has so far.
struct Branch<'a> {
    ctx: &'a OrchestrationContext,
    held: Vec<Held<'a>>,
    last: String,
    log: String,
}

/// Runs steps; the path labels their operations.
fn run<'a>(ctx: &'a OrchestrationContext, path: String, steps: &'a [Step]) -> Running<'a> {
    Box::pin(async move {
        let mut branch = Branch {
            ctx,
            held: Vec::new(),
            last: String::new(),
            log: String::new(),
        };
        for (place, step) in steps.iter().enumerate() {
            let label = format!("{path}.{place}");
            let seen = match step {
                Step::Return => return Ok(branch.log),
                Step::Fail => return Err(format!("failed at {label}: {}", branch.log)),
                Step::Panic => panic!("panicked at {label}"),
                _ => branch.step(step, label).await?,
            };
            branch.log.push_str(&seen);
            branch.log.push(';');
            branch.last = seen;
        }
        Ok(branch.log)
    })
}

impl<'a> Branch<'a> {
    async fn step(&mut self, step: &'a Step, label: String) -> Result<String, String> {
        let ctx = self.ctx;
        let start = |op: Op, suffix: &str| begin(ctx, op, format!("{label}{suffix}"));
        Ok(match step {
            Step::Await(op) => start(*op, "").await,
            Step::Hold(op) => {
                self.held.push(start(*op, ""));
                "held".into()
            }
            Step::Claim(n) => match self.take_held(*n) {
                Some(held) => held.await,
                None => "none".into(),
            },
            Step::Drop(n) => {
                drop(self.take_held(*n));
                "dropped".into()
            }
            Step::Race(a, b) => {
                let race = ctx.select2(start(*a, "a"), start(*b, "b"));
                format!("{:?}", race.await.into_tuple())
            }
            Step::RaceMany(ops) => {
                let futures: Vec<Held<'_>> = ops
                    .iter()
                    .enumerate()
                    .map(|(n, op)| start(*op, &format!("m{n}")))
                    .collect();
                if futures.len() > 3 {
                    let (value, place, _rest) = select_all(futures).await;
                    format!("{place}={value}")
                } else if futures.is_empty() {
                    "empty".into()
                } else {
                    format!("{:?}", ctx.select(futures).await)
                }
            }
            Step::RaceHeld(n, op) => {
                let Some(mut held) = self.take_held(*n) else {
                    return Ok("none".into());
                };
                let (place, value) = ctx.select2(&mut held, start(*op, "h")).await.into_tuple();
                if place == 1 {
                    self.held.push(held);
                }
                format!("{place}={value}")
            }
            Step::Join(ops) => {
                let futures = ops
                    .iter()
                    .enumerate()
                    .map(|(n, op)| start(*op, &format!("j{n}")));
                ctx.join(futures.collect::<Vec<_>>()).await.join("+")
            }
            Step::JoinBranches(joiner, branches) => join(ctx, *joiner, branches, &label).await?,
            Step::RaceBranches(a, b) => {
                let a = run(ctx, format!("{label}x"), a);
                let b = run(ctx, format!("{label}y"), b);
                let (place, value) = ctx.select2(a, b).await.into_tuple();
                format!("{place}={}", value?)
            }
            Step::If(then, otherwise) => {
                let chosen = if hash(&self.last).is_multiple_of(2) {
                    then
                } else {
                    otherwise
                };
                run(ctx, format!("{label}i"), chosen).await?
            }
            Step::Retry => start(Op::Retried, "").await,
            other => tell(ctx, other, &label).await,
        })
    }

    fn take_held(&mut self, n: u8) -> Option<Held<'a>> {
        if self.held.is_empty() {
            return None;
        }
        let place = usize::from(n) % self.held.len();
        Some(self.held.remove(place))
    }
}

async fn join(
    ctx: &OrchestrationContext,
    joiner: Joiner,
    branches: &[Vec<Step>],
    label: &str,
) -> Result<String, String> {
    let running = branches
        .iter()
        .enumerate()
        .map(|(n, steps)| run(ctx, format!("{label}b{n}"), steps));
    let results: Vec<Result<String, String>> = match joiner {
        Joiner::Context => ctx.join(running.collect()).await,
        Joiner::JoinAll => join_all(running).await,
        Joiner::Unordered => {
            let mut results: Vec<_> = running.collect::<FuturesUnordered<_>>().collect().await;
            // The order of completion is that of the arrivals; sorted, it is not part of the result.
            results.sort();
            results
        }
    };
    let texts: Result<Vec<String>, String> = results.into_iter().collect();
    Ok(format!("[{}]", texts?.join("|")))
}

/// Steps that ask for nothing back.
async fn tell(ctx: &OrchestrationContext, step: &Step, label: &str) -> String {
    match step {
        Step::Detach => {
            let id = format!("detached-{}-{label}", ctx.execution_id());
            ctx.schedule_orchestration("D", id, label);
            "detached".into()
        }
        Step::KvAdd(n) => {
            let key = format!("k{n}");
            let old: u64 = ctx
                .get_kv_value(&key)
                .map_or(0, |v| v.parse().expect("the program wrote it"));
            ctx.set_kv_value(&key, (old + 1).to_string());
            format!("{key}={old}/{}", ctx.get_kv_length())
        }
        Step::KvClear(n) => {
            ctx.clear_kv_value(format!("k{n}"));
            format!("{:?}", ctx.get_kv_all_keys())
        }
        Step::KvClearAll => {
            ctx.clear_all_kv_values();
            "cleared".into()
        }
        Step::KvPrune(n) => {
            let cutoff = EPOCH_MS + u64::from(*n) * 1_000 + 1;
            format!("pruned {}", ctx.prune_kv_values_updated_before(cutoff))
        }
        Step::Status => {
            let old = ctx.get_custom_status();
            ctx.set_custom_status(label);
            format!("{old:?}")
        }
        Step::ResetStatus => {
            ctx.reset_custom_status();
            "reset".into()
        }
        Step::BreakLimit => {
            drop(ctx.schedule_activity("A", label).with_tag("t".repeat(300)));
            "broken".into()
        }
        Step::Continue if ctx.execution_id() < 3 => {
            let next = ctx.continue_as_new(format!("from {label}")).await;
            format!("{next:?}")
        }
        _ => "stayed".into(),
    }
}
