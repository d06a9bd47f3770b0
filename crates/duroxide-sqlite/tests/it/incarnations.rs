//! Ids that are deleted and started again: nothing of an earlier life reaches a later one.

use std::sync::Arc;

use duroxide_core::event::ErrorDetails;
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, ExecutionMetadata, HandOut, Provider, TurnClaim,
    TurnHistory, WorkClaim, WorkItem,
};
use duroxide_sqlite::SqliteProvider;

use crate::support::*;

struct Held(CachedHistory);

impl CachedHistories for Held {
    fn cached(&self, _instance: &str) -> Option<CachedHistory> {
        Some(self.0)
    }
}

async fn claim(store: &SqliteProvider, held: Option<CachedHistory>) -> ClaimedTurn {
    let claim = TurnClaim {
        cached: held.map(|held| Arc::new(Held(held)) as Arc<dyn CachedHistories>),
        hand_out: HandOut::BeforeCommit,
        ..TurnClaim::new(1, LEASE, NO_WAIT)
    };
    store.claim_turns(claim).await.unwrap().remove(0)
}

fn child_of(parent: &str, child: &str) -> WorkItem {
    match start(child) {
        WorkItem::StartOrchestration {
            instance,
            orchestration,
            input,
            version,
            execution_id,
            ..
        } => WorkItem::StartOrchestration {
            instance,
            orchestration,
            input,
            version,
            parent_instance: Some(parent.to_owned()),
            parent_id: Some(2),
            parent_execution_id: Some(1),
            execution_id,
        },
        other => other,
    }
}

fn notice(parent: &str) -> WorkItem {
    WorkItem::SubOrchFailed {
        parent_instance: parent.to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        details: ErrorDetails::orchestration_failed("broke"),
    }
}

/// Starts `parent` and commits a first turn that starts `child`.
async fn parent_with_child(store: &SqliteProvider, parent: &str, child: &str) {
    send(store, start(parent)).await;
    let (_, token, _) = fetch(store).await.unwrap();
    let sent = vec![child_of(parent, child)];
    commit(
        store,
        &token,
        Decided {
            messages: sent,
            ..Decided::first(parent)
        },
    )
    .await
    .unwrap();
}

async fn child_begins(store: &SqliteProvider, parent: &str, child: &str) {
    let (item, token, _) = fetch(store).await.unwrap();
    assert_eq!(item.instance, child);
    let metadata = ExecutionMetadata {
        parent_instance_id: Some(parent.to_owned()),
        ..named()
    };
    ack(store, &token, 1, vec![started(child)], metadata).await;
}

/// The child ends and tells its parent.
async fn child_ends(store: &SqliteProvider, parent: &str, child: &str) {
    send(store, raised(child, "end")).await;
    let (item, token, _) = fetch(store).await.unwrap();
    assert_eq!(item.instance, child);
    let sent = vec![notice(parent)];
    commit(
        store,
        &token,
        Decided {
            messages: sent,
            metadata: ended("Failed", "broke"),
            ..Decided::default()
        },
    )
    .await
    .unwrap();
}

/// A person deletes the parent and leaves its child.
fn delete_alone(path: &std::path::Path, instance: &str) {
    let shell = shell(path);
    for table in ["instances", "executions", "history", "orchestrator_queue"] {
        let sql = format!("DELETE FROM {table} WHERE instance_id = ?1");
        shell.execute(&sql, [instance]).unwrap();
    }
}

#[tokio::test]
async fn a_history_held_of_an_earlier_life_is_not_confirmed() {
    for early in [false, true] {
        let (store, _clock) = store_with_clock().await;
        create(&store, "a").await;
        let held = CachedHistory {
            incarnation: incarnation(&store, "a").await,
            execution_id: 1,
            last_event_id: 1,
        };
        admin(&store).delete_instance("a", true).await.unwrap();
        if early {
            // Its first turn is handed out early.
            send(&store, start("a")).await;
            let turn = claim(&store, None).await;
            ack(&store, &turn.lock_token, 1, vec![started("a")], named()).await;
        } else {
            create(&store, "a").await;
        }
        send(&store, raised("a", "x")).await;
        let turn = claim(&store, Some(held)).await;
        assert_eq!(turn.history, TurnHistory::Loaded);
        assert_ne!(turn.incarnation, Some(held.incarnation));
    }
}

