//! What the steps of programs are made of. In: an operation and its label. Out: a future of what it left in the log.

use std::pin::Pin;
use std::time::Duration;

use duroxide_core::{ActivityOptions, BackoffStrategy, OrchestrationContext, Retry, RetryPolicy};

use crate::program::{
    AWAITED, Job, KEYED, ORCHESTRATION, Op, Order, Program, RARE_WORK, Run, TAG, VERSIONS, WORK,
};

/// What a step left in the log.
type Seen<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// Messages with keys: each is taken once, however often it came, and they keep their order.
pub(crate) async fn keyed(ctx: &OrchestrationContext, life: u32, count: u8) -> String {
    let mut taken = Vec::new();
    for _ in 0..count {
        let message = ctx.receive::<String>(KEYED).await;
        let message = message.unwrap_or_else(|error| error.to_string());
        let own = message.strip_prefix(&format!("{life}-"));
        taken.push(own.map_or_else(|| format!("not for this life: {message}"), str::to_owned));
    }
    format!("keyed {}", taken.join("+"))
}

/// Messages to oneself: each arrives once, and they keep their order.
pub(crate) async fn mail(ctx: &OrchestrationContext, label: &str, count: u8) -> String {
    let queue = format!("mail-{label}");
    let own = ctx.instance_id();
    let mut taken = Vec::new();
    for n in 0..count {
        if ctx.send(&own, &queue, &n).await.is_err() {
            return "an instance that runs takes no messages".to_owned();
        }
    }
    for _ in 0..count {
        let message = ctx.receive::<u8>(&queue).await;
        taken.push(message.map_or_else(|_| "?".to_owned(), |n| n.to_string()));
    }
    taken.join("")
}

/// Schedules an operation at once.
pub(crate) fn begin<'a>(ctx: &'a OrchestrationContext, op: &Op, label: &str) -> Seen<'a> {
    let text = |r: Result<String, String>| r.unwrap_or_else(|_| "err".to_owned());
    let child_of = |program: &Program| {
        let version = Some(VERSIONS[program.version].to_owned());
        let input = Run::new(0, format!("{label}/"), program.clone()).encode();
        (version, input)
    };
    match op {
        Op::Work(job) => work(ctx, WORK, ActivityOptions::new(), label, *job),
        Op::Rare(job) => work(ctx, RARE_WORK, ActivityOptions::new(), label, *job),
        Op::Tagged(job) => work(ctx, WORK, ActivityOptions::new().with_tag(TAG), label, *job),
        Op::OnSession(n, job) => {
            let session = ActivityOptions::new().on_session(format!("session-{n}"));
            work(ctx, WORK, session, label, *job)
        }
        Op::Timer(ms) => {
            let timer = ctx.schedule_timer(Duration::from_millis((*ms).into()));
            Box::pin(timer.map(|()| "fired".to_owned()))
        }
        Op::Signal => Box::pin(ctx.schedule_wait(format!("s-{label}"))),
        Op::Child(program) => {
            let (version, input) = child_of(program);
            let child = ctx.schedule_sub_orchestration_versioned(ORCHESTRATION, version, input);
            Box::pin(child.map(text))
        }
        Op::NamedChild(program) => {
            let (version, input) = child_of(program);
            let id = format!("{}-child-{}-{label}", ctx.instance_id(), ctx.execution_id());
            let child =
                ctx.schedule_sub_orchestration_versioned_with_id(ORCHESTRATION, version, id, input);
            Box::pin(child.map(text))
        }
        Op::RetriedChild(program, attempts) => {
            let (version, input) = child_of(program);
            let id = format!(
                "{}-retried-{}-{label}",
                ctx.instance_id(),
                ctx.execution_id()
            );
            let policy = Retry::fixed((*attempts).into(), Duration::from_millis(300));
            let child = ctx.child(AWAITED, input).id(id);
            let child = child.version(version.unwrap_or_default()).retry(policy);
            Box::pin(async move { child.await.unwrap_or_else(|_| "err".to_owned()) })
        }
        Op::Collide => {
            let (version, input) = child_of(&Program::default());
            let id = ctx.instance_id();
            let child =
                ctx.schedule_sub_orchestration_versioned_with_id(ORCHESTRATION, version, id, input);
            Box::pin(child.map(text))
        }
        Op::Guid => {
            let guid = ctx.new_guid();
            Box::pin(async move { guid.await.map_or("err", |_| "guid").to_owned() })
        }
        Op::Now => {
            let now = ctx.utc_now();
            Box::pin(async move { now.await.map_or("err", |_| "now").to_owned() })
        }
        Op::InPlace(fails) => {
            let fails = *fails;
            let asked = ctx.run("in-place", move || async move {
                if fails {
                    Err("fails in place".to_owned())
                } else {
                    Ok(7_u32)
                }
            });
            Box::pin(async move {
                let answer: Result<u32, _> = asked.await;
                answer.map_or_else(|_| "err".to_owned(), |number| number.to_string())
            })
        }
    }
}

fn work<'a>(
    ctx: &'a OrchestrationContext,
    name: &'static str,
    options: ActivityOptions,
    label: &str,
    job: Job,
) -> Seen<'a> {
    let text = |r: Result<String, String>| r.unwrap_or_else(|_| "err".to_owned());
    let order = Order {
        label: label.to_owned(),
        job,
    };
    let input = serde_json::to_string(&order).expect("an order is plain data");
    let retried = match job {
        Job::Flaky(times) => Some(RetryPolicy::new(u32::from(times) + 1)),
        Job::Stuck => Some(RetryPolicy::new(1).with_timeout(Duration::from_secs(7))),
        Job::Quick | Job::Slow(_) | Job::Fails | Job::Panics | Job::Beats(_) => None,
    };
    match retried {
        None => {
            let call = ctx.schedule_activity_with_options(name, input, options);
            Box::pin(async move { text(call.await) })
        }
        Some(policy) => {
            let pause = BackoffStrategy::Fixed {
                delay: Duration::from_millis(50),
            };
            let policy = policy.with_backoff(pause);
            let call = ctx.schedule_activity_with_retry_options(name, input, policy, options);
            Box::pin(async move { text(call.await) })
        }
    }
}
