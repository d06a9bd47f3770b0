//! Joins, races and their losers.

use duroxide::{Either2, Either3, OrchestrationContext, OrchestrationRegistryBuilder};

use super::Step::{Pass, Post, Raise};
use super::{Case, HOUR, MINUTE, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("join_of_everything", "").steps(&[
        Pass(MINUTE),
        Raise("go", "signal"),
        Pass(SECOND),
        Post("inbox", "message"),
    ]),
    case("select_with_lost_activity", ""),
    case("select_with_lost_wait_and_message", ""),
    case("select_of_many", ""),
    case("ordinary_combinators", ""),
    case("nested_branches", ""),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("join_of_everything", join_of_everything)
        .register("select_with_lost_activity", lost_activity)
        .register("select_with_lost_wait_and_message", lost_waits)
        .register("select_of_many", select_of_many)
        .register("ordinary_combinators", ordinary_combinators)
        .register("nested_branches", nested_branches)
}

async fn join_of_everything(ctx: OrchestrationContext, _: String) -> Outcome {
    let work = async {
        ctx.schedule_timer(SECOND).await;
        ctx.schedule_activity("echo", "activity").await
    };
    let child = async {
        ctx.schedule_timer(SECOND * 2).await;
        ctx.schedule_sub_orchestration("greet", "child").await
    };
    let arrivals = ctx.join2(ctx.schedule_wait("go"), ctx.dequeue_event("inbox"));
    let (work, child, arrivals) = ctx.join3(work, child, arrivals).await;
    Ok(format!("{}, {}, {arrivals:?}", work?, child?))
}

async fn lost_activity(ctx: OrchestrationContext, _: String) -> Outcome {
    let patience = ctx.schedule_timer(SECOND);
    let winner = ctx
        .select2(ctx.schedule_activity("hold", ""), patience)
        .await;
    let Either2::Second(()) = winner else {
        return Err("it answers only when it is cancelled".into());
    };
    ctx.schedule_activity("echo", "went on").await
}

async fn lost_waits(ctx: OrchestrationContext, _: String) -> Outcome {
    let winner = ctx
        .select3(
            ctx.schedule_wait("go"),
            ctx.dequeue_event("inbox"),
            ctx.schedule_timer(SECOND),
        )
        .await;
    match winner {
        Either3::Third(()) => Ok("nobody came".into()),
        Either3::First(data) | Either3::Second(data) => Err(data),
    }
}

async fn select_of_many(ctx: OrchestrationContext, _: String) -> Outcome {
    let timers = (1..=4).rev().map(|n| ctx.schedule_timer(SECOND * n));
    let (winner, ()) = ctx.select(timers.collect()).await;
    Ok(winner.to_string())
}

/// What authors know from elsewhere works with durable futures too.
async fn ordinary_combinators(ctx: OrchestrationContext, _: String) -> Outcome {
    let steps = (1..=40).map(|n| {
        let ctx = ctx.clone();
        async move {
            ctx.schedule_timer(SECOND * n).await;
            n
        }
    });
    let sum: u32 = futures::future::join_all(steps).await.into_iter().sum();
    let loser = ctx.schedule_timer(HOUR);
    let quick = ctx.schedule_timer(SECOND);
    tokio::select! {
        biased;
        () = loser => Err("the longer one won".into()),
        () = quick => Ok(sum.to_string()),
    }
}

async fn nested_branches(ctx: OrchestrationContext, _: String) -> Outcome {
    let branch = |n: u32| {
        let ctx = ctx.clone();
        async move {
            ctx.schedule_timer(SECOND * n).await;
            let inner = ctx.select2(ctx.schedule_timer(SECOND), async {
                ctx.schedule_activity("hold", "").await
            });
            inner.await.is_first()
        }
    };
    let won = ctx.join(vec![branch(1), branch(5)]).await;
    Ok(format!("{won:?}"))
}
