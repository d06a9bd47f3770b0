//! Looking, deleting, pruning.

use std::time::Duration;

use duroxide_core::event::EventKind;
use duroxide_core::provider::{
    DeleteInstanceResult, ExecutionMetadata, InstanceFilter, Provider, PruneOptions, StartRule,
    Submission, Submitted, WorkItem,
};

use duroxide_sqlite::SqliteProvider;

use crate::support::*;

async fn create_child(store: &dyn Provider, child: &str, parent: &str) {
    send(store, start(child)).await;
    let (_, token, _) = fetch(store).await.unwrap();
    let metadata = ExecutionMetadata {
        parent_instance_id: Some(parent.to_owned()),
        ..named()
    };
    ack(store, &token, 1, vec![started(child)], metadata).await;
}

#[tokio::test]
async fn times_and_results_are_real() {
    let (store, clock) = store_with_clock().await;
    create(&store, "a").await;
    let born = admin(&store).get_instance_info("a").await.unwrap();
    assert_eq!(born.created_at, 1_700_000_000_000);
    assert_eq!(born.output, None);
    clock.advance(Duration::from_secs(1));
    finish(&store, "a", "Completed").await;
    let info = admin(&store).get_instance_info("a").await.unwrap();
    assert_eq!(info.updated_at, 1_700_000_001_000);
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Completed", Some("out"))
    );
    let execution = admin(&store).get_execution_info("a", 1).await.unwrap();
    assert_eq!(execution.started_at, 1_700_000_000_000);
    assert_eq!(execution.completed_at, Some(1_700_000_001_000));
    assert_eq!(execution.event_count, 2);
}

#[tokio::test]
async fn a_running_status_is_no_completion() {
    let (store, _clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    let metadata = ExecutionMetadata {
        status: Some("Running".to_owned()),
        ..named()
    };
    ack(&store, &token, 1, vec![started("a")], metadata).await;
    let execution = admin(&store).get_execution_info("a", 1).await.unwrap();
    assert_eq!((execution.completed_at, execution.output), (None, None));
}

#[tokio::test]
async fn instances_are_listed_newest_first() {
    let (store, _clock) = store_with_clock().await;
    for id in ["m", "z", "a"] {
        create(&store, id).await;
    }
    assert_eq!(
        admin(&store).list_instances().await.unwrap(),
        ["a", "z", "m"]
    );
    finish(&store, "z", "Failed").await;
    let running = admin(&store)
        .list_instances_by_status("Running")
        .await
        .unwrap();
    assert_eq!(running, ["a", "m"]);
}

#[tokio::test]
async fn deleting_an_unknown_instance_counts_nothing() {
    let (store, _clock) = store_with_clock().await;
    let gone = admin(&store)
        .delete_instances_atomic(&["ghost".to_owned()], false)
        .await
        .unwrap();
    assert_eq!(gone.instances_deleted, 0);
    let error = admin(&store)
        .delete_instance("ghost", true)
        .await
        .unwrap_err();
    assert!(error.message.contains("not found"));
}

#[tokio::test]
async fn bulk_delete_leaves_alone_what_is_alive() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "done").await;
    create_child(&store, "done-child", "done").await;
    finish(&store, "done-child", "Completed").await;
    finish(&store, "done", "Completed").await;

    create(&store, "parent").await;
    create_child(&store, "running-child", "parent").await;
    finish(&store, "parent", "Completed").await;

    create(&store, "between").await;
    finish(&store, "between", "ContinuedAsNew").await;
    create(&store, "running").await;

    let gone = admin(&store)
        .delete_instance_bulk(InstanceFilter::default())
        .await
        .unwrap();
    assert_eq!(gone.instances_deleted, 2);
    let mut left = admin(&store).list_instances().await.unwrap();
    left.sort();
    assert_eq!(left, ["between", "parent", "running", "running-child"]);
}

#[tokio::test]
async fn an_instance_between_two_executions_needs_force() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    finish(&store, "a", "ContinuedAsNew").await;
    let error = admin(&store).delete_instance("a", false).await.unwrap_err();
    assert!(error.message.contains("running"), "{error}");
    admin(&store).delete_instance("a", true).await.unwrap();
}

