//! What a deleted instance gave others to do, and what it kept beside its history: bounded, and out of sight at once.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{TurnClaim, TurnWrites, WorkClaim};
use rusqlite::Connection;

use super::*;
use crate::connection::database::open_memory;
use crate::connection::statements::Statements;
use crate::error::SqliteError;
use crate::ops::{
    commit_turn, dead_letter, fetch_turn, fetch_work, pending, renew_turn, store_lease,
};
use crate::tables::deletions::RestoreToken;
use crate::tables::{whole_instance, worker_queue};
use crate::token;
use crate::writer_tx::testing::Writer;

const LEASE: Duration = Duration::from_secs(5);
const BOUND: u64 = STEP_ROWS as u64 * 11 / 10;

/// An instance `i`, whose life is 7, and the numbers up to 5,000.
fn instance() -> Connection {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
             SELECT x FROM n;
         INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at, incarnation)
             VALUES ('i', 'o', 0, 0, 7);
         INSERT INTO executions (instance_id, execution_id, status, started_at) VALUES ('i', 1, 'Running', 0);",
    )
    .unwrap();
    conn
}

/// Activities of `i`, and one of another instance behind them.
fn add_activities(conn: &Connection, count: u32) {
    conn.execute_batch(&format!(
        "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at, name)
             SELECT 'i', 1, x, '{{}}', 0, 0, 'act' FROM n WHERE x <= {count};
         INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at, name)
             VALUES ('other', 1, 1, '{{}}', 0, 0, 'act');"
    ))
    .unwrap();
}

/// Starts of children that `i` sent, and one that another instance sent.
fn add_starts(conn: &Connection, count: u32) {
    conn.execute_batch(&format!(
        "INSERT INTO orchestrator_queue
                 (instance_id, kind, work_item, visible_at, created_at, sender_incarnation, awaited_by, lane)
             SELECT 'c' || x, 'StartOrchestration', '{{}}', 0, 0, 7, 'i', '' FROM n WHERE x <= {count}
             UNION ALL SELECT 'theirs', 'StartOrchestration', '{{}}', 0, 0, 8, 'j', '';"
    ))
    .unwrap();
}

/// More messages than one transaction deletes.
fn add_messages(conn: &Connection) {
    conn.execute_batch(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             SELECT 'i', 'QueueMessage', '{}', 0, 0 FROM n WHERE x <= 3000",
    )
    .unwrap();
}

