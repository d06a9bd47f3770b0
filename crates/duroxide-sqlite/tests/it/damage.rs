//! Histories that cannot be read: their instance is reported, and no other instance pays for it.

use duroxide_core::provider::Provider;

use crate::support::*;

#[tokio::test]
async fn a_history_that_does_not_decode_is_reported_with_the_lease_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    shell(&path)
        .execute("UPDATE history SET event_data = '{}'", [])
        .unwrap();
    send(&store, raised("a", "1")).await;
    let (item, token, attempts) = fetch(&store).await.unwrap();
    assert!(item.history_error.is_some());
    assert!(item.history.is_empty());
    assert_eq!((item.messages.len(), attempts), (1, 1));
    assert!(!store.read("a").await.unwrap_err().is_retryable());
    ack(&store, &token, 1, vec![], Default::default()).await;
}

/// Overwrites the root page of the history table.
fn damage_history(path: &std::path::Path) {
    let file = shell(path);
    let page: i64 = file
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'history'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(file);
    let mut bytes = std::fs::read(path).unwrap();
    let at = (usize::try_from(page).unwrap() - 1) * 4_096;
    bytes[at..at + 8].fill(0xFF);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_page_costs_its_instance_its_history_and_no_other_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "hit").await;
    drop(store);
    damage_history(&path);

    let store = file_store(&path).await;
    send(&store, raised("hit", "1")).await;
    store.enqueue_for_worker(activity("fine", 1)).await.unwrap();
    let (item, token, _) = fetch(&store).await.expect("it is handed out");
    assert_eq!(item.instance, "hit");
    assert!(item.history_error.is_some(), "with a report");
    assert!(fetch_work(&store).await.is_some());
    let first = Decided::first("hit");
    let refused = commit(&store, &token, first).await;
    assert!(!refused.unwrap_err().is_retryable(), "it cannot be written");
    assert!(store.read("hit").await.is_err());
    assert_eq!(admin(&store).list_instances().await.unwrap(), ["hit"]);
}
