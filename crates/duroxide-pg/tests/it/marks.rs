//! Claims that do not begin at the beginning of a queue (`group/marks.rs`): rows below their marks are found all the
//! same.

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

/// Claims begin at marks from the fourth on: every walk counts as long.
async fn open_at_marks(schema: &Schema) -> PostgresProvider {
    let store = schema.open().await;
    schema.shell("CREATE OR REPLACE FUNCTION {s}.long_walk() RETURNS interval LANGUAGE sql IMMUTABLE AS 'SELECT interval ''-1 s'''");
    store
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
    let store = open_at_marks(&schema).await;
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
    let store = open_at_marks(&schema).await;
    commit_late(&schema, &store).await;
    let claimed = claim(&store, LEASE, PATIENCE).await;
    assert_eq!(claimed.iter().map(number).collect::<Vec<_>>(), [99]);
}

#[tokio::test]
async fn a_lease_that_runs_out_is_taken_over_however_many_activities_passed_since() {
    let schema = Schema::new();
    let (store, other) = (open_at_marks(&schema).await, schema.open().await);
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
    let (one, two) = (open_at_marks(&schema).await, schema.open().await);
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
    let store = open_at_marks(&schema).await;
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

/// Rows that came and went while a transaction was open, in statements as the server's functions use them.
const CHURN: &str = "
    INSERT INTO {s}.worker_queue (instance_id, execution_id, activity_id, name, work_item, lane, visible_at, created_at)
    SELECT 'gone-' || n, 1, 2, 'Greet', '{}', '[\"Greet\"]', 0, 0 FROM generate_series(1, 20000) AS n;
    INSERT INTO {s}.inboxes (instance_id, lane, ready_at) SELECT 'gone-' || n, '[\"Orch\"]', 1000 FROM generate_series(1, 20000) AS n;
    DELETE FROM {s}.worker_queue;
    DELETE FROM {s}.inboxes;
    INSERT INTO {s}.worker_queue (instance_id, execution_id, activity_id, name, work_item, lane, visible_at, created_at)
    SELECT 'here-' || n, 1, 2, 'Greet', '{}', '[\"Greet\"]', 0, 0 FROM generate_series(1, 5) AS n;
    INSERT INTO {s}.inboxes (instance_id, lane, ready_at) SELECT 'here-' || n, '[\"Orch\"]', 2000 FROM generate_series(1, 5) AS n;
    INSERT INTO {s}.orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, begins)
    SELECT 'here-' || n, 2000, 'StartOrchestration', '{}', 2000, '[\"Orch\"]' FROM generate_series(1, 5) AS n;
    ANALYZE {s}.worker_queue, {s}.inboxes, {s}.orchestrator_queue";

const CLAIM_WORK: &str = "{s}.claim_work(0, 5, 30000, ARRAY['[\"Greet\"]'], '{}', '{}', NULL, 0, 0, ARRAY['[\"Greet\"]'],
    ARRAY[{first}])";
const CLAIM_TURNS: &str = "{s}.claim_turns(0, 5, 30000, ARRAY['', '[\"Orch\"]'], '{}', false, '{}', NULL, 100, 1000000, 100, 4000,
    4000000, 1000, false, ARRAY['', '[\"Orch\"]'], ARRAY[0, 2000])";
const ACK_WORK: &str =
    "{s}.ack_work(0, ARRAY[{first}, {first} + 1], ARRAY[gen_random_uuid(), gen_random_uuid()],
    '{}', '{}', '{}', '{}', '{}', '{}')";
const RENEW_TURNS: &str =
    "{s}.renew_turns(0, ARRAY['here-1', 'here-2'], ARRAY[gen_random_uuid(), gen_random_uuid()],
    ARRAY[1000, 1000])";
const OPEN_INBOXES: &str = "{s}.open_inboxes(0, ARRAY['here-1'], ARRAY['here-2', 'new'], ARRAY[NULL, NULL]::bigint[], ARRAY[0, 0],
    ARRAY[NULL, NULL]::text[], ARRAY[false, false])";

/// How many buffers a call reads, once its statements have been planned.
async fn buffers(client: &mut tokio_postgres::Client, call: &str) -> u64 {
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM {call}");
    let mut read = 0;
    for _ in 0..2 {
        let tx = client.transaction().await.unwrap();
        let plan = tx.query(&sql, &[]).await.unwrap();
        tx.rollback().await.unwrap();
        let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let hits = lines
            .iter()
            .find_map(|line| line.split("shared hit=").nth(1));
        let hits = hits.and_then(|hits| hits.split(' ').next());
        read = hits.unwrap().parse().unwrap();
    }
    read
}

#[tokio::test]
async fn no_call_walks_past_rows_that_were_deleted_and_cannot_be_vacuumed() {
    let schema = Schema::new();
    let _store = schema.open().await;
    let holder = connect().await;
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()";
    holder.batch_execute(hold).await.unwrap();
    let mut client = connect().await;
    let path = format!("SET search_path = {}, pg_temp", schema.0);
    client.batch_execute(&path).await.unwrap();
    let churn = CHURN.replace("{s}", &schema.0);
    for statement in churn.split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    let sql = "SELECT id FROM worker_queue WHERE instance_id = 'here-1'";
    let first: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    // Each call finds or writes a few rows. An index has hundreds of pages, and a walk over it reads them all.
    for call in [CLAIM_WORK, CLAIM_TURNS, RENEW_TURNS, OPEN_INBOXES, ACK_WORK] {
        let call = call.replace("{s}", &schema.0);
        let call = call.replace("{first}", &first.to_string());
        let read = buffers(&mut client, &call).await;
        assert!(read < 300, "{read} buffers: {call}");
    }
    holder.batch_execute("COMMIT").await.unwrap();
}