#[tokio::test]
async fn a_deleted_instance_takes_its_leases_and_messages_with_it() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    store.enqueue_for_worker(activity("a", 2)).await.unwrap();
    let (_, work, _) = fetch_work(&store).await.unwrap();
    send(&store, raised("a", "1")).await;
    let (_, turn, _) = fetch(&store).await.unwrap();
    let gone = admin(&store).delete_instance("a", true).await.unwrap();
    assert_eq!(
        (gone.instances_deleted, gone.queue_messages_deleted),
        (1, 2)
    );
    let late = commit(
        &store,
        &turn,
        Decided {
            metadata: named(),
            ..Decided::default()
        },
    )
    .await;
    assert!(late.is_err());
    let late = store.ack_work_item(&work, Some(completed("a", 2))).await;
    assert!(!late.unwrap_err().is_retryable());
    create(&store, "a").await;
    assert_eq!(store.read("a").await.unwrap().len(), 1);
}

#[tokio::test]
async fn pruning_keeps_the_current_execution_and_what_was_asked_for() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    for next in 2..=4 {
        finish(&store, "a", "ContinuedAsNew").await;
        store
            .enqueue_for_orchestrator(
                WorkItem::ContinueAsNew {
                    instance: "a".to_owned(),
                    orchestration: "Orch".to_owned(),
                    input: String::new(),
                    version: None,
                    parent_instance: None,
                    parent_id: None,
                    parent_execution_id: None,
                    carry_forward_events: vec![],
                    initial_custom_status: None,
                },
                None,
            )
            .await
            .unwrap();
        let (_, token, _) = fetch(&store).await.unwrap();
        ack(&store, &token, next, vec![started_in("a", next)], named()).await;
    }
    let options = PruneOptions {
        keep_last: Some(2),
        completed_before: None,
    };
    let pruned = admin(&store).prune_executions("a", options).await.unwrap();
    assert_eq!((pruned.executions_deleted, pruned.events_deleted), (2, 4));
    assert_eq!(admin(&store).list_executions("a").await.unwrap(), [3, 4]);
    let all = admin(&store)
        .prune_executions_bulk(InstanceFilter::default(), PruneOptions::default())
        .await
        .unwrap();
    assert_eq!((all.instances_processed, all.executions_deleted), (1, 1));
    assert!(
        admin(&store)
            .prune_executions("ghost", PruneOptions::default())
            .await
            .is_err()
    );
}

/// An instance with this many events.
async fn long_instance(store: &SqliteProvider, instance: &str, events: u64) {
    create(store, instance).await;
    send(store, raised(instance, "go")).await;
    let (_, token, _) = fetch(store).await.unwrap();
    let waits = (2..=events).map(|id| {
        let name = format!("w{id}");
        event(instance, 1, id, EventKind::ExternalSubscribed { name })
    });
    ack(store, &token, 1, waits.collect(), Default::default()).await;
}

