//! Starts and events inside the application's own transaction.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide_core::TERMINATE_PREFIX;
use duroxide_core::limits::{DEFAULT_PAYLOAD_BYTES_MAX, MAX_INSTANCE_ID_BYTES};
use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{HandOut, Provider, TurnClaim, WorkItem};
use duroxide_sqlite::rusqlite::{Connection, Transaction, TransactionBehavior};
use duroxide_sqlite::{SqliteError, SqliteOptions, SqliteProvider, Tuning, Within};

use crate::processes::{child, file_of_parent};
use crate::support::*;

const LONG: Duration = Duration::from_secs(30);
/// Far below `LONG`, far above what a loaded machine needs: only a commit that is not noticed takes longer.
const SOON: Duration = Duration::from_secs(10);

/// A store, and the application's own connection to its file, with a table of orders.
struct Shop {
    store: SqliteProvider,
    conn: Connection,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Shop {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let store = file_store(&path).await;
        let conn = shell(&path);
        conn.execute_batch("CREATE TABLE shop_orders (id TEXT PRIMARY KEY)")
            .unwrap();
        Self {
            store,
            conn,
            path,
            _folder: folder,
        }
    }

    fn begin(&mut self) -> Transaction<'_> {
        let kind = TransactionBehavior::Immediate;
        self.conn.transaction_with_behavior(kind).unwrap()
    }

    /// Commits an order and the start of its orchestration.
    fn order(&mut self, id: &str) {
        let tx = self.begin();
        insert(&tx, id);
        Within::new(&tx)
            .unwrap()
            .start_orchestration(id, "Order", "{}")
            .unwrap();
        tx.commit().unwrap();
    }

    fn orders(&self) -> i64 {
        let count = "SELECT COUNT(*) FROM shop_orders";
        self.conn.query_row(count, [], |row| row.get(0)).unwrap()
    }

    async fn queued(&self) -> usize {
        let depths = admin(&self.store).get_queue_depths().await.unwrap();
        depths.orchestrator_queue
    }
}

fn insert(tx: &Transaction<'_>, order: &str) {
    tx.execute("INSERT INTO shop_orders VALUES (?1)", [order])
        .unwrap();
}

