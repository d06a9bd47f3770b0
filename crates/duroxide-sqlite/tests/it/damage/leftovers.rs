//! What is left of a deleted instance on a page that cannot be read: it stays, and neither claims nor the rest of the
//! deletion wait for it.

use super::*;

/// Numbers up to 5,000.
const NUMBERS: &str = "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
     SELECT x FROM n;";

fn run(path: &Path, sql: &str) {
    let file = shell(path);
    file.execute_batch(NUMBERS).unwrap();
    file.execute_batch(sql).unwrap();
}

fn count(path: &Path, of: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {of}");
    shell(path).query_row(&sql, [], |row| row.get(0)).unwrap()
}

async fn delete_by_force(store: &SqliteProvider, instance: &str) {
    let ids = [instance.to_owned()];
    let deleted = at_last!(admin(store).delete_instances_atomic(&ids, true));
    assert_eq!(deleted.instances_deleted, 1);
}

/// The instance of the next turn; the claims before may fail or find nothing.
async fn next_turn(store: &SqliteProvider) -> String {
    for _ in 0..100 {
        match store.fetch_orchestration_item(LEASE, NO_WAIT, None).await {
            Ok(Some((item, ..))) => return item.instance,
            Ok(None) => {}
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    panic!("no turn is claimed");
}

/// The instance of the next activity.
async fn next_work(store: &SqliteProvider) -> String {
    for _ in 0..100 {
        let claim = store.fetch_work_item(LEASE, NO_WAIT, None, &TagFilter::DefaultOnly);
        match claim.await {
            Ok(Some((duroxide_core::WorkItem::ActivityExecute { instance, .. }, ..))) => {
                return instance;
            }
            Ok(Some(other)) => panic!("{other:?}"),
            Ok(None) => {}
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    panic!("no activity is claimed");
}

#[tokio::test]
async fn an_activity_that_is_to_go_and_cannot_be_read_keeps_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // Time stands still: what is claimed stays claimed.
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    create(&store, "a").await;
    run(
        &path,
        &format!(
            "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at, name)
                 SELECT 'a', 1, x, iif(x = 1500, '{MARK}', '{{}}'), 0, 0, 'act' FROM n WHERE x <= 3000"
        ),
    );
    let other = activity("other", 1);
    store.enqueue_for_worker(other).await.unwrap();
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    delete_by_force(&store, "a").await;
    assert_eq!(next_work(&store).await, "other");
    let claim = || store.fetch_work_item(LEASE, NO_WAIT, None, &TagFilter::DefaultOnly);
    assert!(at_last!(claim()).is_none());
    assert!(claim().await.unwrap().is_none(), "nothing meets it again");
    drop(store);
    let of_a = "worker_queue INDEXED BY idx_worker_activity WHERE instance_id = 'a'";
    let left = count(&path, of_a);
    assert!((1..1_000).contains(&left), "{left} are left");

    // Nor does a process that knows nothing of it hand any of them out.
    let store = store_with(&path, &clock).await;
    let another = activity("another", 1);
    store.enqueue_for_worker(another).await.unwrap();
    assert_eq!(next_work(&store).await, "another");
}

/// Starts of children that `a` sent.
const STARTS: &str = "INSERT INTO orchestrator_queue
         (instance_id, kind, work_item, visible_at, created_at, sender_incarnation, awaited_by, lane)
     SELECT 'c' || x, 'StartOrchestration', iif(x = 2500, 'this row is on the page that will be damaged ', '{}'), 0, 0,
         (SELECT incarnation FROM instances WHERE instance_id = 'a'), 'a', '' FROM n;";

#[tokio::test]
async fn a_start_that_is_to_go_and_cannot_be_read_keeps_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // Time stands still: what is claimed stays claimed.
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    create(&store, "a").await;
    run(&path, STARTS);
    send(&store, start("fine")).await;
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    delete_by_force(&store, "a").await;
    assert_eq!(next_turn(&store).await, "fine");
    drop(store);
    let of_a = "orchestrator_queue INDEXED BY idx_orch_sender WHERE sender_incarnation IS NOT NULL";
    let left = count(&path, of_a);
    assert!((1..1_000).contains(&left), "{left} are left");

    // Nor does a process that knows nothing of it begin any of them.
    let store = store_with(&path, &clock).await;
    send(&store, start("another")).await;
    assert_eq!(next_turn(&store).await, "another");
}

#[tokio::test]
async fn a_message_that_is_to_go_and_cannot_be_read_keeps_nothing_else_of_its_instance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // Time stands still: what is claimed stays claimed.
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    create(&store, "a").await;
    let sql = format!(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             SELECT 'a', 'QueueMessage', iif(x = 2500, '{MARK}', '{{}}'), 0, 0 FROM n;
         INSERT INTO orchestrator_queue
                 (instance_id, kind, work_item, visible_at, created_at, sender_incarnation, awaited_by, lane)
             SELECT 'c' || x, 'StartOrchestration', '{{}}', 0, 0,
                 (SELECT incarnation FROM instances WHERE instance_id = 'a'), 'a', '' FROM n;"
    );
    run(&path, &sql);
    send(&store, start("fine")).await;
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    delete_by_force(&store, "a").await;
    assert_eq!(next_turn(&store).await, "fine");
    // A new life of the id waits for what cannot go, and costs nobody anything.
    send(&store, start("a")).await;
    send(&store, start("another")).await;
    assert_eq!(next_turn(&store).await, "another");
    let claim = || store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    assert!(at_last!(claim()).is_none());
}

#[tokio::test]
async fn an_activity_of_another_instance_that_cannot_be_read_stops_no_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    create(&store, "big").await;
    for (instance, mark) in [("fine", ""), ("hit", MARK), ("last", ""), ("big", "")] {
        let mut item = activity(instance, 1);
        if let duroxide_core::WorkItem::ActivityExecute { input, .. } = &mut item {
            *input = page_full(mark);
        }
        store.enqueue_for_worker(item).await.unwrap();
        assert!(fetch_work(&store).await.is_some());
    }
    // More than one transaction deletes: the leases are ended by themselves.
    let history = "INSERT INTO history SELECT 'big', 1, x + 1, 'e', '{}', 1 FROM n WHERE x <= 1500";
    run(&path, history);
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    clock.advance(LEASE * 2);
    delete_by_force(&store, "big").await;
}

