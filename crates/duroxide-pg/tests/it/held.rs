//! Rows and tables that somebody with a shell holds, and lets go: their instances pay for it, and only while they are
//! held.

use std::time::{Duration, Instant};

use duroxide_core::provider::{ExecutionMetadata, Provider, TurnClaim, WorkClaim, WorkItem};
use futures::future::join_all;

use crate::damage::{begin, turns};
use crate::meetings::{named, raised, start, started};
use crate::support::{HeldRows, Schema, connect};

const LEASE: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(10);
/// How long the store waits for a row of somebody else, and between two tries.
const PATIENCE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_shell_held_and_lets_go_is_written_within_moments_however_many_instances_it_was() {
    const INSTANCES: usize = 20;
    let schema = Schema::new();
    let store = schema.open().await;
    let ids: Vec<String> = (0..INSTANCES).map(|n| format!("i-{n}")).collect();
    for sent in join_all(
        ids.iter()
            .map(|id| store.enqueue_for_orchestrator(start(id), None)),
    )
    .await
    {
        sent.unwrap();
    }
    let mut found = Vec::new();
    while found.len() < INSTANCES {
        let claim = TurnClaim::new(INSTANCES, LEASE, SOON);
        found.extend(store.claim_turns(claim).await.unwrap());
    }
    let rows = HeldRows::lock(&schema, "inboxes").await;
    let refused = tokio::sync::Notify::new();
    let commit = async |turn: &duroxide_core::provider::ClaimedTurn| loop {
        let (id, token) = (turn.item.instance.as_str(), &turn.lock_token);
        let done =
            store.ack_orchestration_item(token, 1, started(id), vec![], vec![], named(), vec![]);
        match done.await {
            Ok(()) => return,
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                refused.notify_one();
            }
        }
    };
    let let_go = async {
        // The store has learnt what is held.
        refused.notified().await;
        rows.release().await;
        Instant::now()
    };
    let (free_at, _) = tokio::join!(let_go, join_all(found.iter().map(commit)));
    let took = free_at.elapsed();
    assert!(took < PATIENCE * 5, "{took:?} for {INSTANCES} instances");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_any_table_that_a_shell_holds_costs_other_instances_no_second_time() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "held", started("held")).await;
    begin(&store, "free", started("free")).await;
    store
        .enqueue_for_orchestrator(raised("held"), None)
        .await
        .unwrap();
    let turn = turns(&store, 1).await.pop().expect("its message");
    let rows = HeldRows::lock(&schema, "executions WHERE instance_id = 'held'").await;
    let ended = || ExecutionMetadata {
        status: Some("Completed".to_owned()),
        output: Some("done".to_owned()),
        ..named()
    };
    let mut waited = Duration::ZERO;
    for round in 0..4 {
        let commit = store.ack_orchestration_item(
            &turn.lock_token,
            1,
            vec![],
            vec![],
            vec![],
            ended(),
            vec![],
        );
        let send = || async {
            let began = Instant::now();
            let sent = store.enqueue_for_orchestrator(raised("free"), None).await;
            sent.unwrap();
            began.elapsed()
        };
        // Whichever is sent first, the commit shares its exchange with one of the others.
        let (first, refused, last) = tokio::join!(send(), commit, send());
        assert!(refused.unwrap_err().is_retryable());
        // In the first round nobody can know.
        if round > 0 {
            waited += first.max(last);
        }
    }
    assert!(waited < PATIENCE, "{waited:?}");
    rows.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_a_shell_locks_is_answered_for_within_seconds() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut client = connect().await;
    let holder = client.transaction().await.unwrap();
    let lock = format!("LOCK TABLE {}.instances IN ACCESS EXCLUSIVE MODE", schema.0);
    holder.batch_execute(&lock).await.unwrap();
    let both = async {
        tokio::join!(
            store.enqueue_for_orchestrator(start("a"), None),
            store.enqueue_for_orchestrator(start("b"), None)
        )
    };
    let (one, other) = tokio::time::timeout(SOON, both)
        .await
        .expect("an answer for both");
    assert!(one.unwrap_err().is_retryable() && other.unwrap_err().is_retryable());
    holder.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_goes_alone_waits_no_longer_for_a_held_row_than_one_among_others() {
    let schema = Schema::new();
    let store = schema.open().await;
    let work = WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 1,
        name: "Act".to_owned(),
        input: "{}".to_owned(),
        session_id: None,
        tag: None,
    };
    store.enqueue_for_worker(work).await.unwrap();
    let claim = WorkClaim::new(1, LEASE, SOON);
    let found = store.claim_work(claim).await.unwrap();
    let rows = HeldRows::lock(&schema, "worker_queue").await;
    let ack = store.ack_work_item(&found[0].lock_token, None);
    let refused = tokio::time::timeout(SOON, ack).await.expect("an answer");
    assert!(refused.unwrap_err().is_retryable());
    rows.release().await;
    store
        .ack_work_item(&found[0].lock_token, None)
        .await
        .unwrap();
}
