//! Activities that fail and are tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::{
    ActivityContext, ActivityOptions, ActivityRegistry, BackoffStrategy, OrchestrationContext,
    RetryPolicy,
};

use crate::support::{Notes, World, activities, failure, kinds, orchestrations, output};

/// Fails until it was called this often.
fn flaky(succeeds_at: u32) -> (ActivityRegistry, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let registry = activities()
        .register("flaky", move |_: ActivityContext, _| {
            let call = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                if call >= succeeds_at {
                    Ok(call.to_string())
                } else {
                    Err(format!("no {call}"))
                }
            }
        })
        .register("slow", |ctx: ActivityContext, _| async move {
            ctx.cancelled().await;
            Ok(String::new())
        })
        .build();
    (registry, calls)
}

fn quickly(attempts: u32) -> RetryPolicy {
    RetryPolicy::new(attempts).with_backoff(BackoffStrategy::Fixed {
        delay: Duration::from_millis(5),
    })
}

#[tokio::test]
async fn a_failing_activity_is_tried_again_until_it_works() {
    let (registry, calls) = flaky(3);
    let world = World::start(
        registry,
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity_with_retry("flaky", "", quickly(5))
                    .await
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "3");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let kinds = kinds(&world.history("i").await);
    let of = |kind: &str| kinds.iter().filter(|k| *k == kind).count();
    assert_eq!((of("ActivityScheduled"), of("TimerCreated")), (3, 2));
    world.stop().await;
}

#[tokio::test]
async fn the_last_error_is_returned_when_attempts_run_out() {
    let (registry, calls) = flaky(u32::MAX);
    let world = World::start(
        registry,
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity_with_retry("flaky", "", quickly(2))
                    .await
            })
            .register("none", |ctx: OrchestrationContext, _| async move {
                let policy = RetryPolicy {
                    max_attempts: 0,
                    ..quickly(1)
                };
                ctx.schedule_activity_with_retry("flaky", "", policy).await
            })
            .build(),
    )
    .await;
    assert_eq!(failure(&world.run("i", "o", "").await), "no 2");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    // No attempts at all would be no answer at all: at least one is made.
    assert_eq!(failure(&world.run("j", "none", "").await), "no 3");
    world.stop().await;
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_ends_the_retries() {
    let (registry, _) = flaky(1);
    let world = World::start(
        registry,
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let policy = quickly(3).with_timeout(Duration::from_millis(20));
                ctx.schedule_activity_with_retry("slow", "", policy).await
            })
            .build(),
    )
    .await;
    assert_eq!(
        failure(&world.run("i", "o", "").await),
        "timeout: activity timed out"
    );
    let kinds = kinds(&world.history("i").await);
    assert_eq!(kinds[1..3], ["ActivityScheduled", "TimerCreated"]);
    world.stop().await;
}

#[tokio::test]
async fn a_total_timeout_spans_all_attempts_and_waits() {
    let (registry, _) = flaky(u32::MAX);
    let world = World::start(
        registry,
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let options = ActivityOptions::new().with_total_timeout(Duration::from_millis(60));
                let policy = RetryPolicy::new(1_000_000).with_backoff(BackoffStrategy::Fixed {
                    delay: Duration::from_millis(5),
                });
                ctx.schedule_activity_with_retry_options("flaky", "", policy, options)
                    .await
            })
            .build(),
    )
    .await;
    let text = failure(&world.run("i", "o", "").await);
    assert!(
        text.starts_with("timeout: activity 'flaky' did not finish within"),
        "{text}"
    );
    world.stop().await;
}

#[tokio::test]
async fn retries_carry_a_tag_and_a_session() {
    let options = duroxide::RuntimeOptions {
        worker_tag_filter: duroxide::TagFilter::any(),
        ..crate::support::quick()
    };
    let world = World::with_options(
        activities()
            .register("where", |ctx: ActivityContext, _| async move {
                Ok(format!("{:?} {:?}", ctx.tag(), ctx.session_id()))
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let options = ActivityOptions::new().with_tag("gpu").on_session("s");
                ctx.schedule_activity_with_retry_options("where", "", quickly(2), options)
                    .await
            })
            .build(),
        options,
    )
    .await;
    assert_eq!(
        output(&world.run("i", "o", "").await),
        "Some(\"gpu\") Some(\"s\")"
    );
    world.stop().await;
}

#[tokio::test]
async fn the_idempotency_key_is_the_same_in_every_attempt_of_one_call_and_in_no_other() {
    let notes = Notes::default();
    let noted = notes.clone();
    let charge = move |ctx: ActivityContext, input: String| {
        let noted = noted.clone();
        async move {
            let key = format!("{input} {}", ctx.idempotency_key());
            noted.add(key.as_str());
            let attempts = noted.count(&key);
            if attempts < 3 {
                return Err("later".to_owned());
            }
            Ok(ctx.idempotency_key())
        }
    };
    let world = World::start(
        activities().register("charge", charge).build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                // The second input looks like what the engine puts in front of one.
                let inputs = ["5 cents", "duroxide:attempt-of:9:5 cents"];
                let calls =
                    inputs.map(|i| ctx.schedule_activity_with_retry("charge", i, quickly(3)));
                let keys: Result<Vec<_>, _> = ctx.join(calls.into()).await.into_iter().collect();
                Ok(keys?.join(" "))
            })
            .build(),
    )
    .await;
    let status = world.run("order", "o", "").await;
    assert_eq!(output(&status), "order/1/2 order/1/3");
    assert_eq!(notes.count("5 cents order/1/2"), 3);
    assert_eq!(notes.count("duroxide:attempt-of:9:5 cents order/1/3"), 3);
    world.stop().await;
}
