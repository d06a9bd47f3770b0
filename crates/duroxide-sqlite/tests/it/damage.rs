//! Rows that cannot be read: their instance is reported, and no claim of others, listing or deletion pays for it.

use std::path::Path;
use std::sync::Arc;

use duroxide_core::provider::{
    BlockedInstance, CountBy, InstanceFilter, InstanceQuery, InstanceStatus, Provider,
    PruneOptions, TagFilter, WaitingFor,
};
use duroxide_sqlite::{Durability, SqliteOptions, SqliteProvider};

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
fn damage_history(path: &Path) {
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
fn damage_marked_page(path: &Path) {
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

mod leftovers;

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

/// Inserts rows of other ids before and behind those of `hit`, so that these are on a page of their own.
fn lay_around_hit(file: &rusqlite::Connection, insert: &str) {
    for n in 0..50 {
        for between in ["b", "p"] {
            let row = (format!("{between}{n}"), page_full(""));
            file.execute(insert, row).unwrap();
        }
    }
}

/// Overwrites a page of the history of `hit`, and of no other instance whose id is far from it.
fn damage_history_of_hit(path: &Path) {
    let file = shell(path);
    lay_around_hit(&file, "INSERT INTO history VALUES (?1, 1, 1, 'e', ?2, 1)");
    file.execute(
        "UPDATE history SET event_data = ?1 WHERE instance_id = 'hit' AND event_id = 1",
        [page_full(MARK)],
    )
    .unwrap();
    drop(file);
    damage_marked_page(path);
}

/// The same of its execution.
fn damage_execution_of_hit(path: &Path) {
    let file = shell(path);
    let insert = "INSERT INTO executions (instance_id, execution_id, status, output, started_at)
         VALUES (?1, 1, 'Running', ?2, 1)";
    lay_around_hit(&file, insert);
    file.execute(
        "UPDATE executions SET output = ?1 WHERE instance_id = 'hit'",
        [page_full(MARK)],
    )
    .unwrap();
    drop(file);
    damage_marked_page(path);
}

/// The same of the row of the instance itself.
fn damage_row_of_hit(path: &Path) {
    let file = shell(path);
    file.execute("UPDATE instances SET custom_status = ?1", [page_full("")])
        .unwrap();
    file.execute(
        "UPDATE instances SET custom_status = ?1 WHERE instance_id = 'hit'",
        [page_full(MARK)],
    )
    .unwrap();
    drop(file);
    damage_marked_page(path);
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
    damage_history_of_hit(&path);

    let store = file_store(&path).await;
    let all = InstanceFilter::default();
    admin(&store).delete_instance_bulk(all).await.unwrap();
    assert_eq!(admin(&store).list_instances().await.unwrap(), ["hit"]);
}

#[tokio::test]
async fn an_instance_whose_messages_cannot_be_read_is_told_to_be_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["fine", "hit"] {
        create(&store, instance).await;
    }
    for (instance, mark) in [("fine", ""), ("hit", MARK)] {
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
    for (instance, mark) in [("fine", ""), ("hit", MARK)] {
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
    let claim = || store.fetch_work_item(LEASE, NO_WAIT, None, &TagFilter::DefaultOnly);
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

async fn store_with(path: &Path, clock: &Arc<HandClock>) -> SqliteProvider {
    let options = SqliteOptions {
        durability: Durability::Relaxed,
        clock: Arc::clone(clock) as _,
        ..SqliteOptions::default()
    };
    SqliteProvider::new(&url(path), Some(options))
        .await
        .unwrap()
}

#[tokio::test]
async fn an_expired_activity_that_cannot_be_read_stops_no_claim() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    // What comes later is written behind the last one.
    for (instance, mark) in [("fine", ""), ("hit", MARK), ("last", "")] {
        let mut item = activity(instance, 1);
        if let duroxide_core::WorkItem::ActivityExecute { input, .. } = &mut item {
            *input = page_full(mark);
        }
        store.enqueue_for_worker(item).await.unwrap();
        assert!(fetch_work(&store).await.is_some());
    }
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    clock.advance(LEASE * 2);
    let claim = || store.fetch_work_item(LEASE, NO_WAIT, None, &TagFilter::DefaultOnly);
    for expected in ["fine", "last"] {
        let (item, ..) = at_last!(claim()).expect("a healthy one");
        let duroxide_core::WorkItem::ActivityExecute { instance, .. } = item else {
            panic!("{item:?}");
        };
        assert_eq!(instance, expected);
    }
    assert!(at_last!(claim()).is_none());
    store.enqueue_for_worker(activity("new", 1)).await.unwrap();
    assert!(claim().await.unwrap().is_some(), "nothing meets it again");
}

#[tokio::test]
async fn a_note_about_an_instance_whose_history_is_damaged_fails_no_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "hit", "z"] {
        create(&store, instance).await;
    }
    drop(store);
    damage_history_of_hit(&path);

    let store = file_store(&path).await;
    send(&store, raised("hit", "1")).await;
    let claim = || store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    let (item, token, _) = at_last!(claim()).expect("it is handed out");
    assert!(item.history_error.is_some());
    let blocked = BlockedInstance {
        instance_id: "hit".to_owned(),
        execution_id: 1,
        orchestration_name: NAME.to_owned(),
        report: "its history cannot be read".to_owned(),
        attempts: 1,
    };
    let (noted, neighbour) = tokio::join!(
        store.note_blocked(&token, &blocked, "n1"),
        store.enqueue_for_worker(activity("a", 1)),
    );
    neighbour.unwrap();
    assert!(noted.unwrap(), "it is noted");
    let note = admin(&store).block_note("hit").await.unwrap();
    assert_eq!(note.expect("it holds").blocked, blocked);
    let mut query = InstanceQuery::new();
    query.blocked = Some(true);
    assert_eq!(ids(&store, &query).await, ["hit"]);
}

async fn ids(store: &SqliteProvider, query: &InstanceQuery) -> Vec<String> {
    let page = admin(store).query_instances(query).await.unwrap();
    page.items.into_iter().map(|one| one.instance_id).collect()
}

#[tokio::test]
async fn a_listing_names_the_instance_on_a_damaged_page_and_shows_the_others() {
    let cases = [
        damage_history_of_hit as fn(&Path),
        damage_execution_of_hit,
        damage_row_of_hit,
    ];
    for (case, damage) in cases.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = file_store(&path).await;
        for instance in ["a", "hit", "z"] {
            create(&store, instance).await;
        }
        drop(store);
        damage(&path);

        let store = file_store(&path).await;
        let admin = admin(&store);
        let everything = InstanceQuery::new();
        let mut listed = ids(&store, &everything).await;
        listed.sort();
        assert_eq!(listed, ["a", "hit", "z"], "case {case}");
        // Page by page, as the command line asks.
        let mut query = InstanceQuery::new().with_page_size(1);
        let mut paged = Vec::new();
        loop {
            let page = admin.query_instances(&query).await.unwrap();
            paged.extend(page.items);
            match page.next {
                Some(next) => query = query.after(next),
                None => break,
            }
        }
        assert_eq!(paged.len(), 3, "case {case}: {paged:?}");
        for one in &paged {
            assert_eq!((one.name.as_str(), one.version.as_str()), (NAME, VERSION));
            if one.instance_id != "hit" {
                assert_eq!(one.event_count, 1, "case {case}: {one:?}");
            }
        }
        let hit = paged.iter().find(|one| one.instance_id == "hit").unwrap();
        let is_known = matches!(hit.status, InstanceStatus::Running);
        assert_eq!(is_known, case == 0, "case {case}: {hit:?}");
        let says_so = hit
            .custom_status
            .as_ref()
            .is_some_and(|text| text.contains("cannot be read"));
        assert_eq!(says_so, case == 2, "case {case}: {hit:?}");

        for by in [
            CountBy::Nothing,
            CountBy::Status,
            CountBy::Name,
            CountBy::Version,
        ] {
            let counts = admin.count_instances(&everything, by).await.unwrap();
            let sum: u64 = counts.iter().map(|one| one.count).sum();
            assert_eq!(sum, 3, "case {case}: {counts:?}");
        }
        let named = InstanceQuery::new().with_name(NAME);
        let counts = admin
            .count_instances(&named, CountBy::Status)
            .await
            .unwrap();
        let sum: u64 = counts.iter().map(|one| one.count).sum();
        assert_eq!(sum, 3, "case {case}: {counts:?}");
        assert_eq!(admin.list_instances().await.unwrap(), ["z", "hit", "a"]);
        let running = admin.list_instances_by_status("Running").await.unwrap();
        assert!(running.contains(&"a".to_owned()) && running.contains(&"z".to_owned()));
        let metrics = admin.get_system_metrics().await.unwrap();
        assert_eq!(metrics.total_instances, 3, "case {case}");
        assert!(metrics.running_instances >= 2, "case {case}");
        let waits = WaitingFor::signal("go");
        let waiting = InstanceQuery::new().waiting_for(waits);
        assert!(ids(&store, &waiting).await.is_empty(), "case {case}");
        let held = admin.held_ids(None, 100).await.unwrap().unwrap();
        assert_eq!(held.ids, ["a", "hit", "z"], "case {case}");
    }
}

