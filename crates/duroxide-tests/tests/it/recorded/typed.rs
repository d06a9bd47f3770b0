//! The typed interface: what it records beyond what the published one does. Written by hand, so that the attributes are
//! not needed here.

use std::time::Duration;

use duroxide::{
    ActivityError, ActivityRef, OrchestrationContext, OrchestrationRef,
    OrchestrationRegistryBuilder, ParentClose, Retry,
};

use super::Step::{Pass, Post, Terminate};
use super::{Case, HOUR, MINUTE, Outcome, SECOND, case};

const QUARTER: Duration = Duration::from_millis(250);
const ECHO: ActivityRef<String, String> = ActivityRef::new("echo");
const REFUSE: ActivityRef<String, String> = ActivityRef::new("refuse");
const HOLD: ActivityRef<String, String> = ActivityRef::new("hold");
const CHILD: OrchestrationRef<String, String> =
    OrchestrationRef::new("typed_child").with_version("1.0.0");

const LIMITED: OrchestrationRef<String, String> = OrchestrationRef::new("typed_limited");
const RECEIVER: OrchestrationRef<String, String> = OrchestrationRef::new("typed_receiver");
const REQUESTS: OrchestrationRef<u64, u64> = OrchestrationRef::new("typed_requests");

pub(super) const CASES: &[Case] = &[
    case("typed_call_retried_and_limited", "x"),
    case("typed_worker_timeout", "x"),
    case("typed_in_place", "x"),
    case("typed_child_abandoned", "x"),
    case("typed_children_of_a_terminated_parent", "x").steps(&[Pass(QUARTER), Terminate("enough")]),
    case("typed_saga_undone", "x"),
    case("typed_values", "x"),
    case("typed_patched", "x"),
    case("typed_keyed_messages", "").steps(&[
        Pass(SECOND),
        Post("inbox", "duroxide:key:1:aone"),
        Post("inbox", "duroxide:key:1:aone again"),
        Post("inbox", "duroxide:key:0:duroxide:key:plain"),
        Pass(SECOND),
        Post("inbox", "duroxide:key:1:aone, later"),
        Post("inbox", "two"),
    ]),
    case("typed_send_and_await", "x"),
    case("typed_time_limit", "x"),
    case("typed_request_id", "1").asked_by("click-1"),
    case("typed_requests", "10").steps(&[
        Pass(SECOND),
        Post(
            "duroxide:ask:take",
            r#"duroxide:key:1:a{"ask":"a","request":"3"}"#,
        ),
        Post(
            "duroxide:ask:take",
            r#"duroxide:key:1:a{"ask":"a","request":"3"}"#,
        ),
        Post(
            "duroxide:ask:take",
            r#"duroxide:key:1:b{"ask":"b","request":"300"}"#,
        ),
        Post(
            "duroxide:ask:take",
            r#"duroxide:key:1:c{"ask":"c","request":"no number"}"#,
        ),
        Pass(SECOND),
        Post(
            "duroxide:ask:take",
            r#"duroxide:key:1:d{"ask":"d","request":"7"}"#,
        ),
    ]),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("typed_call_retried_and_limited", retried_and_limited)
        .register("typed_worker_timeout", worker_timeout)
        .register("typed_in_place", in_place)
        .register("typed_child", child)
        .register("typed_child_abandoned", child_abandoned)
        .register("typed_children_of_a_terminated_parent", child_abandoned)
        .register("typed_saga_undone", saga_undone)
        .register("typed_values", values)
        .register("typed_patched", patched)
        .register("typed_keyed_messages", keyed_messages)
        .register("typed_send_and_await", send_and_await)
        .register("typed_receiver", receiver)
        .register("typed_time_limit", time_limit)
        .register("typed_limited", limited)
        .register("typed_request_id", request_id)
        .register_typed("typed_requests", requests)
}

async fn retried_and_limited(ctx: OrchestrationContext, input: String) -> Outcome {
    let call = ctx
        .call(REFUSE, &input)
        .retry(Retry::fixed(2, SECOND).jitter(0.5).total(HOUR))
        .queue_timeout(HOUR);
    let error = call.await.expect_err("it refuses every input");
    Ok(ctx.call(ECHO, error.to_string()).tag("gpu").await?)
}

async fn worker_timeout(ctx: OrchestrationContext, input: String) -> Outcome {
    match ctx.call(HOLD, &input).timeout(SECOND).await {
        Err(ActivityError::TimedOut { which }) => Ok(which.to_string()),
        other => Err(format!("{other:?}")),
    }
}

async fn in_place(ctx: OrchestrationContext, input: String) -> Outcome {
    let loud = ctx
        .run("shout", move || {
            let loud = input.to_uppercase();
            async move { Ok::<String, String>(loud) }
        })
        .await?;
    let refused = ctx
        .run("refuse", || async {
            Err::<String, String>("no".to_owned())
        })
        .retry(Retry::fixed(2, SECOND))
        .await;
    Ok(format!("{loud} {refused:?}"))
}