#[tokio::test]
async fn a_long_history_is_deleted_in_steps_and_counted_whole() {
    let (store, _clock) = store_with_clock().await;
    long_instance(&store, "long", 3_500).await;
    long_instance(&store, "other", 10).await;
    let ids = ["long".to_owned(), "other".to_owned()];
    let deleted = admin(&store).delete_instances_atomic(&ids, true).await;
    let deleted = deleted.unwrap();
    assert_eq!(
        (deleted.instances_deleted, deleted.events_deleted),
        (2, 3_510)
    );
    create(&store, "long").await;
    assert_eq!(store.read("long").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_deletion_cut_short_shows_nothing_and_is_finished_when_the_store_is_opened_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    long_instance(&store, "long", 20).await;
    cut_short(&path, "long");
    assert!(store.read("long").await.unwrap().is_empty());
    drop(store);
    drop(file_store(&path).await);
    let left: i64 = shell(&path)
        .query_row("SELECT COUNT(*) FROM history", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

/// As a process leaves it that died after the first transaction of a deletion.
fn cut_short(path: &std::path::Path, instance: &str) {
    let file = shell(path);
    file.execute_batch(
        "DELETE FROM instances; DELETE FROM executions; DELETE FROM orchestrator_queue;",
    )
    .unwrap();
    file.execute(
        "INSERT INTO deletions (instance_id) VALUES (?1)",
        [instance],
    )
    .unwrap();
}

#[tokio::test]
async fn a_deletion_cut_short_is_finished_by_the_claim_of_a_new_instance_of_the_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    // More than one transaction deletes.
    long_instance(&store, "long", 2_500).await;
    cut_short(&path, "long");
    send(&store, start("long")).await;
    send(&store, start("other")).await;
    // Each claim deletes some; the next one goes on.
    let mut claimed = Vec::new();
    for _ in 0..5 {
        if let Some((item, _, _)) = fetch(&store).await {
            assert!(item.history.is_empty());
            claimed.push(item.instance);
        }
    }
    assert_eq!(claimed, ["other", "long"]);
}

#[tokio::test]
async fn key_values_of_an_instance_that_is_being_deleted_are_not_shown_and_reach_no_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    long_instance(&store, "long", 20).await;
    cut_short(&path, "long");
    shell(&path)
        .execute_batch(
            "INSERT INTO kv_store VALUES ('long', 'k', 'old', 0);
             INSERT INTO kv_delta VALUES ('long', 'l', 'old', 0);",
        )
        .unwrap();
    for key in ["k", "l"] {
        assert_eq!(store.get_kv_value("long", key).await.unwrap(), None);
    }
    assert!(store.get_kv_all_values("long").await.unwrap().is_empty());
    send(&store, start("long")).await;
    let patience = std::time::Duration::from_secs(60);
    let waiting = store.fetch_orchestration_item(LEASE, patience, None);
    let (item, token, _) = waiting.await.unwrap().expect("it begins");
    assert!(item.kv_snapshot.is_empty());
    ack(&store, &token, 1, vec![started("long")], named()).await;
    assert!(store.get_kv_all_values("long").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_waiting_claim_goes_on_with_a_deletion_cut_short_until_it_has_the_instance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    long_instance(&store, "long", 2_500).await;
    cut_short(&path, "long");
    send(&store, start("long")).await;
    let patience = std::time::Duration::from_secs(60);
    let waiting = store.fetch_orchestration_item(LEASE, patience, None);
    let (item, ..) = waiting.await.unwrap().expect("it is not kept waiting");
    assert_eq!(item.instance, "long");
}

#[tokio::test]
async fn a_deletion_that_cannot_go_on_keeps_no_other_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "b"] {
        long_instance(&store, instance, 1_500).await;
    }
    let file = shell(&path);
    file.execute_batch(
        // Behind what the first transaction deletes.
        "CREATE TRIGGER stuck BEFORE DELETE ON history WHEN OLD.instance_id = 'a' AND OLD.event_id > 1200
             BEGIN SELECT RAISE(ABORT, 'stuck'); END;",
    )
    .unwrap();
    let both = ["a".to_owned(), "b".to_owned()];
    let deleted = admin(&store).delete_instances_atomic(&both, true).await;
    assert_eq!(deleted.unwrap().instances_deleted, 2, "it is committed");
    let left: Vec<String> = file
        .prepare("SELECT DISTINCT instance_id FROM history")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(left, ["a"]);
}

/// Rows of histories of these instances.
fn events_left(path: &std::path::Path, of: &str) -> i64 {
    let sql = "SELECT COUNT(*) FROM history WHERE instance_id = ?1";
    shell(path).query_row(sql, [of], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_a_failed_deletion_left_goes_with_the_next_one_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "b"] {
        long_instance(&store, instance, 1_500).await;
    }
    let file = shell(&path);
    file.execute_batch(
        "CREATE TRIGGER stuck BEFORE DELETE ON history WHEN OLD.instance_id = 'a' AND OLD.event_id > 1200
             BEGIN SELECT RAISE(ABORT, 'stuck'); END;",
    )
    .unwrap();
    admin(&store).delete_instance("a", true).await.unwrap();
    assert!(events_left(&path, "a") > 0);
    file.execute_batch("DROP TRIGGER stuck").unwrap();
    let gone = admin(&store).delete_instance("b", true).await.unwrap();
    assert_eq!(gone.events_deleted, 1_500, "its own alone");
    assert_eq!((events_left(&path, "a"), events_left(&path, "b")), (0, 0));
}

