//! Rows that PostgreSQL cannot read: they cost their own instance, and no claim of others, no listing and no message.

use std::time::Duration;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{
    InstanceQuery, Provider, ProviderAdmin, TagFilter, TurnClaim, WorkClaim, WorkItem,
};
use duroxide_pg::{PostgresProvider, Within};

use crate::meetings::{named, raised, start, started};
use crate::support::{Schema, connect};

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);

/// So large that PostgreSQL keeps it outside of its row.
fn large() -> String {
    "x".repeat(100_000)
}

impl Schema {
    /// Values of this column that are large are kept outside of their rows, as they are.
    fn keep_outside(&self, table: &str, column: &str) {
        self.shell(&format!(
            "ALTER TABLE {{s}}.{table} ALTER COLUMN {column} SET STORAGE EXTERNAL"
        ));
    }

    /// Loses what the rows of a table keep outside of themselves, as a damaged page of it does.
    fn lose_large_values(&self, table: &str) {
        let schema = &self.0;
        // A database has an extension once, so one test at a time uses it, and leaves nothing behind.
        self.shell(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock(4711); CREATE EXTENSION pg_surgery SCHEMA {schema};
             DO $$
             DECLARE
                 outside regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = '{schema}.{table}'::regclass);
                 places tid[];
             BEGIN
                 EXECUTE format('SELECT array_agg(ctid) FROM %s', outside) INTO places;
                 PERFORM {schema}.heap_force_kill(outside, places);
             END $$;
             DROP EXTENSION pg_surgery; COMMIT"
        ));
    }
}

async fn send(store: &PostgresProvider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.unwrap();
}

async fn turns(store: &PostgresProvider, max: usize) -> Vec<duroxide_core::provider::ClaimedTurn> {
    let claim = TurnClaim::new(max, LEASE, SOON);
    store.claim_turns(claim).await.unwrap()
}

async fn nothing_is_left(store: &PostgresProvider) {
    let none = TurnClaim::new(1, LEASE, Duration::ZERO);
    let left = store.claim_turns(none).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// An instance that runs, with these events.
async fn begin(store: &PostgresProvider, id: &str, history: Vec<Event>) {
    send(store, start(id)).await;
    let turn = turns(store, 1).await.pop().expect("its start");
    store
        .ack_orchestration_item(
            &turn.lock_token,
            1,
            history,
            vec![],
            vec![],
            named(),
            vec![],
        )
        .await
        .unwrap();
}

fn large_message(id: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: id.to_owned(),
        name: "go".to_owned(),
        data: large(),
    }
}