fn refused(answer: Result<(), SqliteError>) -> String {
    match answer {
        Err(SqliteError::Contract(refusal @ Refusal::Unstorable { .. })) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_order_and_its_orchestration_are_committed_together() {
    let mut shop = Shop::open().await;
    let tx = shop.begin();
    insert(&tx, "order-7");
    let within = Within::new(&tx).unwrap();
    within
        .start_orchestration_versioned("order-7", "Order", "1.0.0", "{\"a\": \"b\\c\"}")
        .unwrap();
    within.raise_event("order-7", "paid", "12").unwrap();
    within.enqueue_event("order-7", "notes", "hurry").unwrap();
    drop(within);
    tx.commit().unwrap();
    assert_eq!(shop.orders(), 1);
    let (item, _, _) = fetch(&shop.store).await.expect("it is committed");
    assert_eq!(item.orchestration_name, "Order");
    let [
        WorkItem::StartOrchestration { input, version, .. },
        WorkItem::ExternalRaised { name, data, .. },
        WorkItem::QueueMessage {
            name: queue,
            data: note,
            ..
        },
    ] = &item.messages[..]
    else {
        panic!("{:?}", item.messages);
    };
    assert_eq!(
        (input.as_str(), version.as_deref()),
        ("{\"a\": \"b\\c\"}", Some("1.0.0"))
    );
    assert_eq!((name.as_str(), data.as_str()), ("paid", "12"));
    assert_eq!((queue.as_str(), note.as_str()), ("notes", "hurry"));
}

#[tokio::test]
async fn an_order_and_its_orchestration_are_rolled_back_together() {
    let mut shop = Shop::open().await;
    create(&shop.store, "order-7").await;
    let tx = shop.begin();
    insert(&tx, "order-8");
    let within = Within::new(&tx).unwrap();
    within
        .start_orchestration("order-8", "Order", "{}")
        .unwrap();
    within
        .cancel_instance("order-7", "changed my mind")
        .unwrap();
    drop(within);
    tx.rollback().unwrap();
    assert_eq!((shop.orders(), shop.queued().await), (0, 0));
    assert!(fetch(&shop.store).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_same_process_is_woken_by_the_commit() {
    let mut shop = Shop::open().await;
    let waiting = shop.store.fetch_orchestration_item(LEASE, LONG, None);
    let other = shell(&shop.path);
    let ordering = tokio::task::spawn_blocking(move || {
        let mut conn = other;
        let tx = conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let within = Within::new(&tx).unwrap();
        within
            .start_orchestration("order-7", "Order", "{}")
            .unwrap();
        drop(within);
        tx.commit().unwrap();
        Instant::now()
    });
    let (found, committed) = tokio::join!(waiting, ordering);
    let taken = committed.unwrap().elapsed();
    assert_eq!(found.unwrap().expect("woken").0.instance, "order-7");
    assert!(taken < SOON, "{taken:?}");
    // Nothing of it is left behind for a later transaction.
    shop.order("order-8");
    assert_eq!(shop.queued().await, 1);
}

#[tokio::test]
async fn a_store_of_another_process_is_woken_by_the_commit() {
    let mut shop = Shop::open().await;
    shop.store.close().await;
    let mut peer = child("within::child_that_waits_for_an_order", &shop.path);
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    let mut until = |wanted: &str| {
        lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.starts_with(wanted))
            .unwrap_or_else(|| panic!("the child ended before it said `{wanted}`"))
    };
    until("waits");
    let committed = Instant::now();
    shop.order("order-7");
    assert_eq!(until("took"), "took order-7");
    assert!(committed.elapsed() < SOON, "{:?}", committed.elapsed());
    assert!(peer.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by its parent test"]
async fn child_that_waits_for_an_order() {
    let store = Arc::new(file_store(&file_of_parent()).await);
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.fetch_orchestration_item(LEASE, LONG, None).await }
    });
    println!("waits");
    let (item, _, _) = waiting.await.unwrap().unwrap().expect("an order");
    println!("took {}", item.instance);
}

#[tokio::test]
async fn a_closed_store_takes_nothing_within_a_transaction() {
    let mut shop = Shop::open().await;
    let closing = admin(&shop.store).close_store(None, Some("it moved"));
    closing.await.unwrap().expect("this store can be closed");
    let tx = shop.begin();
    insert(&tx, "order-7");
    let reason = "it moved".to_owned();
    assert_eq!(
        Within::new(&tx).unwrap_err(),
        SqliteError::Contract(Refusal::Closed { reason })
    );
    // What the application does about it is its own affair.
    tx.commit().unwrap();
    assert_eq!((shop.orders(), shop.queued().await), (1, 0));
}

#[tokio::test]
async fn a_file_of_another_schema_takes_nothing() {
    let mut shop = Shop::open().await;
    shop.store.close().await;
    let path = std::fs::canonicalize(&shop.path).unwrap();
    for (version, expected) in [(99, "D0508"), (3, "D0509")] {
        shop.conn
            .pragma_update(None, "user_version", version)
            .unwrap();
        let tx = shop.begin();
        let error = Within::new(&tx).unwrap_err();
        assert_eq!(error.code(), expected, "{error}");
        let named = path.display().to_string();
        assert!(error.to_string().contains(&named), "{error}");
    }
}

#[test]
fn a_file_that_is_of_no_store_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let begin_on = |mut conn: Connection| {
        conn.execute_batch("CREATE TABLE mine (id)").unwrap();
        let tx = conn.transaction().unwrap();
        Within::new(&tx).unwrap_err()
    };
    let error = begin_on(shell(&folder.path().join("mine.db")));
    assert_eq!(error.code(), "D0507", "{error}");
    let error = begin_on(Connection::open_in_memory().unwrap());
    assert!(error.to_string().contains("in memory"), "{error}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left beside the file: {left:?}");
}

#[tokio::test]
async fn a_store_that_must_have_its_file_alone_shares_it_with_no_application() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let options = SqliteOptions {
        tuning: Tuning {
            writer_checkpoints_alone: true,
            ..Tuning::default()
        },
        ..SqliteOptions::default()
    };
    let store = SqliteProvider::new(&url(&path), Some(options))
        .await
        .unwrap();
    let mut conn = shell(&path);
    let tx = conn.transaction().unwrap();
    let error = Within::new(&tx).unwrap_err();
    assert!(matches!(error, SqliteError::InUse { .. }), "{error}");
    drop(tx);
    store.close().await;
    let tx = conn.transaction().unwrap();
    Within::new(&tx).unwrap();
}

