//! Pauses that end, or whose instance goes, while somebody sends the instance a message.

use std::time::Duration;

use duroxide_core::provider::{Pausing, Provider, ProviderAdmin, TurnClaim, WorkItem};
use duroxide_pg::PostgresProvider;
use tokio_postgres::Transaction;

use crate::meetings::{named, raised, start, started};
use crate::support::{Schema, connect};

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);

/// A store with one instance that is paused and has no message.
async fn with_paused(schema: &Schema, id: &str) -> PostgresProvider {
    let store = schema.open().await;
    let sent = store.enqueue_for_orchestrator(start(id), None).await;
    sent.unwrap();
    let turn = store.fetch_orchestration_item(LEASE, SOON, None).await;
    let (_, token, _) = turn.unwrap().expect("the first turn");
    store
        .ack_orchestration_item(&token, 1, started(id), vec![], vec![], named(), vec![])
        .await
        .unwrap();
    assert_eq!(store.pause_instance(id).await.unwrap(), Some(Pausing::Done));
    store
}

/// The next turn, with the messages it has.
async fn claimed(store: &PostgresProvider) -> Vec<WorkItem> {
    let claim = TurnClaim::new(1, LEASE, SOON);
    let mut turns = store.claim_turns(claim).await.unwrap();
    turns.pop().map(|it| it.item.messages).unwrap_or_default()
}

/// Sends a message as the store does, in a transaction that the caller ends.
async fn send_within(tx: &Transaction<'_>, schema: &Schema, item: &WorkItem) {
    let json = serde_json::to_string(item).unwrap();
    let id = item.target_instance();
    tx.batch_execute(&format!(
        "SET LOCAL search_path = {};
         SELECT open_inboxes(0, '{{}}', ARRAY['{id}'], ARRAY[NULL]::bigint[], ARRAY[0]::bigint[], ARRAY[NULL]::text[], ARRAY[false]);
         SELECT * FROM enqueue_messages(0, ARRAY['{id}'], ARRAY['{}'], ARRAY['{json}'], ARRAY[NULL]::bigint[], ARRAY[0]::bigint[],
             ARRAY[NULL]::text[], ARRAY[NULL]::bigint[], ARRAY[NULL]::bigint[], ARRAY[NULL]::bigint[]);",
        schema.0,
        item.kind_name(),
    ))
    .await
    .unwrap();
}

/// Returns once another transaction waits for this one.
async fn somebody_waits_for(pid: i32) {
    let client = connect().await;
    let sql = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
    while client.query(sql, &[&pid]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

async fn pid(tx: &Transaction<'_>) -> i32 {
    let row = tx.query_one("SELECT pg_backend_pid()", &[]).await;
    row.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_being_sent_while_its_instance_is_resumed_is_claimed() {
    let schema = Schema::new();
    let store = with_paused(&schema, "x").await;
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let sender = pid(&tx).await;
    send_within(&tx, &schema, &raised("x")).await;
    let resume = store.resume_instance("x");
    tokio::pin!(resume);
    let resumed = tokio::select! {
        resumed = &mut resume => Some(resumed),
        () = somebody_waits_for(sender) => None,
    };
    tx.commit().await.unwrap();
    let resumed = match resumed {
        Some(resumed) => resumed,
        None => resume.await,
    };
    assert_eq!(resumed.unwrap(), Some(Pausing::Done));
    assert_eq!(claimed(&store).await, [raised("x")]);
}

/// Ends a pause with this call, and sends a message before the call is committed.
async fn message_meets(store: &PostgresProvider, schema: &Schema, call: &str, item: WorkItem) {
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let ends = pid(&tx).await;
    tx.batch_execute(&format!("SET LOCAL search_path = {}; {call}", schema.0))
        .await
        .unwrap();
    let committed = async {
        somebody_waits_for(ends).await;
        tx.commit().await.unwrap();
    };
    let sent = store.enqueue_for_orchestrator(item, None);
    let both = async { tokio::join!(sent, committed) };
    let (sent, ()) = tokio::time::timeout(SOON, both)
        .await
        .expect("the message waits for the end of the pause");
    sent.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waits_for_the_end_of_a_pause_is_claimed() {
    let schema = Schema::new();
    let store = with_paused(&schema, "x").await;
    message_meets(&store, &schema, "SELECT resume_instance('x')", raised("x")).await;
    assert_eq!(claimed(&store).await, [raised("x")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_waits_for_the_deletion_of_a_paused_instance_is_claimed() {
    let schema = Schema::new();
    let store = with_paused(&schema, "x").await;
    let call = "SELECT * FROM delete_instances(ARRAY['x'], true)";
    message_meets(&store, &schema, call, start("x")).await;
    assert_eq!(claimed(&store).await, [start("x")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_leaves_no_inbox_behind_for_an_instance_without_messages() {
    let schema = Schema::new();
    let store = with_paused(&schema, "x").await;
    assert_eq!(
        store.resume_instance("x").await.unwrap(),
        Some(Pausing::Done)
    );
    let again = store.resume_instance("x").await.unwrap();
    assert_eq!(again, Some(Pausing::Unchanged));
    let nobody = store.resume_instance("nobody").await.unwrap();
    assert_eq!(nobody, Some(Pausing::NoSuchInstance));
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.inboxes"), 0);
}