#[tokio::test]
async fn the_first_turn_carries_the_life_that_its_commit_begins() {
    let (store, _clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let given_back = claim(&store, None).await;
    store
        .abandon_orchestration_item(&given_back.lock_token, None, true)
        .await
        .unwrap();
    let turn = claim(&store, None).await;
    assert_ne!(turn.incarnation, given_back.incarnation);
    ack(&store, &turn.lock_token, 1, vec![started("a")], named()).await;
    assert_eq!(turn.incarnation, Some(incarnation(&store, "a").await));
}

#[tokio::test]
async fn an_activity_names_the_life_that_scheduled_it() {
    let (store, _clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let turn = claim(&store, None).await;
    let work = vec![activity("a", 2)];
    commit(
        &store,
        &turn.lock_token,
        Decided {
            activities: work,
            ..Decided::first("a")
        },
    )
    .await
    .unwrap();
    let work = store
        .claim_work(WorkClaim::new(1, LEASE, NO_WAIT))
        .await
        .unwrap();
    assert_eq!(work[0].incarnation, turn.incarnation);
}

#[tokio::test]
async fn how_a_child_ended_reaches_the_parent_that_started_it() {
    let (store, _clock) = store_with_clock().await;
    parent_with_child(&store, "p", "c").await;
    child_begins(&store, "p", "c").await;
    child_ends(&store, "p", "c").await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![notice("p")]);
}

#[tokio::test]
async fn an_instance_whose_only_message_goes_with_the_parent_that_sent_it_is_still_claimed() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "c").await;
    parent_with_child(&store, "p", "c").await;
    admin(&store).delete_instance("p", true).await.unwrap();
    send(&store, raised("c", "after")).await;
    let (item, _, _) = fetch(&store).await.expect("the message of c");
    assert_eq!(item.messages, vec![raised("c", "after")]);
}

#[tokio::test]
async fn messages_behind_the_start_of_a_deleted_parent_stand_for_their_instance() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "c").await;
    parent_with_child(&store, "p", "c").await;
    send(&store, raised("c", "behind")).await;
    admin(&store).delete_instance("p", true).await.unwrap();
    let (item, _, _) = fetch(&store).await.expect("the message of c");
    assert_eq!(item.messages, vec![raised("c", "behind")]);
}

#[tokio::test]
async fn messages_for_a_child_that_will_not_begin_become_dead_letters() {
    let (store, clock) = store_with_clock().await;
    parent_with_child(&store, "p", "c").await;
    send(&store, raised("c", "behind")).await;
    admin(&store).delete_instance("p", true).await.unwrap();
    assert!(fetch(&store).await.is_none());
    clock.advance(std::time::Duration::from_secs(3_600));
    assert!(fetch(&store).await.is_none());
    let letters = admin(&store).list_dead_letters(9).await.unwrap();
    let of: Vec<_> = letters.iter().map(|it| it.instance_id.as_deref()).collect();
    assert_eq!(of, [Some("c")]);
}

#[tokio::test]
async fn how_a_child_ended_does_not_reach_a_later_life_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    parent_with_child(&store, "p", "c").await;
    child_begins(&store, "p", "c").await;
    delete_alone(&path, "p");
    create(&store, "p").await;
    child_ends(&store, "p", "c").await;
    assert!(fetch(&store).await.is_none());
    let letters = admin(&store).list_dead_letters(9).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("p"));
}

#[tokio::test]
async fn a_file_of_the_first_schema_gets_lives_and_keeps_its_instances() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_init.sql"))
        .unwrap();
    old.execute_batch(
        "PRAGMA application_id = 0x44757278; PRAGMA user_version = 1;
         INSERT INTO instances (instance_id, orchestration_name, orchestration_version, created_at, updated_at)
             VALUES ('a', 'Orch', '1.0.0', 1, 1), ('b', 'Orch', '1.0.0', 1, 1);
         INSERT INTO executions (instance_id, execution_id, started_at) VALUES ('a', 1, 1), ('b', 1, 1);",
    )
    .unwrap();
    drop(old);
    let store = file_store(&path).await;
    assert_ne!(
        incarnation(&store, "a").await,
        incarnation(&store, "b").await
    );
}