#[tokio::test]
async fn what_no_client_may_send_is_refused_and_the_transaction_goes_on() {
    let mut shop = Shop::open().await;
    let tx = shop.begin();
    insert(&tx, "order-7");
    let within = Within::new(&tx).unwrap();
    let (long, large) = (
        "x".repeat(MAX_INSTANCE_ID_BYTES + 1),
        "x".repeat(DEFAULT_PAYLOAD_BYTES_MAX + 1),
    );
    for id in ["", long.as_str()] {
        refused(within.start_orchestration(id, "Order", "{}"));
        refused(within.raise_event(id, "paid", "12"));
        refused(within.enqueue_event(id, "notes", "12"));
        refused(within.cancel_instance(id, "why"));
    }
    for child in ["sub::1", "order-7::sub::2"] {
        let why = refused(within.start_orchestration(child, "Order", "{}"));
        assert!(why.contains("belong to children"), "{why}");
    }
    refused(within.start_orchestration("a", "", "{}"));
    refused(within.start_orchestration("a", "Order", &large));
    refused(within.start_orchestration_versioned("a", "Order", &large, "{}"));
    refused(within.raise_event("a", "paid", &large));
    refused(within.enqueue_event("a", "notes", &large));
    refused(within.cancel_instance("a", &large));
    for queue in [
        "duroxide:rewind",
        "duroxide:keys",
        "duroxide:labels",
        "duroxide:start",
    ] {
        let why = refused(within.enqueue_event("a", queue, "\"ask_again\""));
        assert!(why.contains("the engine's own"), "{why}");
    }
    let why = refused(within.cancel_instance("a", &format!("{TERMINATE_PREFIX}now")));
    assert!(why.contains("reserved"), "{why}");
    within
        .start_orchestration("order-7", "Order", "{}")
        .unwrap();
    drop(within);
    tx.commit().unwrap();
    assert_eq!((shop.orders(), shop.queued().await), (1, 1));
}

#[tokio::test]
async fn a_text_that_looks_like_the_engines_own_stays_the_text_of_the_application() {
    let mut shop = Shop::open().await;
    let tx = shop.begin();
    let within = Within::new(&tx).unwrap();
    let forged = ["duroxide:labels:2:{}x", "duroxide:start:2:{}x"];
    for (n, input) in forged.iter().enumerate() {
        within
            .start_orchestration(&format!("order-{n}"), "Order", input)
            .unwrap();
    }
    within
        .enqueue_event("order-0", "notes", "duroxide:key:1:kx")
        .unwrap();
    drop(within);
    tx.commit().unwrap();
    for input in forged {
        let (item, _, _) = fetch(&shop.store).await.expect("a start");
        let WorkItem::StartOrchestration { input: sent, .. } = &item.messages[0] else {
            panic!("{:?}", item.messages);
        };
        let (extras, rest) = duroxide_core::StartExtras::of_input(sent.clone());
        let (labels, own) = duroxide_core::labels_of_input(rest);
        assert!(labels.is_empty() && extras == duroxide_core::StartExtras::default());
        assert_eq!(own, input);
        if let Some(WorkItem::QueueMessage { data, .. }) = item.messages.get(1) {
            let parts = duroxide_core::message_parts(data);
            assert_eq!(parts, (None, "duroxide:key:1:kx"));
        }
    }
}

