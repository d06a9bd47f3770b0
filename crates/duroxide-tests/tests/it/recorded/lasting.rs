//! What outlives something: a request its execution, work a request to cancel, children their parent, a call its
//! attempts.

use std::time::Duration;

use duroxide::{
    ActivityRef, OrchestrationContext, OrchestrationRef, OrchestrationRegistryBuilder, ParentClose,
    Request, Retry, Saga,
};

use super::Step::{Cancel, Pass, Post};
use super::{Case, HOUR, MINUTE, Outcome, SECOND, case};

const QUARTER: Duration = Duration::from_millis(250);
const ECHO: ActivityRef<String, String> = ActivityRef::new("echo");
pub(super) const HANDED_ON: OrchestrationRef<Option<Request<u64, String>>, String> =
    OrchestrationRef::new("typed_request_handed_on");
const SLEEPER: OrchestrationRef<String, String> = OrchestrationRef::new("sleeper");
pub(super) const THIRD_TIME: OrchestrationRef<String, String> =
    OrchestrationRef::new("third_time_by_its_id");

pub(super) const CASES: &[Case] = &[
    case("typed_request_handed_on", "null").steps(&[
        Pass(SECOND),
        Post(
            "duroxide:ask:ask",
            r#"duroxide:key:1:a{"ask":"a","request":"7"}"#,
        ),
        Pass(SECOND),
        Post(
            "duroxide:ask:ask",
            r#"duroxide:key:1:a{"ask":"a","request":"7"}"#,
        ),
    ]),
    case("typed_saga_undone_by_a_request", "x").steps(&[Pass(QUARTER), Cancel("no more need")]),
    case("typed_shielded", "x").steps(&[Pass(QUARTER), Cancel("too slow")]),
    case("typed_shields_in_a_saga", "x").steps(&[Pass(QUARTER), Cancel("too dear")]),
    case("typed_shielded_last_step", "x").steps(&[Pass(QUARTER), Cancel("too late")]),
    case("typed_saga_in_a_saga", "x").steps(&[Pass(QUARTER), Cancel("no trip")]),
    case("typed_saga_in_a_shield", "x").steps(&[Pass(QUARTER), Cancel("in vain")]),
    case("typed_children_of_a_parent_that_returns", "x"),
    case("typed_child_retried", "x"),
    case("typed_in_place_limited", ""),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register_typed("typed_request_handed_on", handed_on)
        .register("typed_saga_undone_by_a_request", saga_undone_by_a_request)
        .register("typed_shielded", shielded)
        .register("typed_shields_in_a_saga", shields_in_a_saga)
        .register("typed_shielded_last_step", shielded_last_step)
        .register("typed_saga_in_a_saga", saga_in_a_saga)
        .register("typed_saga_in_a_shield", saga_in_a_shield)
        .register(
            "typed_children_of_a_parent_that_returns",
            children_of_a_parent_that_returns,
        )
        .register("typed_child_retried", child_retried)
        .register("third_time_by_its_id", third_time)
        .register("typed_in_place_limited", in_place_limited)
}

/// Takes a request and leaves the reply to its next execution.
pub(super) async fn handed_on(
    ctx: OrchestrationContext,
    open: Option<Request<u64, String>>,
) -> Outcome {
    let mut requests = ctx.requests::<u64, String>("ask");
    let Some(request) = open else {
        let request = requests.next().await;
        ctx.sleep(SECOND / 2).await;
        return ctx.continue_with(HANDED_ON, Some(request)).await;
    };
    let answer = format!("{} in execution {}", request.value(), ctx.execution_id());
    ctx.reply(request, &answer);
    // One that was answered is not taken again.
    let again = ctx.timeout(MINUTE, requests.next()).await;
    Ok(format!("{answer}, then {}", again.is_ok()))
}