fn count(conn: &Connection, of: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {of}");
    conn.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn delete_i(writer: &Writer, statements: &Statements<'_>) {
    atomic(&mut writer.tx(statements, 1), &["i".to_owned()], true).unwrap();
    let tx = writer.tx(statements, 1);
    assert!(deletions::contains(&tx, "i").unwrap(), "something is left");
}

fn sweep_all(writer: &Writer, statements: &Statements<'_>) {
    while let Some(left) = deletions::next(&Tx::new(statements, 1), None).unwrap() {
        sweep(&mut writer.tx(statements, 1), &left, STEP_ROWS).unwrap();
    }
}

/// Claims turns once; the instances that were found.
fn claim_turns(writer: &Writer, statements: &Statements<'_>) -> Vec<String> {
    let ask = fetch_turn::Ask::new(&TurnClaim::new(10, LEASE, Duration::ZERO), Duration::ZERO);
    let tokens = fetch_turn::tokens(&mut writer.tx(statements, 1), &ask).unwrap();
    let instance = |token: &String| token::turn(token).unwrap().instance.to_owned();
    tokens.iter().map(instance).collect()
}

#[test]
fn an_instance_with_many_activities_and_unborn_children_is_deleted_in_bounded_steps() {
    let conn = instance();
    add_activities(&conn, 5_000);
    add_starts(&conn, 5_000);
    conn.execute_batch(
        "UPDATE worker_queue SET lock_token = 't', locked_until = 100
             WHERE instance_id = 'i' AND activity_id % 1000 = 0;
         UPDATE worker_queue SET lock_token = 'paused', locked_until = 9223372036854775807
             WHERE activity_id % 1000 = 500;
         INSERT INTO instance_locks SELECT 'c' || x, 't', 100, 0 FROM n WHERE x % 500 = 0;
         INSERT INTO instance_locks VALUES ('theirs', 't', 100, 0);
         INSERT INTO kv_store SELECT 'i', 'k' || x, 'v', 0 FROM n UNION ALL SELECT 'j', 'k', 'v', 0;
         INSERT INTO kv_delta SELECT 'i', 'k' || x, 'v', 0 FROM n;
         INSERT INTO heartbeats SELECT 'i', 1, x, '{}', 0 FROM n UNION ALL SELECT 'j', 1, 1, '{}', 0;",
    )
    .unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let changed = |step: &mut dyn FnMut(&mut WriterTx<'_>)| {
        let before = conn.total_changes();
        step(&mut writer.tx(&statements, 1));
        let changes = conn.total_changes() - before;
        assert!(changes <= BOUND, "{changes} rows");
    };
    let mut total = DeleteInstanceResult::default();
    changed(&mut |tx| total = atomic(tx, &["i".to_owned()], true).unwrap().counts);
    let running = executions::count_running(&Tx::new(&statements, 1));
    assert_eq!(running.unwrap(), 0);
    let held = "worker_queue WHERE instance_id = 'i' AND locked_until < 1000";
    assert_eq!(count(&conn, held), 0, "workers lose their leases at once");
    let leases = "instance_locks WHERE instance_id <> 'theirs'";
    assert_eq!(count(&conn, leases), 0, "and so do first turns of children");

    while let Some(left) = deletions::next(&Tx::new(&statements, 1), None).unwrap() {
        changed(&mut |tx| add(&mut total, &sweep(tx, &left, STEP_ROWS).unwrap().counts));
    }

    assert_eq!(total.queue_messages_deleted, 10_000);
    let left = [
        "worker_queue",
        "orchestrator_queue",
        "kv_store",
        "kv_delta",
        "instance_locks",
        "heartbeats",
        "executions",
    ];
    let counts = left.map(|table| count(&conn, table));
    assert_eq!(counts, [1, 1, 1, 0, 1, 1, 0]);
}

#[test]
fn an_activity_of_an_instance_that_is_being_deleted_is_not_handed_out() {
    let conn = instance();
    add_activities(&conn, 3_000);
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    delete_i(&writer, &statements);
    let ask = fetch_work::Ask::new(WorkClaim::new(2, LEASE, Duration::ZERO));
    for _ in 0..5 {
        let before = conn.total_changes();
        let mut tx = writer.tx(&statements, 1);
        let claimed = fetch_work::claim(&mut tx, &ask).unwrap();
        let changes = conn.total_changes() - before;
        assert!(changes <= BOUND, "{changes} rows");
        if claimed.found.is_empty() {
            assert!(claimed.leaves_more, "it says that others are behind");
            continue;
        }
        for found in &claimed.found {
            let id = token::work(found.token()).unwrap().id;
            let instance = worker_queue::instance_of(&tx, id).unwrap();
            assert_eq!(instance.as_deref(), Some("other"));
        }
        assert_eq!(count(&conn, "worker_queue"), 1);
        return;
    }
    panic!("what is behind them is handed out soon");
}

#[test]
fn an_activity_that_comes_after_the_deletion_stays() {
    let conn = instance();
    add_activities(&conn, 3_000);
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    delete_i(&writer, &statements);
    conn.execute_batch(
        "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at, name)
             VALUES ('i', 1, 9000, '{}', 0, 0, 'act')",
    )
    .unwrap();
    sweep_all(&writer, &statements);
    let left = "worker_queue WHERE instance_id = 'i' AND activity_id = 9000";
    assert_eq!((count(&conn, "worker_queue"), count(&conn, left)), (2, 1));
}

#[test]
fn a_child_whose_parent_is_being_deleted_does_not_begin() {
    let conn = instance();
    add_starts(&conn, 2_000);
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    delete_i(&writer, &statements);
    // A client starts an instance under the id of a child.
    conn.execute_batch(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, lane)
             VALUES ('c2000', 'StartOrchestration', '{}', 0, 0, '')",
    )
    .unwrap();
    let mut begun = Vec::new();
    for _ in 0..10 {
        let before = conn.total_changes();
        begun.extend(claim_turns(&writer, &statements));
        let changes = conn.total_changes() - before;
        assert!(changes <= BOUND, "{changes} rows");
    }
    begun.sort_unstable();
    assert_eq!(begun, ["c2000", "theirs"]);
    assert_eq!(count(&conn, "orchestrator_queue"), 2);
}

