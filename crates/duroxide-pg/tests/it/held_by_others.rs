//! What others hold, or what fails, costs only the calls that need it: renewals, claims and deletions beside it go on.

use std::time::{Duration, Instant};

use duroxide_core::provider::{
    InstanceFilter, Provider, ProviderAdmin, SessionFetchConfig, StartRule, Submission, Submitted,
    TurnClaim, WorkClaim, WorkItem,
};
use duroxide_pg::PostgresOptions;
use futures::future::join_all;

use crate::damage::{begin, send, turns};
use crate::meetings::{raised, start, started};
use crate::support::{HeldRows, Schema, connect};

const LEASE: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(10);

fn activity(id: u64, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        name: "Act".to_owned(),
        input: "{}".to_owned(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_claims_of_a_closed_store_hears_that_it_is_closed() {
    let schema = Schema::new();
    let store = schema.open().await;
    store.close_store(None, Some("moved")).await.unwrap();
    let began = Instant::now();
    let turns = join_all((0..4).map(|n| {
        let wait = if n % 2 == 0 { Duration::ZERO } else { SOON * 3 };
        store.claim_turns(TurnClaim::new(1, LEASE, wait))
    }));
    let work = join_all((0..4).map(|n| {
        let wait = if n % 2 == 0 { Duration::ZERO } else { SOON * 3 };
        store.claim_work(WorkClaim::new(1, LEASE, wait))
    }));
    let (turns, work) = tokio::time::timeout(SOON, async { tokio::join!(turns, work) })
        .await
        .expect("every claim is answered");
    for refused in turns {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("moved"), "{error}");
    }
    for refused in work {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("moved"), "{error}");
    }
    assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_stops_claims_of_activities_stops_no_claim_of_turns() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut client = connect().await;
    let holder = client.transaction().await.unwrap();
    let lock = format!("LOCK TABLE {}.worker_queue IN SHARE MODE", schema.0);
    store.enqueue_for_worker(activity(1, None)).await.unwrap();
    holder.batch_execute(&lock).await.unwrap();
    let work = async {
        // As the engine does: a claim that fails is made again.
        loop {
            let claim = WorkClaim::new(1, LEASE, SOON);
            if store.claim_work(claim).await.is_ok() {
                return;
            }
        }
    };
    let turn = async {
        for n in 0..3 {
            send(&store, start(&format!("i-{n}"))).await;
            let claimed = tokio::time::timeout(SOON / 2, turns(&store, 1));
            assert_eq!(claimed.await.expect("in time").len(), 1, "start {n}");
        }
    };
    tokio::select! {
        () = work => panic!("the table is locked"),
        () = turn => {}
    }
    holder.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_is_answered_at_once_though_others_are_held() {
    let schema = Schema::new();
    let store = schema.open().await;
    for id in 1..=10 {
        store.enqueue_for_worker(activity(id, None)).await.unwrap();
    }
    begin(&store, "free", started("free")).await;
    begin(&store, "held", started("held")).await;
    send(&store, raised("free")).await;
    send(&store, raised("held")).await;
    let mut found = Vec::new();
    while found.len() < 10 {
        found.extend(
            store
                .claim_work(WorkClaim::new(10, LEASE, SOON))
                .await
                .unwrap(),
        );
    }
    let mut claimed = Vec::new();
    while claimed.len() < 2 {
        claimed.extend(turns(&store, 2).await);
    }
    let rows = HeldRows::lock(&schema, "worker_queue ORDER BY id LIMIT 9").await;
    let inbox = HeldRows::lock(&schema, "inboxes WHERE instance_id = 'held'").await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let work = join_all(found.iter().map(async |work| {
            let asked = Instant::now();
            let renewed = store.renew_work_item_lock(&work.lock_token, LEASE).await;
            (renewed, asked.elapsed())
        }));
        let turns = join_all(claimed.iter().map(async |turn| {
            let asked = Instant::now();
            let token = &turn.lock_token;
            let renewed = store.renew_orchestration_item_lock(token, LEASE).await;
            (turn.item.instance.clone(), renewed, asked.elapsed())
        }));
        let (work, turns) = tokio::join!(work, turns);
        let renewed = work.iter().filter(|(renewed, _)| renewed.is_ok()).count();
        assert_eq!(renewed, 1, "the one that is not held");
        for (renewed, took) in work {
            assert!(took < Duration::from_secs(1), "{took:?}");
            if let Err(error) = renewed {
                assert!(error.is_retryable() && !error.is_lease_lost(), "{error}");
            }
        }
        for (instance, renewed, took) in turns {
            assert!(took < Duration::from_secs(1), "{instance}: {took:?}");
            assert_eq!(renewed.is_ok(), instance == "free", "{renewed:?}");
        }
    }
    rows.release().await;
    inbox.release().await;
    for work in &found {
        let renewed = store.renew_work_item_lock(&work.lock_token, LEASE).await;
        renewed.expect("its lease was never lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_row_is_held_costs_the_others_of_its_exchange_one_wait() {
    let schema = Schema::new();
    let store = schema.open().await;
    for id in 1..=12 {
        store.enqueue_for_worker(activity(id, None)).await.unwrap();
    }
    let mut found = Vec::new();
    while found.len() < 12 {
        let claim = WorkClaim::new(12, LEASE, SOON);
        found.extend(store.claim_work(claim).await.unwrap());
    }
    let rows = HeldRows::lock(&schema, "worker_queue ORDER BY id LIMIT 8").await;
    let began = Instant::now();
    let done = join_all(
        found
            .iter()
            .map(|work| store.ack_work_item(&work.lock_token, None)),
    );
    let done = tokio::time::timeout(SOON, done).await.expect("answers");
    let took = began.elapsed();
    assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 4, "{done:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    rows.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_session_keeps_no_plain_activity_from_being_claimed() {
    let schema = Schema::new();
    let store = schema.open().await;
    let claim = || WorkClaim {
        session: Some(SessionFetchConfig {
            owner_id: "worker".to_owned(),
            lock_timeout: LEASE,
        }),
        ..WorkClaim::new(5, LEASE, SOON)
    };
    store
        .enqueue_for_worker(activity(1, Some("s")))
        .await
        .unwrap();
    let first = store.claim_work(claim()).await.unwrap();
    assert_eq!(first.len(), 1);
    let rows = HeldRows::lock(&schema, "sessions").await;
    store
        .enqueue_for_worker(activity(2, Some("s")))
        .await
        .unwrap();
    store.enqueue_for_worker(activity(3, None)).await.unwrap();
    let found = tokio::time::timeout(SOON, store.claim_work(claim())).await;
    let found = found.expect("in time").expect("no error");
    assert_eq!(found.len(), 1, "the plain one");
    // The first one is completed, too: that its session was used is not worth waiting for.
    store
        .ack_work_item(&first[0].lock_token, None)
        .await
        .unwrap();
    rows.release().await;
    let found = store.claim_work(claim()).await.unwrap();
    assert_eq!(found.len(), 1, "that of the session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_lease_that_ran_out_keep_no_other_turn_from_being_claimed_while_they_are_held()
 {
    let schema = Schema::new();
    let store = schema.open().await;
    send(&store, start("held")).await;
    let claim = TurnClaim::new(1, Duration::from_millis(1), SOON);
    assert_eq!(store.claim_turns(claim).await.unwrap().len(), 1);
    let rows = HeldRows::lock(&schema, "orchestrator_queue").await;
    send(&store, start("free")).await;
    let found = tokio::time::timeout(SOON, turns(&store, 5)).await;
    let found = found.expect("in time");
    assert_eq!(found[0].item.instance, "free");
    rows.release().await;
    let found = turns(&store, 5).await;
    assert_eq!(found[0].item.instance, "held");
    assert_eq!(found[0].attempt_count, 2, "its attempt counts once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_sessions_use_up_no_place_of_a_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    let claim = |max| WorkClaim {
        session: Some(SessionFetchConfig {
            owner_id: "worker".to_owned(),
            lock_timeout: LEASE,
        }),
        ..WorkClaim::new(max, LEASE, SOON)
    };
    for id in 1..=3 {
        let bound = activity(id, Some("s"));
        store.enqueue_for_worker(bound).await.unwrap();
    }
    assert_eq!(store.claim_work(claim(1)).await.unwrap().len(), 1);
    let rows = HeldRows::lock(&schema, "sessions").await;
    store.enqueue_for_worker(activity(4, None)).await.unwrap();
    let found = tokio::time::timeout(SOON, store.claim_work(claim(2))).await;
    assert_eq!(found.expect("in time").unwrap().len(), 1, "the plain one");
    rows.release().await;
    assert_eq!(store.claim_work(claim(2)).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_held_is_asked_for_again_and_a_heartbeat_does_not_wait_for_it() {
    let schema = Schema::new();
    let store = schema.open().await;
    let bound = activity(1, Some("s"));
    store.enqueue_for_worker(bound).await.unwrap();
    let claim = WorkClaim {
        session: Some(SessionFetchConfig {
            owner_id: "worker".to_owned(),
            lock_timeout: LEASE,
        }),
        ..WorkClaim::new(1, LEASE, SOON)
    };
    let found = store.claim_work(claim).await.unwrap();
    let token = &found[0].lock_token;
    let renew = || store.renew_session_lock(&["worker"], LEASE, LEASE);
    let rows = HeldRows::lock(&schema, "sessions").await;
    let refused = renew().await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    let began = Instant::now();
    store
        .heartbeat_work_item(token, LEASE, 1, "half")
        .await
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
    rows.release().await;
    assert_eq!(renew().await.unwrap(), 1);
    let rows = HeldRows::lock(&schema, "worker_queue").await;
    let began = Instant::now();
    let refused = store.heartbeat_work_item(token, LEASE, 1, "more").await;
    assert!(refused.unwrap_err().is_retryable());
    assert!(began.elapsed() < Duration::from_secs(1));
    rows.release().await;
}

/// Until so many statements of stores with this name wait for a lock.
async fn until_waiting(schema: &Schema, many: i64) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND wait_event_type = 'Lock'",
        schema.0
    );
    let mut look = tokio::time::interval(Duration::from_millis(5));
    while schema.shell(&waiting) < many {
        look.tick().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_waited_while_its_root_was_replaced_takes_nothing_of_the_new_life() {
    let schema = Schema::new();
    let named = PostgresOptions {
        application_name: schema.0.clone(),
        ..PostgresOptions::default()
    };
    let store = schema.open_with(named).await;
    begin(&store, "order", started("order")).await;
    schema.shell("UPDATE {s}.executions SET status = 'Completed', completed_at = 1");
    let mut client = connect().await;
    // The replacement gives up after a second in which it had to wait: on a busy machine it is tried again.
    loop {
        let holder = client.transaction().await.unwrap();
        let lock = format!("LOCK TABLE {}.orchestrator_queue IN SHARE MODE", schema.0);
        holder.batch_execute(&lock).await.unwrap();
        let begins = Submission::start(start("order"), None, StartRule::ReplaceFinished, vec![]);
        let replace = store.submit(begins);
        let delete = async {
            until_waiting(&schema, 1).await;
            // It finds the old life, and waits for the inbox, which the replacement holds.
            let filter = InstanceFilter {
                instance_ids: Some(vec!["order".to_owned()]),
                ..InstanceFilter::default()
            };
            store.delete_instance_bulk(filter).await
        };
        let let_go = async {
            until_waiting(&schema, 2).await;
            holder.rollback().await.unwrap();
        };
        let (replaced, deleted, ()) = tokio::join!(replace, delete, let_go);
        let Ok(replaced) = replaced else {
            if deleted.is_ok_and(|it| it.instances_deleted > 0) {
                begin(&store, "order", started("order")).await;
                schema.shell("UPDATE {s}.executions SET status = 'Completed', completed_at = 1");
            }
            continue;
        };
        assert_eq!(replaced, Submitted::Replaced);
        assert_eq!(deleted.unwrap().instances_deleted, 0);
        break;
    }
    let found = turns(&store, 1).await;
    assert_eq!(found[0].item.instance, "order", "its next life begins");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_has_to_wait_for_long_fails_and_never_happens_later() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "held", started("held")).await;
    send(&store, raised("held")).await;
    let rows = HeldRows::lock(&schema, "inboxes").await;
    let refused = tokio::time::timeout(SOON, store.delete_instance("held", true));
    let refused = refused.await.expect("an answer").unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    rows.release().await;
    // Whatever the server still had to do for it would be done before this is answered.
    schema.shell("BEGIN; LOCK TABLE {s}.inboxes IN ACCESS EXCLUSIVE MODE; COMMIT");
    let found = turns(&store, 1).await;
    assert_eq!(found[0].item.instance, "held", "it is there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_applications_to_instances_that_are_held_keep_back_no_others() {
    let schema = Schema::new();
    let store = schema.open().await;
    for id in ["a", "b"] {
        begin(&store, id, started(id)).await;
    }
    for id in ["a", "b"] {
        send(&store, raised(id)).await;
    }
    drop(store);
    let rows = HeldRows::lock(&schema, "inboxes").await;
    schema.shell(
        "SELECT {s}.raise_event('a', 'go', n::text) FROM generate_series(1, 300) AS n;
         SELECT {s}.raise_event('b', 'go', '1'); SELECT {s}.start_orchestration('free', 'Order', '{}')",
    );
    let store = schema.open().await;
    let began = Instant::now();
    let found = turns(&store, 10).await;
    assert_eq!(found[0].item.instance, "free");
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    rows.release().await;
}

/// Beside others that fill every claim: the one that waits longest comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_more_messages_than_a_claim_may_take_is_not_passed_over() {
    let schema = Schema::new();
    let store = schema.open().await;
    let ids = ["crowded", "a", "b", "c", "d", "e"];
    for id in ids {
        begin(&store, id, started(id)).await;
    }
    for id in ids {
        let count = if id == "crowded" { 1_500 } else { 900 };
        let all = (0..count).map(|_| store.enqueue_for_orchestrator(raised(id), None));
        for sent in join_all(all).await {
            sent.unwrap();
        }
    }
    let first = turns(&store, 64).await;
    let ids: Vec<&str> = first.iter().map(|it| it.item.instance.as_str()).collect();
    assert!(ids.contains(&"crowded"), "{ids:?}");
    let taken: usize = first.iter().map(|turn| turn.item.messages.len()).sum();
    assert!(taken <= 5_000, "{taken} messages in one claim");
}