async fn child(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.sleep(SECOND * 3 / 4).await;
    Ok(input)
}

async fn child_abandoned(ctx: OrchestrationContext, input: String) -> Outcome {
    let abandoned = ctx
        .child(CHILD, &input)
        .id("abandoned")
        .on_parent_close(ParentClose::Abandon);
    let asked = ctx.child(CHILD, &input).id("asked");
    let terminated = ctx
        .child(CHILD, &input)
        .id("terminated")
        .on_parent_close(ParentClose::Cancel);
    ctx.sleep(SECOND / 2).await;
    drop((abandoned, asked, terminated));
    let spawned = ctx.spawn(CHILD, &input).id("spawned");
    Ok(spawned.instance().to_owned())
}

async fn saga_undone(ctx: OrchestrationContext, input: String) -> Outcome {
    let saga = ctx.saga();
    let steps = async {
        for step in ["one", "two"] {
            ctx.call(ECHO, step).await?;
            saga.undo(ECHO, format!("undo {step}"));
        }
        Ok::<String, String>(ctx.call(REFUSE, &input).await?)
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

async fn patched(ctx: OrchestrationContext, input: String) -> Outcome {
    let mut way = String::new();
    for id in ["one", "two", "one"] {
        if ctx.patched(id) {
            way = ctx.call(ECHO, format!("{way}{id} ")).await?;
        }
    }
    Ok(format!("{way}{input}"))
}

async fn values(ctx: OrchestrationContext, _: String) -> Outcome {
    let drawn = format!("{} {} {}", ctx.random(), ctx.random_below(6), ctx.uuid());
    let first = ctx.call(ECHO, &drawn).await?;
    let length = ctx.history_length();
    Ok(ctx
        .call(ECHO, format!("{first} {:?} {length}", ctx.now()))
        .await?)
}

/// Takes one message per execution; the keys go with it.
async fn keyed_messages(ctx: OrchestrationContext, input: String) -> Outcome {
    let taken = ctx.receive::<String>("inbox").await;
    let taken = format!("{input}{};", taken.map_err(|error| error.to_string())?);
    if ctx.execution_id() == 3 {
        return Ok(taken);
    }
    ctx.continue_as_new(taken).await
}

/// Has an execution a minute, and tells how much time is left.
async fn limited(ctx: OrchestrationContext, input: String) -> Outcome {
    let memo: Option<(String, u64)> = ctx.memo()?;
    let left = ctx.deadline().map(|at| at.duration_since(ctx.now()));
    ctx.set_custom_status(format!("{memo:?} {left:?}"));
    let held = ctx.call(HOLD, "x").schedule_to_close(MINUTE).await;
    match held {
        Err(ActivityError::TimedOut { .. }) => ctx.continue_as_new(input).await,
        other => Ok(format!("{other:?}")),
    }
}

async fn time_limit(ctx: OrchestrationContext, input: String) -> Outcome {
    let limit = MINUTE + MINUTE / 2;
    ctx.spawn(LIMITED, &input).id("spawned").timeout(limit);
    let child = ctx.child(LIMITED, &input).timeout(limit);
    let child = child.memo(&("asked by", 7)).await;
    Ok(format!("{child:?}"))
}

async fn receiver(ctx: OrchestrationContext, input: String) -> Outcome {
    let taken = ctx.receive::<String>("inbox").await;
    Ok(format!(
        "{input} {}",
        taken.map_err(|error| error.to_string())?
    ))
}

async fn send_and_await(ctx: OrchestrationContext, input: String) -> Outcome {
    ctx.spawn(RECEIVER, &input).id("receiver");
    let text = |error: duroxide::Undelivered| error.to_string();
    ctx.send("receiver", "inbox", "a letter")
        .await
        .map_err(text)?;
    let nobody = ctx.send("nobody", "inbox", "lost").await;
    let result = ctx.await_instance(RECEIVER, "receiver").await?;
    let late = ctx.send("receiver", "inbox", "late").await;
    Ok(format!("{result}, {nobody:?}, {late:?}"))
}

async fn requests(ctx: OrchestrationContext, left: u64) -> Result<u64, String> {
    let mut left = left;
    let mut requests = ctx.requests::<u64, u64>("take");
    ctx.publish(&left);
    for _ in 0..2 {
        let request = requests.next().await;
        match left.checked_sub(*request.value()) {
            Some(rest) => {
                left = rest;
                ctx.reply(request, &left);
            }
            None => ctx.refuse(request, "too much"),
        }
        if left == 0 {
            return Ok(left);
        }
    }
    ctx.continue_with(REQUESTS, left).await
}

/// Its next execution carries who asked for it, too.
async fn request_id(ctx: OrchestrationContext, round: String) -> Outcome {
    match round.as_str() {
        "1" => ctx.continue_as_new("2").await,
        _ => Ok(round),
    }
}
