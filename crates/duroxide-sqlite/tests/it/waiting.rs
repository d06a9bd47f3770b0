//! Waiting: woken by commits, by due times and by other processes, and never longer than allowed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide_core::provider::{Provider, TagFilter};
use duroxide_sqlite::SqliteProvider;

use crate::support::*;

const LONG: Duration = Duration::from_secs(30);
/// Far below `LONG`, far above what a loaded machine needs: only a lost wake-up takes longer.
const SOON: Duration = Duration::from_secs(10);

async fn memory() -> Arc<SqliteProvider> {
    Arc::new(SqliteProvider::new_in_memory().await.unwrap())
}

#[tokio::test]
async fn a_commit_wakes_a_claim_of_turns() {
    let store = memory().await;
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.fetch_orchestration_item(LEASE, LONG, None).await }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    send(&*store, start("a")).await;
    let found = waiting.await.unwrap().unwrap();
    assert_eq!(found.unwrap().0.instance, "a");
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn no_wake_up_is_lost_over_many_rounds() {
    let store = memory().await;
    let consumer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for _ in 0..300 {
                let (_, token, _) = store
                    .fetch_work_item(LEASE, LONG, None, &TagFilter::DefaultOnly)
                    .await
                    .unwrap()
                    .expect("an item within the time");
                store.ack_work_item(&token, None).await.unwrap();
            }
        }
    });
    let began = Instant::now();
    for id in 1..=300 {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
        if id % 3 == 0 {
            tokio::task::yield_now().await;
        }
    }
    consumer.await.unwrap();
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn an_empty_queue_is_waited_for_as_long_as_allowed_and_not_longer() {
    let store = memory().await;
    let poll = Duration::from_millis(300);
    let began = Instant::now();
    let turn = store.fetch_orchestration_item(LEASE, poll, None).await;
    assert!(turn.unwrap().is_none());
    let waited = began.elapsed();
    assert!(waited >= poll, "{waited:?}");
    assert!(waited < poll + Duration::from_secs(2), "{waited:?}");
}

#[tokio::test]
async fn a_timer_wakes_at_its_due_time() {
    let store = memory().await;
    create(store.as_ref(), "a").await;
    let delay = Duration::from_millis(250);
    let began = Instant::now();
    store
        .enqueue_for_orchestrator(raised("a", "late"), Some(delay))
        .await
        .unwrap();
    let found = store.fetch_orchestration_item(LEASE, LONG, None).await;
    assert!(found.unwrap().is_some());
    let waited = began.elapsed();
    assert!(waited >= delay - Duration::from_millis(2), "{waited:?}");
    assert!(waited < SOON, "{waited:?}");
}

#[tokio::test]
async fn a_sooner_due_time_wakes_a_claim_that_waits_for_a_later_one() {
    let store = memory().await;
    create(store.as_ref(), "a").await;
    store
        .enqueue_for_orchestrator(raised("a", "much later"), Some(LONG * 10))
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.fetch_orchestration_item(LEASE, LONG, None).await }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    store
        .enqueue_for_orchestrator(raised("a", "soon"), Some(Duration::from_millis(100)))
        .await
        .unwrap();
    assert!(waiting.await.unwrap().unwrap().is_some());
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn an_expired_lease_wakes_the_next_holder() {
    let store = memory().await;
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    let short = Duration::from_millis(200);
    store
        .fetch_work_item(short, NO_WAIT, None, &TagFilter::Any)
        .await
        .unwrap()
        .unwrap();
    let began = Instant::now();
    let (_, _, attempts) = store
        .fetch_work_item(LEASE, LONG, None, &TagFilter::Any)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(attempts, 2);
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn a_clock_moved_by_hand_is_noticed_by_a_waiting_claim() {
    let (store, clock) = store_with_clock().await;
    let store = Arc::new(store);
    create(store.as_ref(), "a").await;
    store
        .enqueue_for_orchestrator(raised("a", "x"), Some(Duration::from_secs(3600)))
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.fetch_orchestration_item(LEASE, LONG, None).await }
    });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_secs(3600));
    let began = Instant::now();
    assert!(waiting.await.unwrap().unwrap().is_some());
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn a_claim_whose_filter_does_not_match_leaves_the_item_to_another() {
    let store = memory().await;
    let wait = |filter: TagFilter| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store
                .fetch_work_item(LEASE, Duration::from_secs(3), None, &filter)
                .await
                .unwrap()
        })
    };
    let gpu: Vec<_> = (0..4).map(|_| wait(TagFilter::tags(["gpu"]))).collect();
    let plain = wait(TagFilter::DefaultOnly);
    tokio::task::yield_now().await;
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    assert!(plain.await.unwrap().is_some());
    for waiter in gpu {
        assert!(waiter.await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_watch_resolves_after_the_commit_that_changed_its_instance() {
    let store = memory().await;
    let mut watch = store.watch_instance("a").unwrap();
    create(store.as_ref(), "a").await;
    tokio::time::timeout(SOON, watch.changed()).await.unwrap();
    finish(store.as_ref(), "a", "Completed").await;
    tokio::time::timeout(SOON, watch.changed()).await.unwrap();
    create(store.as_ref(), "b").await;
    // The writer has notified the watches of one request before it answers the next.
    create(store.as_ref(), "c").await;
    let other = futures::poll!(std::pin::pin!(watch.changed()));
    assert!(
        other.is_pending(),
        "another instance is no change of this one"
    );
}

/// Waits until the operating system watches the log for this process, which begins after about a second without a
/// commit.
#[cfg(target_os = "linux")]
async fn log_is_watched() {
    let is_watched = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets
            .into_iter()
            .any(|target| target.to_string_lossy().contains("inotify"))
    };
    let began = Instant::now();
    while !is_watched() {
        assert!(began.elapsed() < SOON, "the log is never watched");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_store_is_noticed_by_an_idle_one_and_again_after_the_next_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let here = Arc::new(file_store(&path).await);
    let there = file_store(&path).await;
    for round in ["first", "second"] {
        let waiting = tokio::spawn({
            let here = Arc::clone(&here);
            async move { here.fetch_orchestration_item(LEASE, LONG, None).await }
        });
        log_is_watched().await;
        let began = Instant::now();
        let sent = there.enqueue_for_orchestrator(start(round), None).await;
        sent.unwrap();
        let found = waiting.await.unwrap().unwrap();
        assert_eq!(found.unwrap().0.instance, round);
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "not by a later recheck"
        );
    }
}

#[tokio::test]
async fn another_store_on_the_same_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let here = Arc::new(file_store(&path).await);
    let there = file_store(&path).await;
    let waiting = tokio::spawn({
        let here = Arc::clone(&here);
        async move { here.fetch_orchestration_item(LEASE, LONG, None).await }
    });
    let mut watch = here.watch_instance("a").unwrap();
    tokio::task::yield_now().await;
    let began = Instant::now();
    there
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    assert!(waiting.await.unwrap().unwrap().is_some());
    tokio::time::timeout(SOON, watch.changed()).await.unwrap();
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn a_dropped_claim_does_not_swallow_the_item() {
    let store = memory().await;
    for _ in 0..20 {
        let waiting = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.fetch_orchestration_item(LEASE, LONG, None).await }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
    }
    send(&*store, start("a")).await;
    assert!(fetch(store.as_ref()).await.is_some());
}
