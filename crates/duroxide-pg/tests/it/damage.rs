//! Rows that PostgreSQL cannot read: they cost their own instance, and no claim of others.

use std::time::Duration;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{Provider, ProviderAdmin, TagFilter, TurnClaim, WorkClaim, WorkItem};
use duroxide_pg::PostgresProvider;

use crate::meetings::{named, raised, start, started};
use crate::support::Schema;

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);

/// So large that PostgreSQL keeps it outside of its row.
pub(crate) fn large() -> String {
    "x".repeat(100_000)
}

impl Schema {
    /// Values of this column that are large are kept outside of their rows, as they are.
    pub(crate) fn keep_outside(&self, table: &str, column: &str) {
        self.shell(&format!(
            "ALTER TABLE {{s}}.{table} ALTER COLUMN {column} SET STORAGE EXTERNAL"
        ));
    }

    /// Loses what the rows of a table keep outside of themselves, as a damaged page of it does.
    pub(crate) fn lose_large_values(&self, table: &str) {
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

    /// Makes bytes of a column that are no text, as a disk does: no function of the server makes such a text.
    fn spoil(&self, table: &str, column: &str) {
        self.shell(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock(4711); CREATE CAST (bytea AS text) WITHOUT FUNCTION;
             UPDATE {{s}}.{table} SET {column} = ('\\x7bff7d'::bytea)::text WHERE instance_id = 'hit';
             DROP CAST (bytea AS text); COMMIT"
        ));
    }

    /// Reads of this table fail for rows of the instance `hit`, as those of a damaged page do. Nothing can write to it.
    pub(crate) fn damage(&self, table: &str) {
        self.damage_by(table, "instance_id");
    }

    /// The same for rows with `hit` in this column.
    fn damage_by(&self, table: &str, column: &str) {
        self.shell(&format!(
            "CREATE FUNCTION {{s}}.read_page(p_id text) RETURNS boolean LANGUAGE plpgsql AS $$
             BEGIN
                 IF p_id = 'hit' THEN
                     RAISE EXCEPTION 'invalid page in block 0' USING ERRCODE = 'data_corrupted';
                 END IF;
                 RETURN true;
             END $$;
             ALTER TABLE {{s}}.{table} RENAME TO {table}_kept;
             CREATE VIEW {{s}}.{table} AS SELECT * FROM {{s}}.{table}_kept WHERE {{s}}.read_page({column})"
        ));
    }
}

pub(crate) async fn send(store: &PostgresProvider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.unwrap();
}

pub(crate) async fn turns(
    store: &PostgresProvider,
    max: usize,
) -> Vec<duroxide_core::provider::ClaimedTurn> {
    let claim = TurnClaim::new(max, LEASE, SOON);
    store.claim_turns(claim).await.unwrap()
}