async fn saga_undone_by_a_request(ctx: OrchestrationContext, _: String) -> Outcome {
    let saga = ctx.saga();
    let steps = async {
        for step in ["one", "two"] {
            ctx.call(ECHO, step).await?;
            saga.undo(ECHO, format!("undo {step}"));
        }
        ctx.sleep(HOUR).await;
        Ok::<String, String>("late".to_owned())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

/// The request comes while the work is shielded; the group behind it ends with it at once.
async fn shielded(ctx: OrchestrationContext, input: String) -> Outcome {
    let work = async {
        ctx.sleep(SECOND).await;
        ctx.call(ECHO, &input).await
    };
    let done = ctx.shield(work).await?;
    let rest = ctx.cancellable(ctx.sleep(HOUR)).await;
    let rest = rest.expect_err("it was asked for meanwhile");
    Ok(format!("{done}, {rest}, {:?}", ctx.cancel_reason()))
}

/// A step that takes a second, and what undoes it.
async fn slow_step(ctx: &OrchestrationContext, saga: &Saga, step: &str) -> Result<(), String> {
    let work = async {
        ctx.sleep(SECOND).await;
        ctx.call(ECHO, step).await
    };
    let done = ctx.shield(work).await?;
    saga.undo(ECHO, format!("undo {done}"));
    Ok(())
}

/// The first step is finished and undone; the shield of the second one keeps the request away no longer.
async fn shields_in_a_saga(ctx: OrchestrationContext, _: String) -> Outcome {
    let saga = ctx.saga();
    let steps = async {
        slow_step(&ctx, &saga, "one").await?;
        slow_step(&ctx, &saga, "two").await?;
        Ok::<String, String>("all".to_owned())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

/// The request comes during the only step: it is finished, and undone.
async fn shielded_last_step(ctx: OrchestrationContext, _: String) -> Outcome {
    let saga = ctx.saga();
    let steps = async {
        slow_step(&ctx, &saga, "one").await?;
        Ok::<String, String>("all".to_owned())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

/// The inner one is undone to its end before the outer one is.
async fn saga_in_a_saga(ctx: OrchestrationContext, _: String) -> Outcome {
    let (outer, inner) = (ctx.saga(), ctx.saga());
    let steps = async {
        ctx.call(ECHO, "outer").await?;
        outer.undo(ECHO, "undo outer");
        let within = async {
            ctx.call(ECHO, "inner").await?;
            inner.undo(ECHO, "undo inner");
            ctx.sleep(HOUR).await;
            Ok::<String, String>("late".to_owned())
        };
        inner.run(within).await.map_err(|error| error.to_string())
    };
    outer.run(steps).await.map_err(|error| error.to_string())
}

/// A request does not touch a saga that is shielded as a whole.
async fn saga_in_a_shield(ctx: OrchestrationContext, _: String) -> Outcome {
    let saga = ctx.saga();
    let steps = async {
        ctx.call(ECHO, "one").await?;
        saga.undo(ECHO, "undo one");
        ctx.sleep(SECOND).await;
        Ok::<String, String>(ctx.call(ECHO, "two").await?)
    };
    let all = ctx.shield(saga.run(steps)).await;
    all.map_err(|error| error.to_string())
}

async fn children_of_a_parent_that_returns(ctx: OrchestrationContext, input: String) -> Outcome {
    let close = |id: &str, what| ctx.child(SLEEPER, &input).id(id).on_parent_close(what);
    let _open = [
        close("asked", ParentClose::Request),
        close("terminated", ParentClose::Cancel),
        close("left alone", ParentClose::Abandon),
    ];
    ctx.sleep(SECOND).await;
    Ok("done".to_owned())
}

/// Its id tells which attempt it is.
async fn third_time(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.sleep(SECOND).await;
    let id = ctx.instance_id();
    if id.ends_with("~3") {
        Ok(format!("{id} made it"))
    } else {
        Err(format!("{id} did not"))
    }
}

async fn child_retried(ctx: OrchestrationContext, input: String) -> Outcome {
    let chosen = ctx
        .child(THIRD_TIME, &input)
        .id("chosen")
        .retry(Retry::fixed(3, MINUTE))
        .await?;
    let generated = ctx
        .child(THIRD_TIME, &input)
        .retry(Retry::fixed(2, SECOND).jitter(0.5).total(HOUR))
        .await;
    Ok(format!("{chosen}, {generated:?}"))
}

async fn in_place_limited(ctx: OrchestrationContext, _: String) -> Outcome {
    let hangs = ctx
        .run("hangs", std::future::pending::<Result<String, String>>)
        .timeout(SECOND)
        .retry(Retry::fixed(2, SECOND))
        .schedule_to_close(HOUR);
    Ok(format!("{:?}", hangs.await))
}
