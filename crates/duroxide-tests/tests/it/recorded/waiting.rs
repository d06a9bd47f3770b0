//! Timers, signals and queues.

use std::time::Duration;

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

use super::Step::{Pass, Post, Raise};
use super::{Case, HOUR, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("timers", ""),
    case("timer_open", "").steps(&[Pass(SECOND)]).stays_open(),
    case("signals", "").steps(&[
        Pass(SECOND),
        Raise("go", "one"),
        Raise("go", "two"),
        Pass(SECOND),
        Raise("typed", "[3,4]"),
    ]),
    case("signal_nobody_waits", "").steps(&[
        Raise("late", "too early"),
        Pass(SECOND),
        Raise("other", "nobody waits"),
        Pass(SECOND),
        Raise("go", "in time"),
        Raise("late", "found its wait"),
    ]),
    case("signal_malformed", "").steps(&[Pass(SECOND), Raise("typed", "no pair")]),
    case("queue_in_order", "").steps(&[
        Pass(SECOND),
        Post("inbox", "1"),
        Post("inbox", "2"),
        Post("other", "9"),
        Pass(SECOND),
        Post("inbox", "3"),
    ]),
    case("queue_dropped_reader", "").steps(&[
        Pass(SECOND),
        Post("inbox", "m0"),
        Post("inbox", "m1"),
        Post("inbox", "m2"),
    ]),
    case("queue_backlog", "").steps(&[
        Pass(SECOND),
        Post("inbox", "1"),
        Post("inbox", "2"),
        Post("inbox", "3"),
        Post("inbox", "4"),
        Raise("go", ""),
    ]),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("timers", timers)
        .register("timer_open", timer_open)
        .register("signals", signals)
        .register("signal_nobody_waits", nobody_waits)
        .register("signal_malformed", malformed)
        .register("queue_in_order", in_order)
        .register("queue_dropped_reader", dropped_reader)
        .register("queue_backlog", backlog)
}

async fn timers(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_timer(SECOND).await;
    ctx.schedule_timer(Duration::ZERO).await;
    let (long, short) = (ctx.schedule_timer(HOUR), ctx.schedule_timer(SECOND));
    short.await;
    long.await;
    Ok("an hour later".into())
}

async fn timer_open(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_timer(HOUR).await;
    Ok("rang".into())
}

async fn signals(ctx: OrchestrationContext, _: String) -> Outcome {
    let (first, second) = (ctx.schedule_wait("go"), ctx.schedule_wait("go"));
    let late = second.await;
    let early = first.await;
    let (a, b): (i64, i64) = ctx.schedule_wait_typed("typed").await;
    Ok(format!("{early}, {late}, {}", a + b))
}

async fn nobody_waits(ctx: OrchestrationContext, _: String) -> Outcome {
    let go = ctx.schedule_wait("go").await;
    Ok(format!("{go}, {}", ctx.schedule_wait("late").await))
}

async fn malformed(ctx: OrchestrationContext, _: String) -> Outcome {
    let pair = ctx.try_schedule_wait_typed::<(i64, i64)>("typed").await;
    Ok(pair.map_or_else(|_| "malformed".into(), |(a, b)| (a + b).to_string()))
}

async fn in_order(ctx: OrchestrationContext, _: String) -> Outcome {
    let mut read = Vec::new();
    for _ in 0..2 {
        read.push(ctx.dequeue_event("inbox").await);
    }
    read.push(ctx.dequeue_event("other").await);
    let last: u64 = ctx.dequeue_event_typed("inbox").await;
    read.push(last.to_string());
    Ok(read.join(","))
}

/// A dropped reader hands its message to the next one.
async fn dropped_reader(ctx: OrchestrationContext, _: String) -> Outcome {
    let older = ctx.dequeue_event("inbox");
    let newer = ctx.dequeue_event("inbox").await;
    drop(older);
    let next = ctx.dequeue_event("inbox").await;
    let last = ctx.dequeue_event("inbox").await;
    Ok([newer, next, last].join(","))
}

/// Messages that came before anybody read are read in one turn.
async fn backlog(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_wait("go").await;
    let mut read = String::new();
    for _ in 0..4 {
        read += &ctx.dequeue_event("inbox").await;
    }
    Ok(read)
}
