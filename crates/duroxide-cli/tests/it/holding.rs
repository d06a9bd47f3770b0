//! Who holds an activity, and how it failed before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide::{
    ActivityContext, ActivityRegistry, BackoffStrategy, Client, OrchestrationContext,
    OrchestrationRegistry, RetryPolicy, Runtime, RuntimeOptions,
};
use tokio::sync::Notify;

use crate::support::{Kind, Store};

/// A runtime `harbour-1` whose activity `press` fails once and then runs until it is released.
async fn harbour(store: &Store, release: Arc<Notify>) -> Arc<Runtime> {
    let has_failed = AtomicBool::new(false);
    let press = move |_: ActivityContext, _: String| {
        let (is_first, released) = (!has_failed.swap(true, Ordering::Relaxed), release.clone());
        async move {
            if is_first {
                return Err("jammed".to_owned());
            }
            released.notified().await;
            Ok(String::new())
        }
    };
    let presses = |ctx: OrchestrationContext, _: String| async move {
        let policy = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
        ctx.schedule_activity_with_retry("press", "apples", policy)
            .await
    };
    Runtime::start_with_options(
        store.open().await,
        ActivityRegistry::builder().register("press", press).build(),
        OrchestrationRegistry::builder()
            .register("presses", presses)
            .build(),
        RuntimeOptions {
            worker_node_id: Some("harbour-1".to_owned()),
            node_announce_interval: Some(Duration::from_millis(20)),
            ..RuntimeOptions::default()
        },
    )
    .await
}

/// Waits until the instance is explained with these words.
async fn told(client: &Client, words: &str) {
    let mut wait = tokio::time::interval(Duration::from_millis(10));
    loop {
        wait.tick().await;
        let why = client.explain("i").await;
        if why.is_ok_and(|why| why.to_string().contains(words)) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_that_holds_an_activity_is_named_with_what_failed_before() {
    let store = Store::empty(Kind::Sqlite).await;
    let release = Arc::new(Notify::new());
    let runtime = harbour(&store, release.clone()).await;
    let client = runtime.client();
    client
        .start_orchestration("i", "presses", "")
        .await
        .unwrap();
    let words = "worker harbour-1 holds it, attempt 1, since ";
    tokio::time::timeout(Duration::from_secs(60), told(&client, words))
        .await
        .expect("the worker is named");
    let why = store.tells(&["why", "i"]);
    assert!(why.contains(words), "{why}");
    assert!(why.contains("; failed once before, "), "{why}");
    assert!(why.ends_with(": jammed\n"), "{why}");
    let data = &store.json(&["why", "i"])["waits"][0];
    assert_eq!(data["place"]["worker"], "harbour-1");
    assert!(data["place"]["since_ms"].is_u64(), "{data}");
    assert!(data["place"]["silent_since_ms"].is_null(), "{data}");
    assert_eq!(data["failed_before"]["times"], 1);
    assert_eq!(data["failed_before"]["last_error"], "jammed");
    let nodes = store.shows(&["nodes"]);
    assert!(
        nodes
            .lines()
            .next()
            .is_some_and(|line| line.ends_with(" HOLDS")),
        "{nodes}"
    );
    assert!(nodes.trim_end().ends_with(" 1 1 1"), "{nodes}");
    assert_eq!(
        store.json(&["nodes"])[0]["node"]["holds"][0]["instance_id"],
        "i"
    );
    release.notify_one();
    let ended = client.wait_for_orchestration("i", Duration::from_secs(60));
    ended.await.unwrap();
    runtime.shutdown(None).await;
}
