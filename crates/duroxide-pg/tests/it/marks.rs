//! Claims that do not begin at the beginning of a queue (`group/marks.rs`): rows below their marks are found all the same.

use std::time::Duration;

use duroxide_core::provider::{ClaimedWork, Provider, TagFilter, TurnClaim, WorkClaim, WorkItem};
use duroxide_pg::PostgresProvider;

use crate::support::{Schema, connect};

const LEASE: Duration = Duration::from_secs(30);
/// Far longer than anything is waited for here.
const PATIENCE: Duration = Duration::from_secs(60);

fn activity(id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "order".to_owned(),
        execution_id: 1,
        id,
        name: "Greet".to_owned(),
        input: "{}".to_owned(),
        session_id: None,
        tag: None,
    }
}

async fn claim(store: &PostgresProvider, lease: Duration, patience: Duration) -> Vec<ClaimedWork> {
    let claim = WorkClaim {
        max: 8,
        ..WorkClaim::one(lease, patience, None, &TagFilter::DefaultOnly)
    };
    store.claim_work(claim).await.unwrap()
}

fn number(work: &ClaimedWork) -> u64 {
    match &work.item {
        WorkItem::ActivityExecute { id, .. } => *id,
        other => panic!("an activity, not {other:?}"),
    }
}

/// Lets activities pass through the store until its claims begin behind them.
async fn pass(store: &PostgresProvider, ids: std::ops::Range<u64>) {
    for id in ids {
        store.enqueue_for_worker(activity(id)).await.unwrap();
        let claimed = claim(store, LEASE, PATIENCE).await;
        assert_eq!(claimed.iter().map(number).collect::<Vec<_>>(), [id]);
        store
            .ack_work_item(&claimed[0].lock_token, None)
            .await
            .unwrap();
    }
}

/// A statement that writes what `enqueue_for_worker` would, with the next number of the sequence.
const ENQUEUE: &str = "INSERT INTO {s}.worker_queue (instance_id, execution_id, activity_id, name, work_item, lane, visible_at,
        created_at)
    SELECT 'order', 1, 99, 'Greet', $1, $2, 0, 0 RETURNING id";

/// Writes an activity in a transaction that is committed after others with greater numbers have passed. Returns its
/// number.
async fn commit_late(schema: &Schema, store: &PostgresProvider) -> i64 {
    store.enqueue_for_worker(activity(1)).await.unwrap();
    let mut other = connect().await;
    let sql = "SELECT lane FROM {s}.worker_queue".replace("{s}", &schema.0);
    let lane: String = other.query_one(&sql, &[]).await.unwrap().get(0);
    let first = claim(store, LEASE, PATIENCE).await;
    store
        .ack_work_item(&first[0].lock_token, None)
        .await
        .unwrap();
    let tx = other.transaction().await.unwrap();
    let json = serde_json::to_string(&activity(99)).unwrap();
    let sql = ENQUEUE.replace("{s}", &schema.0);
    let late: i64 = tx.query_one(&sql, &[&json, &lane]).await.unwrap().get(0);
    pass(store, 2..12).await;
    tx.commit().await.unwrap();
    late
}

#[tokio::test]
async fn a_row_with_a_smaller_number_that_another_process_commits_later_is_claimed_when_it_says_so()
{
    let schema = Schema::new();
    let store = schema.open().await;
    let late = commit_late(&schema, &store).await;
    // As the other process tells it: activities, from this number on.
    schema.shell(&format!(
        "SELECT pg_notify('duroxide_{{s}}', 'another-node|w|||{late}')"
    ));
    let claimed = claim(&store, LEASE, PATIENCE).await;
    assert_eq!(claimed.iter().map(number).collect::<Vec<_>>(), [99]);
}

#[tokio::test]
async fn a_row_with_a_smaller_number_that_nobody_says_anything_about_is_claimed_too() {
    let schema = Schema::new();
    let store = schema.open().await;
    commit_late(&schema, &store).await;
    let claimed = claim(&store, LEASE, PATIENCE).await;
    assert_eq!(claimed.iter().map(number).collect::<Vec<_>>(), [99]);
}

#[tokio::test]
async fn a_lease_that_runs_out_is_taken_over_however_many_activities_passed_since() {
    let schema = Schema::new();
    let (store, other) = (schema.open().await, schema.open().await);
    other.enqueue_for_worker(activity(99)).await.unwrap();
    let lost = claim(&other, Duration::from_secs(2), PATIENCE).await;
    assert_eq!(number(&lost[0]), 99);
    let begun = std::time::Instant::now();
    let mut id = 1;
    loop {
        store.enqueue_for_worker(activity(id)).await.unwrap();
        let claimed = claim(&store, LEASE, PATIENCE).await;
        if claimed.iter().any(|work| number(work) == 99) {
            break;
        }
        for work in &claimed {
            store.ack_work_item(&work.lock_token, None).await.unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "it was never taken over");
        id += 1;
    }
    assert!(id > 1, "something passed while the lease lasted");
}

#[tokio::test]
async fn what_two_processes_enqueue_for_each_other_is_claimed_once_and_at_once() {
    let schema = Schema::new();
    let (one, two) = (schema.open().await, schema.open().await);
    for id in 1..20 {
        let (from, to) = if id % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        from.enqueue_for_worker(activity(id)).await.unwrap();
        let claimed = claim(to, LEASE, PATIENCE).await;
        assert_eq!(claimed.iter().map(number).collect::<Vec<_>>(), [id]);
        to.ack_work_item(&claimed[0].lock_token, None)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_message_that_is_visible_since_long_is_claimed_behind_many_that_passed() {
    let schema = Schema::new();
    let store = schema.open().await;
    let start = |instance: &str| WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Orch".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    let turns = async |patience: Duration| {
        let claim = TurnClaim::one(LEASE, patience, None);
        store.claim_turns(claim).await.unwrap()
    };
    for number in 0..10 {
        let instance = format!("passing-{number}");
        store
            .enqueue_for_orchestrator(start(&instance), None)
            .await
            .unwrap();
        let claimed = turns(PATIENCE).await;
        assert_eq!(claimed[0].item.instance, instance);
        // Kept: its inbox stays until the schema goes.
    }
    store
        .enqueue_for_orchestrator(start("old"), None)
        .await
        .unwrap();
    // As if it had been ready for an hour; no process says so.
    schema.shell("UPDATE {s}.orchestrator_queue SET visible_at = 1000 WHERE instance_id = 'old'");
    schema.shell("UPDATE {s}.inboxes SET ready_at = 1000 WHERE instance_id = 'old'");
    let claimed = turns(PATIENCE).await;
    assert_eq!(claimed[0].item.instance, "old");
}