#[tokio::test]
async fn an_instance_whose_row_cannot_be_read_is_told_to_be_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "hit", "z"] {
        create(&store, instance).await;
    }
    for instance in ["a", "hit", "z"] {
        send(&store, raised(instance, "1")).await;
    }
    drop(store);
    damage_row_of_hit(&path);

    let store = file_store(&path).await;
    let claim = || store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    assert!(at_last!(claim()).is_some());
    assert!(at_last!(claim()).is_some());
    assert!(at_last!(claim()).is_none());
    let note = admin(&store).block_note("hit").await.unwrap();
    let note = note.expect("it is blocked");
    assert!(note.blocked.report.contains("cannot be read"), "{note:?}");
    let mut query = InstanceQuery::new();
    query.blocked = Some(true);
    assert_eq!(ids(&store, &query).await, ["hit"]);
    assert!(
        claim().await.unwrap().is_none(),
        "no claim pays for it any more"
    );
}

#[tokio::test]
async fn a_damaged_row_stops_no_bulk_deletion() {
    for damage in [damage_row_of_hit as fn(&Path), damage_execution_of_hit] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = file_store(&path).await;
        // To delete a row, SQLite reads the pages beside it.
        for instance in ["a", "b", "c", "d", "hit", "v", "w", "x", "z"] {
            create(&store, instance).await;
            if ["a", "hit", "z"].contains(&instance) {
                finish(&store, instance, "Completed").await;
            }
        }
        drop(store);
        damage(&path);

        let store = file_store(&path).await;
        let all = InstanceFilter::default();
        let deleted = admin(&store).delete_instance_bulk(all).await.unwrap();
        assert_eq!(deleted.instances_deleted, 2);
        let left = admin(&store).list_instances().await.unwrap();
        assert_eq!(left, ["x", "w", "v", "hit", "d", "c", "b"]);
    }
}