fn activity(id: u64, input: String) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "hit".to_owned(),
        execution_id: 1,
        id,
        name: "Act".to_owned(),
        input,
        session_id: None,
        tag: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_read_costs_its_instance_and_no_other_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("orchestrator_queue", "work_item");
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    send(&store, large_message("hit")).await;
    send(&store, raised("fine")).await;
    schema.lose_large_values("orchestrator_queue");

    let found = turns(&store, 10).await;
    let ids: Vec<&str> = found.iter().map(|it| it.item.instance.as_str()).collect();
    assert_eq!(ids, ["fine"]);
    nothing_is_left(&store).await;
    let note = store
        .block_note("hit")
        .await
        .unwrap()
        .expect("it is blocked");
    assert!(note.blocked.report.contains("missing chunk"), "{note:?}");
    assert!(store.block_note("fine").await.unwrap().is_none());
    // A new message of the instance does not bring the damage back into the claims of others.
    send(&store, raised("hit")).await;
    nothing_is_left(&store).await;
    // Nothing of it was changed: it goes on when an operator has mended it.
    let mended = serde_json::to_string(&raised("hit")).unwrap();
    schema.shell(&format!(
        "UPDATE {{s}}.orchestrator_queue SET work_item = '{mended}' WHERE octet_length(work_item) > 90000;
         UPDATE {{s}}.inboxes SET locked_until = 0 WHERE instance_id = 'hit'"
    ));
    let found = turns(&store, 10).await;
    assert_eq!(found[0].item.messages.len(), 2);
    assert_eq!(found[0].attempt_count, 1, "its rest is no attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_cannot_be_read_costs_no_other_activity() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("worker_queue", "work_item");
    begin(&store, "hit", started("hit")).await;
    store
        .enqueue_for_worker(activity(2, large()))
        .await
        .unwrap();
    store
        .enqueue_for_worker(activity(3, "1".into()))
        .await
        .unwrap();
    schema.lose_large_values("worker_queue");

    let found = store
        .claim_work(WorkClaim::new(10, LEASE, SOON))
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].item, activity(3, "1".into()));
    let left = store
        .fetch_work_item(LEASE, Duration::ZERO, None, &TagFilter::Any)
        .await;
    assert!(left.unwrap().is_none());
    let note = store
        .block_note("hit")
        .await
        .unwrap()
        .expect("it is blocked");
    assert!(note.blocked.report.contains("activity 2"), "{note:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_cannot_be_read_is_reported_and_holds_up_no_other() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("history", "event_data");
    let mut history = started("hit");
    history.push(Event::with_event_id(
        2,
        "hit",
        1,
        None,
        EventKind::ExternalEvent {
            name: "go".to_owned(),
            data: large(),
        },
    ));
    begin(&store, "hit", history).await;
    begin(&store, "fine", started("fine")).await;
    schema.lose_large_values("history");
    send(&store, raised("hit")).await;
    send(&store, raised("fine")).await;

    let mut found = turns(&store, 10).await;
    if found.len() < 2 {
        found.extend(turns(&store, 10).await);
    }
    found.sort_by(|one, other| one.item.instance.cmp(&other.item.instance));
    let [fine, hit] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (fine.item.history.len(), &fine.item.history_error),
        (1, &None)
    );
    let why = hit.item.history_error.as_deref().expect("a report");
    assert!(why.contains("missing chunk"), "{why}");
    let error = store.read("hit").await.unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_names_the_instance_that_cannot_be_read_and_shows_the_others() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("instances", "custom_status");
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    schema.shell(&format!(
        "UPDATE {{s}}.instances SET custom_status = '{}' WHERE instance_id = 'hit'",
        large()
    ));
    schema.lose_large_values("instances");

    let page = store
        .query_instances(&InstanceQuery::default())
        .await
        .unwrap();
    let status = |id: &str| {
        let found = page.items.iter().find(|it| it.instance_id == id);
        found
            .unwrap_or_else(|| panic!("{id} is not listed"))
            .custom_status
            .clone()
    };
    let told = status("hit").expect("it says what is wrong");
    assert!(told.starts_with("cannot be read: missing chunk"), "{told}");
    assert_eq!(status("fine"), None);
    assert_eq!(store.list_instances().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_an_application_that_cannot_be_read_holds_up_no_other() {
    let schema = Schema::new();
    drop(schema.open().await);
    schema.keep_outside("arrivals", "work_item");
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let within = Within::new(&tx, &schema.0).unwrap();
    within.raise_event("hit", "go", &large()).await.unwrap();
    within
        .start_orchestration("fine", "Order", "{}")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    schema.lose_large_values("arrivals");

    let store = schema.open().await;
    let found = turns(&store, 10).await;
    assert_eq!(found[0].item.instance, "fine");
    let letters = store.list_dead_letters(10).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("hit"));
    assert!(letters[0].reason.contains("missing chunk"), "{letters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_text_become_a_dead_letter_and_cost_no_other_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    send(&store, raised("hit")).await;
    send(&store, raised("fine")).await;
    // As a disk does: no function of the server makes such a text.
    schema.shell(
        "BEGIN; CREATE CAST (bytea AS text) WITHOUT FUNCTION;
         UPDATE {s}.orchestrator_queue SET work_item = ('\\x7bff7d'::bytea)::text WHERE instance_id = 'hit';
         DROP CAST (bytea AS text); COMMIT",
    );

    let mut found = turns(&store, 10).await;
    found.retain(|turn| turn.item.instance == "fine");
    assert_eq!(found.len(), 1, "the neighbour is handed out");
    let letters = store.list_dead_letters(10).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("hit"));
}