#[tokio::test]
async fn the_last_activity_of_all_that_cannot_be_read_stops_no_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    create(&store, "a").await;
    // To delete a row, SQLite reads the pages beside it.
    for (instance, mark) in [("a", ""), ("b", ""), ("c", ""), ("d", ""), ("hit", MARK)] {
        let mut item = activity(instance, 1);
        if let duroxide_core::WorkItem::ActivityExecute { input, .. } = &mut item {
            *input = page_full(mark);
        }
        store.enqueue_for_worker(item).await.unwrap();
    }
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    delete_by_force(&store, "a").await;
    let mut found = Vec::new();
    while found.len() < 3 {
        found.push(next_work(&store).await);
    }
    assert_eq!(found, ["b", "c", "d"]);
}

#[tokio::test]
async fn a_leased_start_of_another_instance_that_cannot_be_read_stops_no_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let store = store_with(&path, &clock).await;
    create(&store, "a").await;
    run(&path, &STARTS.replace(MARK, ""));
    send(&store, start("hit")).await;
    let sql = format!(
        "UPDATE orchestrator_queue SET work_item = '{}' WHERE instance_id = 'hit';
         INSERT INTO instance_locks VALUES ('hit', 't', 1, 0);",
        page_full(MARK)
    );
    run(&path, &sql);
    drop(store);
    damage_marked_page(&path);

    let store = store_with(&path, &clock).await;
    delete_by_force(&store, "a").await;
}