#[tokio::test]
async fn a_transaction_that_sqlite_has_ended_sends_nothing() {
    let mut shop = Shop::open().await;
    let tx = shop.begin();
    insert(&tx, "order-7");
    let within = Within::new(&tx).unwrap();
    tx.execute("INSERT OR ROLLBACK INTO shop_orders VALUES ('order-7')", [])
        .unwrap_err();
    let error = within
        .start_orchestration("order-7", "Order", "{}")
        .unwrap_err();
    assert!(error.to_string().contains("was rolled back"), "{error}");
    assert!(Within::new(&tx).is_err());
    drop(within);
    drop(tx);
    assert_eq!((shop.orders(), shop.queued().await), (0, 0));
}

#[tokio::test]
async fn a_transaction_that_has_read_what_is_past_begins_again() {
    let mut shop = Shop::open().await;
    let store = file_store(&shop.path).await;
    let behind = shop.conn.transaction().unwrap();
    let count = "SELECT COUNT(*) FROM shop_orders";
    let _: i64 = behind.query_row(count, [], |row| row.get(0)).unwrap();
    create(&store, "a").await;
    assert_eq!(Within::new(&behind).unwrap_err(), SqliteError::Busy);
    drop(behind);
    shop.order("order-7");
    assert_eq!(shop.queued().await, 1);
}

#[tokio::test]
async fn a_failed_send_leaves_nothing_of_itself() {
    let mut shop = Shop::open().await;
    create(&shop.store, "a").await;
    send(&shop.store, raised("a", "one")).await;
    let (_, token, _) = fetch(&shop.store).await.unwrap();
    let rests = shop.store.rest_orchestration_item(&token, LONG, true);
    assert!(rests.await.unwrap());
    // The message is written before the rest ends.
    shop.conn
        .execute_batch(
            "CREATE TEMP TRIGGER no_end BEFORE DELETE ON main.rests BEGIN SELECT RAISE(FAIL, 'no'); END",
        )
        .unwrap();
    let tx = shop.begin();
    insert(&tx, "order-7");
    Within::new(&tx)
        .unwrap()
        .raise_event("a", "go", "two")
        .unwrap_err();
    tx.commit().unwrap();
    assert_eq!((shop.orders(), shop.queued().await), (1, 1));
}

#[tokio::test]
async fn a_message_of_an_application_ends_the_rest_of_its_instance() {
    let mut shop = Shop::open().await;
    create(&shop.store, "a").await;
    send(&shop.store, raised("a", "one")).await;
    let (_, token, _) = fetch(&shop.store).await.unwrap();
    let rests = shop.store.rest_orchestration_item(&token, LONG, true);
    assert!(rests.await.unwrap());
    assert!(fetch(&shop.store).await.is_none(), "it rests");
    let tx = shop.begin();
    Within::new(&tx)
        .unwrap()
        .raise_event("a", "go", "two")
        .unwrap();
    tx.commit().unwrap();
    let (item, _, _) = fetch(&shop.store).await.expect("its rest is over");
    assert_eq!(item.messages.len(), 2);
}