#[tokio::test]
async fn a_damaged_history_in_a_large_family_stops_no_bulk_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "hit", "z"] {
        create(&store, instance).await;
        finish(&store, instance, "Completed").await;
    }
    drop(store);
    // The second one has more children than one transaction deletes.
    shell(&path)
        .execute_batch(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
             INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at, incarnation,
                     parent_instance_id)
                 SELECT 'hit' || x, 'Orch', 0, 0, x, 'hit' FROM n;
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
             INSERT INTO executions (instance_id, execution_id, status, started_at, completed_at)
                 SELECT 'hit' || x, 1, 'Completed', 0, 0 FROM n;",
        )
        .unwrap();
    damage_history_of_hit(&path);

    let store = file_store(&path).await;
    let all = InstanceFilter::default();
    let deleted = admin(&store).delete_instance_bulk(all).await.unwrap();
    assert!(deleted.instances_deleted >= 2, "{deleted:?}");
    let left = admin(&store).list_instances().await.unwrap();
    assert!(left.contains(&"hit".to_owned()), "{left:?}");
    assert!(
        !left.contains(&"a".to_owned()) && !left.contains(&"z".to_owned()),
        "{left:?}"
    );
}

#[tokio::test]
async fn a_damaged_history_stops_no_bulk_pruning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "hit", "z"] {
        create(&store, instance).await;
    }
    drop(store);
    // Each is in its second execution.
    shell(&path)
        .execute_batch(
            "UPDATE executions SET status = 'ContinuedAsNew', completed_at = 1;
             INSERT INTO executions (instance_id, execution_id, status, started_at)
                 SELECT instance_id, 2, 'Running', 1 FROM instances;
             UPDATE instances SET current_execution_id = 2;",
        )
        .unwrap();
    damage_history_of_hit(&path);

    let store = file_store(&path).await;
    let options = PruneOptions {
        keep_last: Some(1),
        completed_before: None,
    };
    let (all, admin) = (InstanceFilter::default(), admin(&store));
    admin.prune_executions_bulk(all, options).await.unwrap();
    assert_eq!(admin.list_executions("a").await.unwrap(), [2]);
    assert_eq!(admin.list_executions("hit").await.unwrap(), [1, 2]);
    assert_eq!(admin.list_executions("z").await.unwrap(), [2]);
}

#[tokio::test]
async fn a_last_row_of_a_queue_that_cannot_be_read_stops_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["fine", "hit"] {
        create(&store, instance).await;
    }
    for (instance, mark) in [("fine", ""), ("hit", MARK)] {
        send(&store, raised(instance, &page_full(mark))).await;
    }
    drop(store);
    damage_marked_page(&path);

    let store = file_store(&path).await;
    let claim = || store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    assert!(at_last!(claim()).is_some());
    // After another program has written, the store looks for the latest time again.
    let other = shell(&path);
    for n in 0..3 {
        other
            .execute("INSERT INTO pauses VALUES (?1, 1)", [n.to_string()])
            .unwrap();
        assert!(at_last!(claim()).is_none());
    }
    admin(&store).pause_instance("fine").await.unwrap();
}
