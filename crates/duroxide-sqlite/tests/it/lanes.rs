//! Claims by the code an instance needs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::event::EventKind;
use duroxide_core::provider::{
    ClaimedTurn, ExecutionMetadata, OrchestrationHandlers, Provider, TurnClaim, WorkClaim, WorkItem,
};
use duroxide_sqlite::SqliteProvider;
use duroxide_validation::items;

use crate::support::*;

fn with_code(handlers: &[(&str, &str)]) -> TurnClaim {
    let handlers = handlers
        .iter()
        .fold(OrchestrationHandlers::default(), |all, (name, version)| {
            all.with(*name, *version)
        });
    TurnClaim {
        handlers: Some(Arc::new(handlers)),
        cancel_without_code_after: Duration::from_secs(3_600),
        ..TurnClaim::new(9, LEASE, NO_WAIT)
    }
}

fn ids(turns: &[ClaimedTurn]) -> Vec<&str> {
    turns
        .iter()
        .map(|turn| turn.item.instance.as_str())
        .collect()
}

async fn claim(store: &SqliteProvider, handlers: &[(&str, &str)]) -> Vec<ClaimedTurn> {
    store.claim_turns(with_code(handlers)).await.unwrap()
}

/// A file as the first schema left it: an instance that runs and has two messages, one that is to start, an activity.
fn first_schema(path: &Path) {
    let old = rusqlite::Connection::open(path).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_init.sql"))
        .unwrap();
    old.execute_batch(
        "PRAGMA application_id = 0x44757278; PRAGMA user_version = 1;
         INSERT INTO instances (instance_id, orchestration_name, orchestration_version, created_at, updated_at)
             VALUES ('runs', 'Orch', '1.0.0', 1, 1);
         INSERT INTO executions (instance_id, execution_id, started_at) VALUES ('runs', 1, 1);",
    )
    .unwrap();
    let message = |instance: &str, kind: &str, item: &WorkItem| {
        let json = serde_json::to_string(item).unwrap();
        old.execute(
            "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             VALUES (?1, ?2, ?3, 1, 1)",
            (instance, kind, json),
        )
        .unwrap();
    };
    for data in ["1", "2"] {
        message("runs", "ExternalRaised", &raised("runs", data));
    }
    message("new", "StartOrchestration", &start("new"));
    let work = serde_json::to_string(&activity("runs", 2)).unwrap();
    old.execute(
        "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at)
         VALUES ('runs', 1, 2, ?1, 1, 1)",
        [work],
    )
    .unwrap();
}

#[tokio::test]
async fn what_a_file_of_the_first_schema_holds_goes_to_nodes_that_have_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    first_schema(&path);
    let store = file_store(&path).await;
    assert!(claim(&store, &[("Other", "1.0.0")]).await.is_empty());
    assert!(claim(&store, &[("Orch", "2.0.0")]).await.is_empty());
    let turns = claim(&store, &[("Orch", "1.0.0")]).await;
    assert_eq!(ids(&turns), ["runs", "new"]);
    assert_eq!(turns[0].item.messages.len(), 2);
    let mut work = WorkClaim::new(9, LEASE, NO_WAIT);
    work.activities = Some(Arc::new(["Other".to_owned()].into()));
    assert!(store.claim_work(work.clone()).await.unwrap().is_empty());
    work.activities = Some(Arc::new([items::ACTIVITY.to_owned()].into()));
    assert_eq!(store.claim_work(work).await.unwrap().len(), 1);
}

#[tokio::test]
async fn messages_that_came_during_a_turn_follow_the_instance_to_its_next_version() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    send(&store, raised("a", "1")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    send(&store, raised("a", "2")).await;
    let next = WorkItem::ContinueAsNew {
        instance: "a".to_owned(),
        orchestration: "Orch".to_owned(),
        input: "{}".to_owned(),
        version: Some("2.0.0".to_owned()),
        carry_forward_events: vec![],
        initial_custom_status: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
    };
    let end = EventKind::OrchestrationContinuedAsNew {
        input: "{}".to_owned(),
    };
    let events = vec![event("a", 1, 2, end)];
    let metadata = ended("ContinuedAsNew", "{}");
    commit(
        &store,
        &token,
        Decided {
            events,
            messages: vec![next],
            metadata,
            ..Decided::default()
        },
    )
    .await
    .unwrap();
    assert!(claim(&store, &[("Orch", "1.0.0")]).await.is_empty());
    let turns = claim(&store, &[("Orch", "2.0.0")]).await;
    assert_eq!(turns[0].item.messages.len(), 2);
}

#[tokio::test]
async fn what_is_left_of_a_batch_is_found_again_when_its_first_message_was_dead_lettered_and_the_node_died()
 {
    let (store, clock) = store_with_clock().await;
    create(&store, "a").await;
    for data in ["1", "2"] {
        send(&store, raised("a", data)).await;
    }
    let (_, token, _) = fetch(&store).await.unwrap();
    store
        .dead_letter_messages(&token, &[0], "bad")
        .await
        .unwrap();
    clock.advance(LEASE);
    let (item, _, _) = fetch(&store).await.expect("the lease ran out");
    assert_eq!(item.messages, vec![raised("a", "2")]);
}

#[tokio::test]
async fn an_earlier_message_behind_a_delayed_one_is_claimed_on_time() {
    let (store, clock) = store_with_clock().await;
    create(&store, "a").await;
    send(&store, raised("a", "1")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    send(&store, raised("a", "2")).await;
    let delay = Some(Duration::from_secs(60));
    store
        .abandon_orchestration_item(&token, delay, false)
        .await
        .unwrap();
    let (item, token, _) = fetch(&store)
        .await
        .expect("the second message is not delayed");
    assert_eq!(item.messages, vec![raised("a", "2")]);
    ack(&store, &token, 1, vec![], ExecutionMetadata::default()).await;
    assert!(fetch(&store).await.is_none());
    clock.advance(Duration::from_secs(60));
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "1")]);
}

#[tokio::test]
async fn a_long_mailbox_is_worked_off_in_order_and_its_neighbour_does_not_wait() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "long").await;
    let all: Vec<WorkItem> = (0..2_500).map(|n| raised("long", &n.to_string())).collect();
    for message in &all {
        send(&store, message.clone()).await;
    }
    send(&store, start("short")).await;
    let mut seen = Vec::new();
    let mut neighbour = 0;
    loop {
        let turns = store
            .claim_turns(TurnClaim::new(9, LEASE, NO_WAIT))
            .await
            .unwrap();
        if turns.is_empty() {
            break;
        }
        for turn in turns {
            let metadata = match turn.item.instance.as_str() {
                "short" => {
                    neighbour += 1;
                    named()
                }
                _ => ExecutionMetadata::default(),
            };
            assert!(turn.item.messages.len() <= 1_000);
            ack(&store, &turn.lock_token, 1, vec![], metadata).await;
            if turn.item.instance == "long" {
                seen.extend(turn.item.messages);
            }
        }
    }
    assert_eq!((neighbour, seen == all), (1, true));
}
