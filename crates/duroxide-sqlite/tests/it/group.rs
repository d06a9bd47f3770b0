//! Group commit: many requests, few transactions, each request all or nothing.

use std::sync::Arc;

use duroxide_core::provider::Provider;

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_of_requests_shares_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = Arc::new(file_store(&path).await);
    // Somebody holds the lock, so that the requests pile up behind it.
    let blocker = shell(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let requests: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                store
                    .enqueue_for_orchestrator(start(&format!("i{n}")), None)
                    .await
            })
        })
        .collect();
    while requests.len() != 200 {
        tokio::task::yield_now().await;
    }
    blocker.execute_batch("COMMIT").unwrap();
    for request in requests {
        request.await.unwrap().unwrap();
    }
    let count: i64 = shell(&path)
        .query_row("SELECT COUNT(*) FROM orchestrator_queue", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(count, 200);
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
        store
            .enqueue_for_orchestrator(raised(&id, "x"), None)
            .await
            .unwrap();
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
                store
                    .ack_orchestration_item(
                        &token,
                        1,
                        vec![event],
                        vec![activity(&id, 2)],
                        vec![],
                        ended("Completed", "out"),
                        vec![],
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
