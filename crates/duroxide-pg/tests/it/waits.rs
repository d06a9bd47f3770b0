//! Rows that a transaction of somebody else holds for long, and callers that go away: neither costs others anything.

use std::time::{Duration, Instant};

use duroxide_core::provider::{Provider, TagFilter, TurnClaim, WorkClaim, WorkItem};
use duroxide_pg::PostgresProvider;
use futures::future::{FutureExt, join_all};

use crate::meetings::start;
use crate::support::{HeldRows, Schema};

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);
/// How often a condition is looked at before the test gives up; each look is a connection of its own.
const LOOKS: usize = 1_000;

fn activity(id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: format!("i-{id}"),
        execution_id: 1,
        id,
        name: "Act".to_owned(),
        input: "{}".to_owned(),
        session_id: None,
        tag: None,
    }
}

fn any_work(max: usize, poll_timeout: Duration) -> WorkClaim {
    let one = WorkClaim::one(LEASE, poll_timeout, None, &TagFilter::default());
    WorkClaim { max, ..one }
}

/// The lock tokens of so many activities that were enqueued and claimed.
async fn claimed_work(store: &PostgresProvider, count: u64) -> Vec<String> {
    for id in 1..=count {
        store.enqueue_for_worker(activity(id)).await.unwrap();
    }
    let mut tokens = Vec::new();
    while (tokens.len() as u64) < count {
        let found = store.claim_work(any_work(8, SOON)).await.unwrap();
        assert!(!found.is_empty());
        tokens.extend(found.into_iter().map(|work| work.lock_token));
    }
    tokens
}

/// Waits until a statement counts so many rows.
fn counts(schema: &Schema, sql: &str, wanted: i64) {
    for _ in 0..LOOKS {
        if schema.shell(sql) == wanted {
            return;
        }
    }
    panic!("{sql} should count {wanted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_somebody_holds_keeps_no_other_from_being_renewed() {
    let schema = Schema::new();
    let store = schema.open().await;
    let tokens = claimed_work(&store, 3).await;
    let rows = HeldRows::lock(&schema, "worker_queue ORDER BY id LIMIT 1").await;
    let renewals = join_all(tokens.iter().map(|t| store.renew_work_item_lock(t, LEASE)));
    let renewed = tokio::time::timeout(SOON, renewals)
        .await
        .expect("an answer for everybody");
    let refused: Vec<_> = renewed
        .iter()
        .filter_map(|one| one.as_ref().err())
        .collect();
    assert_eq!(refused.len(), 1, "{renewed:?}");
    assert!(refused[0].is_retryable(), "{renewed:?}");
    rows.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_that_somebody_holds_keep_no_other_from_being_given_back() {
    let schema = Schema::new();
    let store = schema.open().await;
    let tokens = claimed_work(&store, 3).await;
    let rows = HeldRows::lock(&schema, "worker_queue ORDER BY id LIMIT 2").await;
    // More of them than there are connections for those who hold claims.
    let waiting = join_all((0..4).map(|n| store.abandon_work_item(&tokens[n % 2], None, true)));
    let free = store.abandon_work_item(&tokens[2], None, true);
    let both = async { tokio::join!(waiting, free) };
    let (waited, free) = tokio::time::timeout(SOON, both)
        .await
        .expect("an answer for everybody");
    assert!(waited.iter().all(Result::is_err), "{waited:?}");
    free.unwrap();
    rows.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_applications_for_an_instance_that_somebody_holds_hold_up_no_others() {
    let schema = Schema::new();
    let store = schema.open().await;
    store
        .enqueue_for_orchestrator(start("held"), None)
        .await
        .unwrap();
    let rows = HeldRows::lock(&schema, "inboxes").await;
    schema.shell(
        "SELECT {s}.raise_event('held', 'go', '1'); SELECT {s}.start_orchestration('free', 'Orch', '{}');",
    );
    let found = store.claim_turns(TurnClaim::new(8, LEASE, SOON)).await;
    let found: Vec<String> = found
        .unwrap()
        .into_iter()
        .map(|turn| turn.item.instance)
        .collect();
    assert_eq!(found, ["free"]);
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.arrivals"), 1);
    rows.release().await;
    let found = store.claim_turns(TurnClaim::new(8, LEASE, SOON)).await;
    assert_eq!(found.unwrap()[0].item.instance, "held");
    counts(&schema, "SELECT count(*) FROM {s}.arrivals", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_came_for_a_caller_that_is_gone_is_given_back_uncounted() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut claim = Box::pin(store.claim_turns(TurnClaim::new(1, LEASE, SOON)));
    assert!((&mut claim).now_or_never().is_none(), "it waits");
    store
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let leased = "SELECT count(*) FROM {s}.inboxes WHERE lock_token IS NOT NULL";
    counts(&schema, leased, 1);
    drop(claim);
    let again = store.claim_turns(TurnClaim::new(1, LEASE, SOON)).await;
    assert_eq!(again.unwrap()[0].attempt_count, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_came_for_a_caller_that_is_gone_is_given_back_uncounted() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut claim = Box::pin(store.claim_work(any_work(1, SOON)));
    assert!((&mut claim).now_or_never().is_none(), "it waits");
    store.enqueue_for_worker(activity(1)).await.unwrap();
    let leased = "SELECT count(*) FROM {s}.worker_queue WHERE lock_token IS NOT NULL";
    counts(&schema, leased, 1);
    drop(claim);
    let again = store.claim_work(any_work(1, SOON)).await;
    assert_eq!(again.unwrap()[0].attempt_count, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_held_when_it_ended_others_find_at_once() {
    let schema = Schema::new();
    let (here, there) = (schema.open().await, schema.open().await);
    let mut claim = Box::pin(here.claim_work(any_work(1, SOON)));
    assert!((&mut claim).now_or_never().is_none(), "it waits");
    here.enqueue_for_worker(activity(1)).await.unwrap();
    let leased = "SELECT count(*) FROM {s}.worker_queue WHERE lock_token IS NOT NULL";
    counts(&schema, leased, 1);
    let began = Instant::now();
    let waits = there.claim_work(any_work(1, LEASE / 2));
    drop(claim);
    drop(here);
    assert_eq!(waits.await.unwrap().len(), 1);
    assert!(began.elapsed() < SOON, "not when the lease had run out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_sends_as_soon_as_it_is_there_wakes_the_others() {
    let schema = Schema::new();
    // Polling would find it, much later.
    let options = duroxide_pg::PostgresOptions {
        poll_interval: LEASE,
        ..duroxide_pg::PostgresOptions::default()
    };
    let there = schema.open_with(options).await;
    there
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let turn = there.claim_turns(TurnClaim::new(1, LEASE, SOON)).await;
    assert_eq!(turn.unwrap().len(), 1);
    let claim =
        tokio::spawn(async move { there.claim_turns(TurnClaim::new(1, LEASE, SOON)).await });
    let here = schema.open().await;
    here.enqueue_for_orchestrator(start("b"), None)
        .await
        .unwrap();
    drop(here);
    let found = claim.await.unwrap().unwrap();
    assert_eq!(found.len(), 1, "a notice came");
}