#[test]
fn what_is_claimed_of_a_deleted_parents_children_cannot_commit() {
    let conn = instance();
    add_starts(&conn, 1);
    add_messages(&conn);
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let ask = fetch_turn::Ask::new(&TurnClaim::new(10, LEASE, Duration::ZERO), Duration::ZERO);
    let tokens = fetch_turn::tokens(&mut writer.tx(&statements, 1), &ask).unwrap();
    delete_i(&writer, &statements);
    let start = "orchestrator_queue WHERE sender_incarnation = 7";
    assert_eq!(count(&conn, start), 1, "it is still to go");

    let mut lost = Vec::new();
    for token in tokens {
        let mut tx = writer.tx(&statements, 1);
        let renewed = renew_turn::run(&tx, &token, LEASE);
        let stored = store_lease::run(&tx, &token);
        let commit = commit_turn::Commit::new(&token, TurnWrites::nothing(1)).unwrap();
        let committed = commit_turn::run(&mut tx, &commit);
        if token::turn(&token).unwrap().instance == "theirs" {
            assert_eq!((renewed, stored, committed), (Ok(()), Ok(()), Ok(())));
        } else {
            lost.extend([renewed, stored, committed]);
        }
    }
    let refused = Err(SqliteError::Contract(Refusal::InvalidToken));
    assert_eq!(lost, vec![refused; 3]);
}

#[test]
fn what_is_left_of_a_deleted_instance_is_shown_nowhere() {
    let conn = instance();
    add_messages(&conn);
    add_starts(&conn, 1);
    add_activities(&conn, 3);
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    delete_i(&writer, &statements);
    assert_eq!(count(&conn, "worker_queue"), 4, "all of it is left");

    let tx = writer.tx(&statements, 1);
    for id in ["i", "c1"] {
        let pending = pending::run(&tx, id).unwrap();
        assert_eq!((pending.messages.len(), pending.activities.len()), (0, 0));
        assert!(whole_instance::read(&tx, id).unwrap().is_empty(), "{id}");
    }
    assert!(!orchestrator_queue::has_start(&tx, "c1", None).unwrap());
    assert_eq!(orchestrator_queue::start(&tx, "c1", None).unwrap(), None);
    assert!(orchestrator_queue::has_start(&tx, "theirs", None).unwrap());
    let ready = worker_queue::ready(&tx, None, None, "act", 100).unwrap();
    assert_eq!((ready.0, worker_queue::depth(&tx).unwrap()), (1, 1));
}

#[test]
fn a_restore_that_is_under_way_hides_no_activity_and_no_start() {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at, name)
             VALUES ('i', 1, 1, '{}', 0, 0, 'act');
         INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, sender_incarnation, lane)
             VALUES ('c', 'StartOrchestration', '{}', 0, 0, 7, '');",
    )
    .unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    deletions::note_restore(&writer.tx(&statements, 1), "i", RestoreToken::new()).unwrap();

    let ask = fetch_work::Ask::new(WorkClaim::new(2, LEASE, Duration::ZERO));
    let claimed = fetch_work::claim(&mut writer.tx(&statements, 1), &ask).unwrap();
    assert_eq!(claimed.found.len(), 1);
    assert_eq!(claim_turns(&writer, &statements), ["c"]);
}

#[test]
fn an_undecodable_activity_of_a_deleted_instance_tells_the_next_one_nothing() {
    let conn = instance();
    add_messages(&conn);
    add_activities(&conn, 1);
    // Claimed, and the lease ran out before the worker said that it cannot read it.
    let id = conn
        .query_row("SELECT MIN(id) FROM worker_queue", [], |row| row.get(0))
        .unwrap();
    let token = token::for_work(id, false);
    let expired = "UPDATE worker_queue SET lock_token = ?2 WHERE id = ?1";
    conn.execute(expired, (id, &token)).unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    delete_i(&writer, &statements);

    dead_letter::undecodable_work(&mut writer.tx(&statements, 1), &token, "torn").unwrap();

    sweep_all(&writer, &statements);
    let left = ["orchestrator_queue", "dead_letters", "worker_queue"];
    assert_eq!(left.map(|table| count(&conn, table)), [0, 0, 1]);
}
