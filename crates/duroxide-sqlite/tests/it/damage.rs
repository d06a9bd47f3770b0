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

#[tokio::test]
async fn the_damaged_end_of_a_large_history_is_reported_with_the_lease_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "hit").await;
    drop(store);
    // The claim reads some megabytes of it and leaves the rest to others.
    let file = shell(&path);
    for id in 2..=9 {
        file.execute(
            "INSERT INTO history VALUES ('hit', 1, ?1, 'e', printf('%.*c', 1000000, 'h'), 1)",
            [id],
        )
        .unwrap();
    }
    for (id, mark) in [(10, ""), (11, ""), (12, ""), (13, ""), (14, MARK)] {
        file.execute(
            "INSERT INTO history VALUES ('hit', 1, ?1, 'e', ?2, 1)",
            (id, page_full(mark)),
        )
        .unwrap();
    }
    drop(file);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    send(&store, raised("hit", "1")).await;
    send(&store, start("fine")).await;
    let (item, token, attempts) = fetch(&store).await.expect("it is handed out");
    assert_eq!((item.instance.as_str(), attempts), ("hit", 1));
    assert!(item.history_error.is_some(), "with a report");
    assert_eq!(
        fetch(&store).await.expect("the other one").0.instance,
        "fine"
    );
    let next = Decided {
        events: vec![event(
            "hit",
            1,
            15,
            duroxide_validation::kinds::started_as("o", "1"),
        )],
        ..Decided::default()
    };
    let refused = commit(&store, &token, next).await;
    assert!(!refused.unwrap_err().is_retryable(), "it cannot be written");
}

const MARK: &str = "this row is on the page that will be damaged ";

/// Long enough to fill a page: rows next to each other are on different ones.
fn page_full(mark: &str) -> String {
    format!("{mark}{}", "x".repeat(3_600))
}

/// Overwrites the header of the page that holds the mark, in a file without other copies of it.
fn damage_marked_page(path: &std::path::Path) {
    let file = shell(path);
    file.pragma_update(None, "journal_mode", "DELETE").unwrap();
    file.execute_batch("VACUUM").unwrap();
    drop(file);
    let mut bytes = std::fs::read(path).unwrap();
    let mark = MARK.as_bytes();
    let found: Vec<usize> = bytes
        .windows(mark.len())
        .enumerate()
        .filter(|(_, window)| *window == mark)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(found.len(), 1, "one page holds the mark");
    let at = found[0] / 4_096 * 4_096;
    bytes[at..at + 8].fill(0xFF);
    std::fs::write(path, bytes).unwrap();
}

/// Calls until the store answers: the first calls meet the damage.
macro_rules! at_last {
    ($call:expr) => {{
        let mut tries = 0;
        loop {
            match $call.await {
                Ok(answer) => break answer,
                Err(error) => assert!(error.is_retryable() && tries < 100, "{error}"),
            }
            tries += 1;
        }
    }};
}

#[tokio::test]
async fn a_damaged_page_of_activities_costs_those_near_it_and_no_other() {
    const ITEMS: u64 = 120;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for id in 1..=ITEMS {
        let mut item = activity("a", id);
        if let duroxide_core::WorkItem::ActivityExecute { input, .. } = &mut item {
            let mark = if id == ITEMS / 2 { MARK } else { "" };
            *input = format!("{mark}{}", "x".repeat(500));
        }
        store.enqueue_for_worker(item).await.unwrap();
    }
    drop(store);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    let mut found = Vec::new();
    while let Some((item, ..)) =
        at_last!(store.fetch_work_item(LEASE, NO_WAIT, None, &Default::default()))
    {
        let duroxide_core::WorkItem::ActivityExecute { id, .. } = item else {
            panic!("{item:?}");
        };
        found.push(id);
    }
    // A page holds some six of them. To write next to a damaged page SQLite has to read it now and then.
    let lost: Vec<u64> = (1..=ITEMS).filter(|id| !found.contains(id)).collect();
    assert!(lost.contains(&(ITEMS / 2)), "it cannot be read");
    assert!(lost.len() <= 20, "{lost:?}");
    send(&store, start("b")).await;
    assert!(fetch(&store).await.is_some(), "the store goes on");
}

