//! What a client is told of an activity that fails and is tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::client::Wait;
use duroxide::{
    ActivityContext, BackoffStrategy, OrchestrationContext, RetryPolicy, RuntimeOptions,
};
use tokio::sync::Notify;

use crate::support::{World, activities, orchestrations, quick, until};

/// A world with an instance `i` that tries to charge three times, with a pause. Two attempts fail, the third runs until
/// it is released.
async fn charging(pause: BackoffStrategy) -> (World, Arc<Notify>) {
    let (attempts, release) = (AtomicU32::new(0), Arc::new(Notify::new()));
    let released = release.clone();
    let charge = move |_: ActivityContext, _: String| {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let released = released.clone();
        async move {
            if attempt < 3 {
                return Err(format!("no funds\nin try {attempt}"));
            }
            released.notified().await;
            Ok("charged".to_owned())
        }
    };
    let order = move |ctx: OrchestrationContext, _: String| {
        let policy = RetryPolicy::new(3).with_backoff(pause.clone());
        async move {
            ctx.schedule_activity_with_retry("charge", "7 cents", policy)
                .await
        }
    };
    let world = World::with_options(
        activities().register("charge", charge).build(),
        orchestrations().register("order", order).build(),
        RuntimeOptions {
            node_announce_interval: None,
            ..quick()
        },
    )
    .await;
    world.begin("i", "order", "").await;
    (world, release)
}

#[tokio::test]
async fn an_attempt_is_told_with_the_failures_of_those_before_it() {
    let (world, release) = charging(BackoffStrategy::None).await;
    world.claimed_activities(3).await;
    let why = world.client.explain("i").await.unwrap();
    let words = why.to_string();
    assert!(words.contains("; failed 2 times before, last "), "{words}");
    assert!(words.contains(": no funds in try 2\n"), "{words}");
    let [Wait::Activity { failed_before, .. }] = &why.waits[..] else {
        panic!("one activity: {why:?}");
    };
    let failed = failed_before.as_ref().expect("it failed");
    assert_eq!(
        (failed.times, failed.last_error.as_str()),
        (2, "no funds\nin try 2")
    );
    let last = world.history("i").await;
    let last = last.iter().rfind(|event| event.source_event_id.is_some());
    assert_eq!(last.map(|event| event.timestamp_ms), Some(failed.at_ms));
    release.notify_one();
    world.outcome("i").await;
    world.stop().await;
}

#[tokio::test]
async fn a_pause_is_told_with_the_failure_before_it() {
    let delay = Duration::from_secs(3_600);
    let (world, _release) = charging(BackoffStrategy::Fixed { delay }).await;
    let words = "set when activity charge had failed once, ";
    until("the pause is told", async || {
        let why = world.client.explain("i").await;
        why.is_ok_and(|why| why.to_string().contains(words))
    })
    .await;
    world.stop().await;
}