#[tokio::test]
async fn messages_carry_the_time_of_the_store_and_are_ready_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let store = SqliteProvider::new(&url(&path), Some(options))
        .await
        .unwrap();
    clock.advance(Duration::from_secs(3_600));
    create(&store, "a").await;
    let started_at = duroxide_core::clock::Clock::now_ms(&*clock);
    let mut conn = shell(&path);
    let tx = conn.transaction().unwrap();
    // A clock that is an hour behind.
    let within = Within::new(&tx).unwrap().with_clock(HandClock::new());
    within.raise_event("a", "go", "one").unwrap();
    drop(within);
    tx.commit().unwrap();
    let times: (i64, i64) = conn
        .query_row(
            "SELECT visible_at, created_at FROM orchestrator_queue",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let started_at = i64::try_from(started_at).unwrap();
    assert_eq!(times, (started_at, started_at));
    assert!(fetch(&store).await.is_some());
}

/// What the writer remembers of an instance (that nothing is queued for it, which message stands for it) and what it
/// leaves unwritten must not survive a commit of the application.
#[tokio::test]
async fn messages_of_applications_and_of_the_store_reach_an_instance_in_their_order() {
    let mut shop = Shop::open().await;
    create(&shop.store, "a").await;
    let mut last = 1;
    for round in 0..40 {
        let mut sent = Vec::new();
        for n in 0..3 {
            let data = format!("{round}.{n}");
            if (round + n) % 3 == 0 {
                let tx = shop.begin();
                let within = Within::new(&tx).unwrap();
                within.raise_event("a", "go", &data).unwrap();
                drop(within);
                tx.commit().unwrap();
            } else {
                send(&shop.store, raised("a", &data)).await;
            }
            sent.push(data);
        }
        let mut got = Vec::new();
        while got.len() < sent.len() {
            let claim = TurnClaim {
                hand_out: HandOut::BeforeCommit,
                ..TurnClaim::new(1, LEASE, SOON)
            };
            let turn = shop.store.claim_turns(claim).await.unwrap().remove(0);
            got.extend(turn.item.messages.iter().map(|message| match message {
                WorkItem::ExternalRaised { data, .. } => data.clone(),
                other => panic!("{other:?}"),
            }));
            last += 1;
            let kind = duroxide_core::event::EventKind::KeyValuesCleared;
            let events = vec![event("a", 1, last, kind)];
            ack(&shop.store, &turn.lock_token, 1, events, named()).await;
        }
        assert_eq!(got, sent, "round {round}");
    }
    assert!(fetch(&shop.store).await.is_none());
}

#[tokio::test]
async fn many_applications_and_a_busy_store_lose_nothing_and_do_nothing_twice() {
    const EACH: usize = 40;
    const APPLICATIONS: usize = 3;
    let shop = Shop::open().await;
    let applications: Vec<_> = (0..APPLICATIONS)
        .map(|application| {
            let path = shop.path.clone();
            std::thread::spawn(move || place_orders(&path, application, EACH))
        })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < APPLICATIONS * EACH {
        let claim = TurnClaim {
            hand_out: HandOut::BeforeCommit,
            ..TurnClaim::new(8, LEASE, SOON)
        };
        let turns = shop.store.claim_turns(claim).await.unwrap();
        assert!(!turns.is_empty(), "{} of them came", seen.len());
        for turn in turns {
            let id = turn.item.instance.clone();
            assert!(seen.insert(id.clone()), "{id} began twice");
            ack(
                &shop.store,
                &turn.lock_token,
                1,
                vec![started(&id)],
                named(),
            )
            .await;
        }
    }
    for application in applications {
        application.join().unwrap();
    }
    let committed = usize::try_from(shop.orders()).unwrap();
    assert_eq!((committed, shop.queued().await), (seen.len(), 0));
}

/// Every other order is rolled back.
fn place_orders(path: &Path, application: usize, count: usize) {
    let mut conn = shell(path);
    conn.busy_timeout(LONG).unwrap();
    for n in 0..2 * count {
        let tx = conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let id = format!("order-{application}-{n}");
        insert(&tx, &id);
        Within::new(&tx)
            .unwrap()
            .start_orchestration(&id, "Order", "{}")
            .unwrap();
        if n % 2 == 0 {
            tx.commit().unwrap();
        } else {
            tx.rollback().unwrap();
        }
    }
}