#[tokio::test]
async fn a_damaged_page_of_instances_costs_those_on_it_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["fine", "hit"] {
        create(&store, instance).await;
    }
    drop(store);
    let file = shell(&path);
    for (instance, mark) in [("fine", ""), ("hit", MARK)] {
        file.execute(
            "UPDATE instances SET custom_status = ?2 WHERE instance_id = ?1",
            (instance, page_full(mark)),
        )
        .unwrap();
    }
    drop(file);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    let claim = || store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    for instance in ["hit", "fine"] {
        // The message itself is queued without a look at the instance.
        let sent = store
            .enqueue_for_orchestrator(raised(instance, "1"), None)
            .await;
        if instance == "fine" {
            sent.unwrap();
        }
    }
    let (item, ..) = at_last!(claim()).expect("the healthy one");
    assert_eq!(item.instance, "fine");
    assert!(at_last!(claim()).is_none());
}

#[tokio::test]
async fn a_damaged_history_stops_no_bulk_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "hit", "z"] {
        create(&store, instance).await;
        send(&store, raised(instance, "end")).await;
        let (_, token, _) = fetch(&store).await.unwrap();
        ack(&store, &token, 1, vec![], ended("Completed", "ok")).await;
    }
    drop(store);
    let file = shell(&path);
    // Other histories lie between these, so that they are on different pages.
    for n in 0..50 {
        for between in ["b", "p"] {
            file.execute(
                "INSERT INTO history VALUES (?1, 1, 1, 'e', ?2, 1)",
                (format!("{between}{n}"), page_full("")),
            )
            .unwrap();
        }
    }
    file.execute(
        "UPDATE history SET event_data = ?1 WHERE instance_id = 'hit' AND event_id = 1",
        [page_full(MARK)],
    )
    .unwrap();
    drop(file);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    let all = duroxide_core::provider::InstanceFilter::default();
    admin(&store).delete_instance_bulk(all).await.unwrap();
    assert_eq!(admin(&store).list_instances().await.unwrap(), ["hit"]);
}

#[tokio::test]
async fn an_instance_whose_messages_cannot_be_read_is_told_to_be_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for (instance, mark) in [("hit", MARK), ("fine", "")] {
        create(&store, instance).await;
        send(&store, raised(instance, &page_full(mark))).await;
    }
    drop(store);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    let claim = || store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    let (item, ..) = at_last!(claim()).expect("the healthy one");
    assert_eq!(item.instance, "fine");
    assert!(at_last!(claim()).is_none());
    let note = admin(&store).block_note("hit").await.unwrap();
    let note = note.expect("it is blocked");
    assert!(note.blocked.report.contains("cannot be read"), "{note:?}");
    assert_eq!(note.blocked.orchestration_name, NAME);
    assert!(admin(&store).block_note("fine").await.unwrap().is_none());
}

#[tokio::test]
async fn an_instance_whose_activity_cannot_be_read_is_told_to_be_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for (instance, mark) in [("hit", MARK), ("fine", "")] {
        create(&store, instance).await;
        let mut item = activity(instance, 7);
        if let duroxide_core::WorkItem::ActivityExecute { input, .. } = &mut item {
            *input = page_full(mark);
        }
        store.enqueue_for_worker(item).await.unwrap();
    }
    drop(store);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    let claim = || store.fetch_work_item(LEASE, NO_WAIT, None, &Default::default());
    let (item, ..) = at_last!(claim()).expect("the healthy one");
    let duroxide_core::WorkItem::ActivityExecute { instance, .. } = item else {
        panic!("{item:?}");
    };
    assert_eq!(instance, "fine");
    assert!(at_last!(claim()).is_none());
    let note = admin(&store).block_note("hit").await.unwrap();
    let note = note.expect("it is blocked");
    assert!(note.blocked.report.contains("activity 7"), "{note:?}");
    assert!(admin(&store).block_note("fine").await.unwrap().is_none());
}