#[tokio::test]
async fn what_is_left_of_a_replaced_tree_goes_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "child"] {
        long_instance(&store, instance, 1_500).await;
        finish(&store, instance, "Completed").await;
    }
    let family = "UPDATE instances SET parent_instance_id = 'a' WHERE instance_id = 'child'";
    shell(&path).execute(family, []).unwrap();
    let replacing = Submission::start(start("a"), None, StartRule::ReplaceFinished, vec![]);
    let submitted = store.submit(replacing).await.unwrap();
    assert_eq!(submitted, Submitted::Replaced);
    assert!(events_left(&path, "child") > 0, "its caller does not wait");
    let mut look = tokio::time::interval(std::time::Duration::from_millis(10));
    while events_left(&path, "child") + events_left(&path, "a") > 0 {
        look.tick().await;
    }
}

/// What another process left of a deletion.
fn leave_something(path: &std::path::Path) -> i64 {
    let file = shell(path);
    file.execute_batch(
        "INSERT INTO deletions (instance_id) VALUES ('foreign');
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 50000)
             INSERT INTO history SELECT 'foreign', 1, x, 'e', '{}', 0 FROM n;",
    )
    .unwrap();
    50_000
}

fn left_of_foreign(path: &std::path::Path) -> i64 {
    let sql = "SELECT COUNT(*) FROM history WHERE instance_id = 'foreign'";
    shell(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_start_that_replaces_waits_for_no_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    long_instance(&store, "a", 1_500).await;
    finish(&store, "a", "Completed").await;
    let all = leave_something(&path);
    let replacing = Submission::start(start("a"), None, StartRule::ReplaceFinished, vec![]);
    let submitted = store.submit(replacing).await.unwrap();
    assert_eq!(submitted, Submitted::Replaced);
    assert_eq!(left_of_foreign(&path), all);
    let sql = "SELECT COUNT(*) FROM history WHERE instance_id = 'a'";
    let left: i64 = shell(&path).query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(left > 0, "not even for its own");
    // The claims of the new instance go on with it.
    let patience = std::time::Duration::from_secs(60);
    let waiting = store.fetch_orchestration_item(LEASE, patience, None);
    let (item, ..) = waiting.await.unwrap().expect("it begins");
    assert_eq!((item.instance.as_str(), item.history.len()), ("a", 0));
}

#[tokio::test]
async fn a_deletion_waits_for_no_other_one_and_counts_what_it_deleted_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for instance in ["a", "b"] {
        long_instance(&store, instance, 1_500).await;
    }
    finish(&store, "b", "Completed").await;
    let all = leave_something(&path);
    let admin = admin(&store);
    let forced = admin.delete_instance("a", true).await.unwrap();
    let everything = InstanceFilter::default();
    let in_bulk = admin.delete_instance_bulk(everything).await.unwrap();
    let counts = |it: DeleteInstanceResult| (it.instances_deleted, it.events_deleted);
    assert_eq!((counts(forced), counts(in_bulk)), ((1, 1_500), (1, 1_501)));
    assert_eq!(left_of_foreign(&path), all);
}

#[tokio::test]
async fn pruning_in_steps_counts_what_it_deleted() {
    let (store, _clock) = store_with_clock().await;
    long_instance(&store, "long", 2_500).await;
    send(&store, raised("long", "end")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    ack(&store, &token, 1, vec![], ended("ContinuedAsNew", "")).await;
    send(&store, raised("long", "next")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    ack(&store, &token, 2, vec![started_in("long", 2)], named()).await;
    let options = PruneOptions {
        keep_last: Some(1),
        ..PruneOptions::default()
    };
    let pruned = admin(&store)
        .prune_executions("long", options)
        .await
        .unwrap();
    let counts = (
        pruned.instances_processed,
        pruned.executions_deleted,
        pruned.events_deleted,
    );
    assert_eq!(counts, (1, 1, 2_500));
}
