//! Calls that meet: in one exchange, in two transactions at once, or in a transaction of an application that stays
//! open.

use std::time::Duration;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{ExecutionMetadata, Provider, ProviderAdmin, TurnClaim, WorkItem};
use duroxide_pg::{PostgresOptions, Within};
use futures::future::join_all;

use crate::support::{HeldRows, Schema, connect};

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);

pub(crate) fn start(instance: &str) -> WorkItem {
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

pub(crate) fn raised(instance: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "go".to_owned(),
        data: "{}".to_owned(),
    }
}

pub(crate) fn started(instance: &str) -> Vec<Event> {
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
    vec![Event::with_event_id(1, instance, 1, None, kind)]
}

pub(crate) fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Orch".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

fn ended() -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some("Completed".to_owned()),
        output: Some("done".to_owned()),
        ..named()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_share_an_exchange_with_the_commit_of_their_instance_are_delivered() {
    let schema = Schema::new();
    let store = schema.open().await;
    let ids: Vec<String> = (0..64).map(|n| format!("i-{n}")).collect();
    join_all(
        ids.iter()
            .map(|id| store.enqueue_for_orchestrator(start(id), None)),
    )
    .await;
    let mut turns = Vec::new();
    while turns.len() < ids.len() {
        let found = store
            .claim_turns(TurnClaim::new(64, LEASE, SOON))
            .await
            .unwrap();
        assert!(!found.is_empty());
        turns.extend(found);
    }
    // More than two exchanges carry: the rest of them waits, and goes together.
    join_all(turns.iter().map(|turn| {
        let id = turn.item.instance.as_str();
        let (token, store) = (&turn.lock_token, &store);
        async move {
            let commit = store.ack_orchestration_item(
                token,
                1,
                started(id),
                vec![],
                vec![],
                named(),
                vec![],
            );
            let (sent, committed) =
                tokio::join!(store.enqueue_for_orchestrator(raised(id), None), commit);
            sent.unwrap();
            committed.unwrap();
        }
    }))
    .await;
    let mut delivered = 0;
    while delivered < ids.len() {
        let found = store
            .claim_turns(TurnClaim::new(64, LEASE, SOON))
            .await
            .unwrap();
        assert!(
            !found.is_empty(),
            "{delivered} of {} were delivered",
            ids.len()
        );
        delivered += found.len();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_meets_the_deletion_of_its_id_is_run() {
    let schema = Schema::new();
    let (here, there) = (schema.open().await, schema.open().await);
    for round in 0..25 {
        let id = format!("again-{round}");
        here.enqueue_for_orchestrator(start(&id), None)
            .await
            .unwrap();
        let turn = here
            .fetch_orchestration_item(LEASE, SOON, None)
            .await
            .unwrap();
        let (_, token, _) = turn.expect("the first life");
        here.ack_orchestration_item(&token, 1, started(&id), vec![], vec![], ended(), vec![])
            .await
            .unwrap();
        let (deleted, sent) = tokio::join!(
            here.delete_instance(&id, false),
            there.enqueue_for_orchestrator(start(&id), None)
        );
        sent.unwrap();
        // The start came first and went with the instance, or it begins the next life. It is not left without anybody
        // to see it.
        deleted.unwrap();
        let queued = schema.shell("SELECT count(*) FROM {s}.orchestrator_queue");
        let seen = schema.shell(
            "SELECT count(*) FROM {s}.orchestrator_queue AS q JOIN {s}.inboxes AS b ON b.instance_id = q.instance_id",
        );
        assert_eq!(queued, seen, "round {round}");
        if queued > 0 {
            let turn = there
                .fetch_orchestration_item(LEASE, SOON, None)
                .await
                .unwrap();
            let (_, token, _) = turn.expect("the second life");
            there
                .ack_orchestration_item(&token, 1, started(&id), vec![], vec![], ended(), vec![])
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_an_application_leaves_open_stops_nobody() {
    let schema = Schema::new();
    let store = schema.open().await;
    store
        .enqueue_for_orchestrator(start("x"), None)
        .await
        .unwrap();
    let (_, token, _) = store
        .fetch_orchestration_item(LEASE, SOON, None)
        .await
        .unwrap()
        .unwrap();
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let within = Within::new(&tx, &schema.0).unwrap();
    within.raise_event("x", "paid", "12").await.unwrap();
    within.start_orchestration("y", "Orch", "{}").await.unwrap();
    // The application takes its time; the turn of `x` and a start of `y` do not wait for it.
    let work = async {
        store
            .renew_orchestration_item_lock(&token, LEASE)
            .await
            .unwrap();
        store
            .ack_orchestration_item(&token, 1, started("x"), vec![], vec![], named(), vec![])
            .await
            .unwrap();
        store
            .enqueue_for_orchestrator(raised("x"), None)
            .await
            .unwrap();
        store
            .enqueue_for_orchestrator(start("y"), None)
            .await
            .unwrap();
        store
            .claim_turns(TurnClaim::new(8, LEASE, SOON))
            .await
            .unwrap()
    };
    let found = tokio::time::timeout(SOON, work)
        .await
        .expect("nobody waits for the application");
    assert_eq!(found.len(), 2);
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_that_somebody_holds_for_long_holds_up_its_own_instance_only() {
    let schema = Schema::new();
    let store = schema.open().await;
    store
        .enqueue_for_orchestrator(start("held"), None)
        .await
        .unwrap();
    let rows = HeldRows::lock(&schema, "inboxes").await;
    let to_held = join_all((0..8).map(|_| store.enqueue_for_orchestrator(raised("held"), None)));
    let to_others = async {
        let ids: Vec<String> = (0..8).map(|n| format!("free-{n}")).collect();
        join_all(
            ids.iter()
                .map(|id| store.enqueue_for_orchestrator(start(id), None)),
        )
        .await
    };
    let both = async { tokio::join!(to_held, to_others) };
    let (held, others) = tokio::time::timeout(SOON, both)
        .await
        .expect("an answer for everybody");
    assert!(
        held.iter()
            .all(|sent| sent.as_ref().is_err_and(|error| error.is_retryable()))
    );
    assert!(others.iter().all(Result::is_ok), "{others:?}");
    rows.release().await;
    store
        .enqueue_for_orchestrator(raised("held"), None)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_a_shell_holds_fails_the_commit_of_its_instance_alone_and_it_can_be_repeated() {
    let schema = Schema::new();
    let store = schema.open().await;
    let ids = ["free", "held"];
    let starts = ids.map(|id| store.enqueue_for_orchestrator(start(id), None));
    join_all(starts).await;
    let mut turns = Vec::new();
    while turns.len() < ids.len() {
        let claim = TurnClaim::new(8, LEASE, SOON);
        turns.extend(store.claim_turns(claim).await.unwrap());
    }
    turns.sort_by(|one, other| one.item.instance.cmp(&other.item.instance));
    let [free, held] = [0, 1].map(|n| turns[n].lock_token.as_str());
    let rows = HeldRows::lock(&schema, "inboxes WHERE instance_id = 'held'").await;
    let commit = |token, id| {
        store.ack_orchestration_item(token, 1, started(id), vec![], vec![], named(), vec![])
    };
    let round = async {
        let renewals = async {
            let began = std::time::Instant::now();
            for _ in 0..10 {
                let renewed = store.renew_orchestration_item_lock(free, LEASE);
                renewed.await.unwrap();
            }
            let took = began.elapsed();
            assert!(
                took < Duration::from_millis(2_500),
                "{took:?} for ten renewals"
            );
            commit(free, "free").await.unwrap();
        };
        let held = async {
            for _ in 0..2 {
                let refused = commit(held, "held").await.unwrap_err();
                assert!(refused.is_retryable(), "{refused}");
            }
        };
        tokio::join!(renewals, held)
    };
    let done = tokio::time::timeout(SOON, round).await;
    done.expect("nobody waits as long as the shell");
    let none = TurnClaim::new(1, LEASE, Duration::ZERO);
    assert!(store.claim_turns(none).await.unwrap().is_empty());
    rows.release().await;
    commit(held, "held").await.unwrap();
    assert_eq!(store.read("held").await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_messages_for_nobody_than_a_claim_settles_do_not_hold_up_the_others() {
    let schema = Schema::new();
    let impatient = PostgresOptions {
        unknown_instance_grace: Duration::ZERO,
        ..PostgresOptions::default()
    };
    let store = schema.open_with(impatient).await;
    schema.shell(
        "INSERT INTO {s}.inboxes (instance_id, lane, ready_at) SELECT 'stray-' || n, '', 1 FROM generate_series(1, 2500) AS n",
    );
    schema.shell(
        "INSERT INTO {s}.orchestrator_queue (instance_id, visible_at, kind, work_item, created_at)
         SELECT 'stray-' || n, 1, 'ExternalRaised', '{}', 1 FROM generate_series(1, 2500) AS n",
    );
    store
        .enqueue_for_orchestrator(start("real"), None)
        .await
        .unwrap();
    let found = store
        .fetch_orchestration_item(LEASE, SOON, None)
        .await
        .unwrap();
    assert_eq!(found.expect("behind the strays").0.instance, "real");
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.dead_letters"), 2_500);
}

#[tokio::test]
async fn timers_are_computed_with_the_clock_of_the_server() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.shell(
        "CREATE OR REPLACE FUNCTION {s}.server_ms(moment timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
         $$ SELECT (extract(epoch FROM moment) * 1000)::bigint + 3600000 $$",
    );
    let told = store
        .clock_ms()
        .await
        .unwrap()
        .expect("a server has a clock");
    let here = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let ahead = i128::from(told) - i128::try_from(here.as_millis()).unwrap();
    assert!((3_500_000..3_700_000).contains(&ahead), "{ahead}");
}

#[tokio::test]
async fn what_nobody_could_deliver_is_refused_in_the_application_s_transaction() {
    let schema = Schema::new();
    drop(schema.open().await);
    let client = connect().await;
    for call in [
        "raise_event('a', NULL, '1')",
        "raise_event('a', 'paid', NULL)",
        "enqueue_event('a', 'notes', NULL)",
        "cancel_instance('a', NULL)",
        "start_orchestration('', 'Orch', '{}')",
        "start_orchestration('order::sub::2', 'Orch', '{}')",
        "start_orchestration('a', 'Orch', NULL)",
    ] {
        let sql = format!("SELECT {}.{call}", schema.0);
        assert!(client.execute(&sql, &[]).await.is_err(), "{call}");
    }
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.arrivals"), 0);
}
