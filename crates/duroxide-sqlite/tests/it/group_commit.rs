//! Group commit: many requests, few transactions, each request all or nothing.

use std::sync::Arc;

use duroxide_core::provider::Provider;
use futures::future::join_all;

use crate::support::*;

#[tokio::test]
async fn a_burst_of_requests_shares_commits() {
    const REQUESTS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    store.checkpoint().await.unwrap();
    // Another program holds the lock, so that the requests queue up behind it; each is sent when it is first polled.
    let blocker = shell(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let requests = join_all((0..REQUESTS).map(|n| {
        let store = &store;
        async move {
            let item = start(&format!("i{n}"));
            store.enqueue_for_orchestrator(item, None).await
        }
    }));
    let (done, ()) = tokio::join!(requests, async {
        blocker.execute_batch("COMMIT").unwrap();
    });
    assert!(done.iter().all(Result::is_ok));
    let count: usize = shell(&path)
        .query_row("SELECT COUNT(*) FROM orchestrator_queue", [], |row| {
            row.get::<_, i64>(0)
                .map(|count| usize::try_from(count).unwrap())
        })
        .unwrap();
    assert_eq!(count, REQUESTS);
    // A commit of its own would write at least three pages: the table and its two indexes.
    let log = std::fs::metadata(folder.path().join("a.db-wal")).unwrap();
    let pages = log.len() / 4096;
    assert!(pages < REQUESTS as u64, "{pages} pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_fails_takes_none_of_its_group_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = Arc::new(file_store(&path).await);
    let mut leases = Vec::new();
    for n in 0..40 {
        let id = format!("i{n}");
        create(store.as_ref(), &id).await;
        send(&*store, raised(&id, "x")).await;
        let (_, token, _) = fetch(store.as_ref()).await.unwrap();
        leases.push((id, token));
    }
    let blocker = shell(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commits: Vec<_> = leases
        .into_iter()
        .enumerate()
        .map(|(n, (id, token))| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                // Every fourth one repeats event 1, which is found out after its first writes.
                let event_id = if n % 4 == 0 { 1 } else { 2 };
                let mut event = started(&id);
                event.event_id = event_id;
                commit(
                    store.as_ref(),
                    &token,
                    Decided {
                        events: vec![event],
                        activities: vec![activity(&id, 2)],
                        metadata: ended("Completed", "out"),
                        ..Decided::default()
                    },
                )
                .await
            })
        })
        .collect();
    tokio::task::yield_now().await;
    blocker.execute_batch("COMMIT").unwrap();
    for (n, commit) in commits.into_iter().enumerate() {
        assert_eq!(commit.await.unwrap().is_err(), n % 4 == 0, "{n}");
    }
    let depths = admin(&store).get_queue_depths().await.unwrap();
    assert_eq!(depths.worker_queue, 30);
    let metrics = admin(&store).get_system_metrics().await.unwrap();
    assert_eq!(
        (metrics.completed_instances, metrics.running_instances),
        (30, 10)
    );
    assert_eq!(metrics.total_events, 70);
}

#[tokio::test]
async fn what_was_committed_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    store.enqueue_for_worker(activity("a", 2)).await.unwrap();
    drop(store);
    let store = file_store(&path).await;
    assert_eq!(store.read("a").await.unwrap().len(), 1);
    assert!(fetch_work(&store).await.is_some());
}
