//! Failed instances that are retried: the failed execution, and the one that goes on from a part of it.

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

use super::Step::{Pass, Post, Raise, Retry, RetryFrom};
use super::{Case, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("retried", "").steps(&[
        Pass(SECOND),
        Raise("go", "approved"),
        Pass(SECOND),
        Retry,
        Pass(SECOND),
        Post("inbox", "after the retry"),
    ]),
    // From the failure that the code tolerated: the approval comes again, and is kept until it is awaited.
    case("retried_from_an_earlier_event", "").steps(&[
        Pass(SECOND),
        Raise("go", "approved"),
        Pass(SECOND),
        Post("inbox", "before the retry"),
        RetryFrom(3),
    ]),
    case("retried_with_its_child", "").steps(&[Pass(SECOND), Retry]),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("retried", retried)
        .register("retried_from_an_earlier_event", retried)
        .register("retried_with_its_child", with_child)
        .register("fails_at_first", fails_at_first)
}

async fn retried(ctx: OrchestrationContext, _: String) -> Outcome {
    let tolerated = ctx.schedule_activity("second_time", "a").await;
    let tolerated = tolerated.unwrap_or("without".into());
    let go = ctx.schedule_wait("go").await;
    let (held, needed) = (
        ctx.schedule_activity("hold", ""),
        ctx.schedule_activity("second_time", "b"),
    );
    let needed = needed.await?;
    drop(held);
    let letter = ctx.dequeue_event("inbox").await;
    Ok(format!("{tolerated}, {go}, {needed}, {letter}"))
}

async fn with_child(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_sub_orchestration("fails_at_first", "").await
}

async fn fails_at_first(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_activity("echo", "once").await?;
    ctx.schedule_activity("second_time", "c").await
}
