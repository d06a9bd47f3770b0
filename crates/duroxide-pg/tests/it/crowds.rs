//! Many processes and many calls at once, and what is in each other's way.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{ExecutionMetadata, Provider, TurnClaim, WorkItem};
use duroxide_pg::PostgresOptions;
use futures::future::join_all;

use crate::support::Schema;

const LEASE: Duration = Duration::from_secs(30);

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Orch".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn started(instance: &str) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Orch".to_owned(),
        version: "1.0.0".to_owned(),
        input: "{}".to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    Event::with_event_id(1, instance, 1, None, kind)
}

fn raised(instance: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "go".to_owned(),
        data: "{}".to_owned(),
    }
}

fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Orch".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

/// Turns of two processes that send to each other's instances, with renewals and new messages in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn renewals_claims_and_commits_in_any_order_do_not_deadlock() {
    let schema = Schema::new();
    let stores = [Arc::new(schema.open().await), Arc::new(schema.open().await)];
    let ids: Vec<String> = (0..24).map(|n| format!("i-{n}")).collect();
    join_all(
        ids.iter()
            .map(|id| stores[0].enqueue_for_orchestrator(start(id), None)),
    )
    .await;
    let mut turns = Vec::new();
    for store in &stores {
        let claim = TurnClaim::new(12, LEASE, Duration::from_secs(5));
        for turn in store.claim_turns(claim).await.unwrap() {
            turns.push((Arc::clone(store), turn));
        }
    }
    assert_eq!(turns.len(), ids.len());
    let work = turns.iter().enumerate().map(|(n, (store, turn))| {
        let other = &stores[n % 2];
        let to: Vec<WorkItem> = (1..4)
            .map(|step| raised(&ids[(n * 7 + step * 5) % ids.len()]))
            .collect();
        async move {
            let token = &turn.lock_token;
            let id = &turn.item.instance;
            let sent = other.enqueue_for_orchestrator(raised(id), None);
            let renewed = store.renew_orchestration_item_lock(token, LEASE);
            let (sent, renewed) = tokio::join!(sent, renewed);
            sent.unwrap();
            renewed.unwrap();
            store
                .ack_orchestration_item(token, 1, vec![started(id)], vec![], to, named(), vec![])
                .await
                .unwrap();
        }
    });
    tokio::time::timeout(Duration::from_secs(20), join_all(work))
        .await
        .expect("no deadlock");
    // Every message is delivered: four for each instance, those that came before its commit and those after it.
    let mut delivered = 0;
    while delivered < ids.len() * 4 {
        let claim = TurnClaim::new(24, LEASE, Duration::from_secs(5));
        let found = stores[1].claim_turns(claim).await.unwrap();
        assert!(!found.is_empty(), "{delivered} delivered");
        for turn in found {
            delivered += turn.item.messages.len();
            let none = ExecutionMetadata::default();
            let done = stores[1].ack_orchestration_item(
                &turn.lock_token,
                1,
                vec![],
                vec![],
                vec![],
                none,
                vec![],
            );
            done.await.unwrap();
        }
    }
}

/// One turn of many that are committed at once has lost its lease, and one records an event twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_that_fails_fails_alone() {
    let schema = Schema::new();
    let store = schema.open().await;
    for n in 0..16 {
        let id = format!("i-{n}");
        store
            .enqueue_for_orchestrator(start(&id), None)
            .await
            .unwrap();
    }
    let claim = TurnClaim::new(16, LEASE, Duration::ZERO);
    let turns = store.claim_turns(claim).await.unwrap();
    assert_eq!(turns.len(), 16);
    store
        .abandon_orchestration_item(&turns[3].lock_token, None, false)
        .await
        .unwrap();
    let twice = &turns[9].item.instance;
    store
        .append_with_execution(twice, 1, vec![started(twice)])
        .await
        .unwrap();
    let commits = turns.iter().map(|turn| {
        let events = vec![started(&turn.item.instance)];
        store.ack_orchestration_item(&turn.lock_token, 1, events, vec![], vec![], named(), vec![])
    });
    for (n, done) in join_all(commits).await.into_iter().enumerate() {
        match n {
            3 => assert!(done.unwrap_err().is_lease_lost()),
            9 => {
                let error = done.unwrap_err();
                assert!(!error.is_lease_lost() && !error.is_retryable(), "{error}");
                assert!(error.message.contains("event 1"), "{error}");
            }
            _ => done.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_waited_for_without_filling_the_pool() {
    let schema = Schema::new();
    let small = PostgresOptions {
        pool_size: 5,
        ..PostgresOptions::default()
    };
    let store = schema.open_with(small).await;
    let mut watches: Vec<_> = (0..64)
        .map(|n| store.watch_instance(&format!("i-{n}")).unwrap())
        .collect();
    let waiting = join_all(watches.iter_mut().map(|watch| watch.changed()));
    let polling = join_all((0..16).map(|_| store.fetch_orchestration_item(LEASE, LEASE, None)));
    // Those that wait are polled first. Each round trip gives them the time to take what connections they want.
    let reads = async {
        for _ in 0..20 {
            assert!(store.read("i-1").await.unwrap().is_empty());
        }
    };
    tokio::select! {
        biased;
        _ = waiting => {}
        _ = polling => {}
        () = reads => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_listener_work_of_others_is_found_within_a_second() {
    let schema = Schema::new();
    let deaf = PostgresOptions {
        listen: false,
        ..PostgresOptions::default()
    };
    let (here, there) = (schema.open_with(deaf).await, schema.open().await);
    assert!(!here.is_listening() && there.is_listening());
    let at_once = here.fetch_orchestration_item(LEASE, Duration::ZERO, None);
    assert!(at_once.await.unwrap().is_none(), "its first look is over");
    let waiting = here.fetch_orchestration_item(LEASE, Duration::from_secs(20), None);
    let sending = async {
        there
            .enqueue_for_orchestrator(start("a"), None)
            .await
            .unwrap();
        std::time::Instant::now()
    };
    let (found, sent) = tokio::join!(waiting, sending);
    assert!(found.unwrap().is_some());
    assert!(
        sent.elapsed() < Duration::from_millis(1_500),
        "{:?}",
        sent.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_prepared_statements_everything_works() {
    let schema = Schema::new();
    let plain = PostgresOptions {
        prepared_statements: false,
        ..PostgresOptions::default()
    };
    let store = schema.open_with(plain).await;
    store
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let (item, token, _) = store
        .fetch_orchestration_item(LEASE, Duration::ZERO, None)
        .await
        .unwrap()
        .unwrap();
    let events = vec![started(&item.instance)];
    store
        .ack_orchestration_item(&token, 1, events, vec![], vec![], named(), vec![])
        .await
        .unwrap();
    assert_eq!(store.read("a").await.unwrap().len(), 1);
}