async fn nothing_is_left(store: &PostgresProvider) {
    let none = TurnClaim::new(1, LEASE, Duration::ZERO);
    let left = store.claim_turns(none).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// An instance that runs, with these events.
pub(crate) async fn begin(store: &PostgresProvider, id: &str, history: Vec<Event>) {
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
async fn a_session_that_cannot_be_read_costs_no_other_activity() {
    let schema = Schema::new();
    let store = schema.open().await;
    let bound = |id| match activity(id, "{}".to_owned()) {
        WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            input,
            ..
        } => WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            input,
            session_id: Some("hit".to_owned()),
            tag: None,
        },
        other => panic!("{other:?}"),
    };
    schema.shell("INSERT INTO {s}.sessions VALUES ('hit', 'another', 0, 0)");
    store.enqueue_for_worker(bound(1)).await.unwrap();
    store
        .enqueue_for_worker(activity(2, "{}".to_owned()))
        .await
        .unwrap();
    schema.damage_by("sessions", "session_id");
    let claim = WorkClaim {
        session: Some(duroxide_core::provider::SessionFetchConfig {
            owner_id: "worker".to_owned(),
            lock_timeout: LEASE,
        }),
        ..WorkClaim::new(5, LEASE, SOON)
    };
    let found = store.claim_work(claim).await.unwrap();
    assert_eq!(found.len(), 1, "the one of no session");
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

    let found = turns(&store, 10).await;
    let ids: Vec<&str> = found.iter().map(|it| it.item.instance.as_str()).collect();
    assert_eq!(
        ids,
        ["fine"],
        "the engine would count attempts of the other"
    );
    nothing_is_left(&store).await;
    let note = store.block_note("hit").await.unwrap();
    let report = note.expect("it is blocked").blocked.report;
    assert!(report.contains("history cannot be read"), "{report}");
    assert!(report.contains("missing chunk"), "{report}");
    let error = store.read("hit").await.unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
    // Nothing of it was changed: it goes on when an operator has mended it.
    let kind = EventKind::ExternalEvent {
        name: "go".to_owned(),
        data: "{}".to_owned(),
    };
    let mended = Event::with_event_id(2, "hit", 1, None, kind);
    let mended = serde_json::to_string(&mended).unwrap();
    schema.shell(&format!(
        "UPDATE {{s}}.history SET event_data = '{mended}' WHERE instance_id = 'hit' AND event_id = 2;
         UPDATE {{s}}.inboxes SET locked_until = 0 WHERE instance_id = 'hit'"
    ));
    let found = turns(&store, 10).await;
    assert_eq!(found[0].item.history.len(), 2);
    assert_eq!(found[0].attempt_count, 1, "its rest is no attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_text_become_a_dead_letter_and_cost_no_other_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    send(&store, raised("hit")).await;
    send(&store, raised("fine")).await;
    schema.spoil("orchestrator_queue", "work_item");

    let mut found = turns(&store, 10).await;
    found.retain(|turn| turn.item.instance == "fine");
    assert_eq!(found.len(), 1, "the neighbour is handed out");
    let letters = store.list_dead_letters(10).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("hit"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_or_a_lane_of_bytes_that_are_no_text_costs_no_other_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    send(&store, raised("hit")).await;
    send(&store, raised("fine")).await;
    schema.spoil("instances", "orchestration_name");
    let mut found = turns(&store, 10).await;
    found.retain(|turn| turn.item.instance == "fine");
    assert_eq!(found.len(), 1, "the neighbour is handed out");

    let mut other = activity(2, "1".into());
    if let WorkItem::ActivityExecute { instance, name, .. } = &mut other {
        (*instance, *name) = ("fine".to_owned(), "Other".to_owned());
    }
    store
        .enqueue_for_worker(activity(2, "1".into()))
        .await
        .unwrap();
    store.enqueue_for_worker(other.clone()).await.unwrap();
    schema.spoil("worker_queue", "lane");
    let claim = WorkClaim::new(10, LEASE, SOON);
    let found = store.claim_work(claim).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].item, other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_name_cannot_be_read_is_noted_and_costs_no_other_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("instances", "orchestration_name");
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    send(&store, raised("hit")).await;
    send(&store, raised("fine")).await;
    // As long as the index takes.
    schema.shell(
        "UPDATE {s}.instances SET orchestration_name = repeat('x', 2500) WHERE instance_id = 'hit'",
    );
    schema.lose_large_values("instances");
    let found = turns(&store, 10).await;
    let ids: Vec<&str> = found.iter().map(|it| it.item.instance.as_str()).collect();
    assert_eq!(ids, ["fine"]);
    let note = "SELECT count(*) FROM {s}.blocked WHERE instance_id = 'hit' AND name = 'unknown'";
    assert_eq!(schema.shell(note), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_instance_behind_others_that_a_claim_puts_right_is_found() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("orchestrator_queue", "work_item");
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    send(&store, large_message("hit")).await;
    send(&store, raised("fine")).await;
    schema.lose_large_values("orchestrator_queue");
    // Nothing is there for it: the claim puts that right and goes on, until it fails and all is as it was.
    schema.shell(
        "INSERT INTO {s}.inboxes (instance_id, lane, ready_at)
         SELECT 'stray', b.lane, 1 FROM {s}.inboxes AS b WHERE b.instance_id = 'hit'",
    );
    let found = turns(&store, 1).await;
    assert_eq!(found[0].item.instance, "fine");
}
