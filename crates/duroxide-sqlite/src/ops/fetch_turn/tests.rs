//! What one claim may read and put away.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::TurnClaim;
use rusqlite::Connection;

use super::load::{HISTORY_BYTES_MAX, PART_BYTES};
use super::{AWAITING_START_MAX, Ask, HISTORIES_BYTES_MAX, RawTurn, claim};
use crate::codec;
use crate::connection::database::open_memory;
use crate::connection::statements::Statements;
use crate::damage::Damage;
use crate::ops::{delete, enqueue};
use crate::tables::history;
use crate::tables::orchestrator_queue::Due;
use crate::writer_tx::testing::Writer;

const NOW: i64 = 1_000_000;
const LEASE: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(60);

fn ask(max: usize) -> Ask {
    Ask::new(&TurnClaim::new(max, LEASE, Duration::ZERO), GRACE)
}

fn send(writer: &Writer, statements: &Statements<'_>, instance: &str, at: i64) {
    let item = WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "go".to_owned(),
        data: String::new(),
    };
    let message = codec::message(&item, Due::After(None)).unwrap();
    enqueue::message(&mut writer.tx(statements, at), &message).unwrap();
}

fn count(conn: &Connection, table: &str) -> usize {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    let count: i64 = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
    usize::try_from(count).unwrap()
}

#[test]
fn one_claim_dead_letters_a_bounded_number_of_messages_for_instances_that_nobody_started() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let all = 2 * AWAITING_START_MAX + 100;
    for n in 0..all {
        send(&writer, &statements, &format!("nobody-{}", n % 3), 1);
    }
    let (mut claims, mut before) = (0, 0);
    while count(&conn, "dead_letters") < all {
        let found = claim(&mut writer.tx(&statements, NOW), &ask(10)).unwrap();
        assert!(found.found.is_empty());
        let now = count(&conn, "dead_letters");
        let put_away = now - before;
        assert!(
            (1..=AWAITING_START_MAX).contains(&put_away),
            "{put_away} in one claim"
        );
        assert!(found.leaves_more || now == all, "it says that it left some");
        before = now;
        claims += 1;
    }
    assert!(claims >= 3);
    assert_eq!(count(&conn, "orchestrator_queue"), 0);
}

#[test]
fn instances_that_cannot_be_read_use_up_no_claim() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    conn.execute_batch(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1500)
         INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, lane)
             SELECT 'hit' || x, 'StartOrchestration', '{}', 0, 0, '' FROM n
             UNION ALL SELECT 'fine', 'StartOrchestration', '{}', 1, 0, '';",
    )
    .unwrap();
    let mut tx = writer.tx(&statements, NOW);
    for n in 1..=1_500 {
        let why = Damage::Messages("a page".to_owned());
        tx.writer().damaged.add(&format!("hit{n}"), why);
    }
    let claimed = claim(&mut tx, &ask(1)).unwrap();
    let found: Vec<&str> = claimed.found.iter().map(RawTurn::instance).collect();
    assert_eq!(found, ["fine"]);
}

#[test]
fn one_claim_loads_histories_of_a_bounded_size_and_leaves_the_other_instances_to_the_next() {
    let conn = open_memory().unwrap();
    let megabytes = HISTORIES_BYTES_MAX / 4;
    conn.execute_batch(&format!(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 12) SELECT x FROM n;
         INSERT INTO instances (instance_id, orchestration_name, orchestration_version, created_at, updated_at, lane)
             SELECT 'i' || x, 'o', '1.0.0', 0, 0, '' FROM n;
         INSERT INTO executions (instance_id, execution_id, status, started_at) SELECT 'i' || x, 1, 'Running', 0 FROM n;
         INSERT INTO history SELECT 'i' || x, 1, 1, 'e', printf('%.*c', {megabytes}, 'h'), 0 FROM n;"
    ))
    .unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    for n in 1..=12 {
        send(&writer, &statements, &format!("i{n}"), 1);
    }
    let mut taken = 0;
    while taken < 12 {
        let found = claim(&mut writer.tx(&statements, NOW), &ask(64)).unwrap();
        let turns = found.found.len();
        // The one that goes beyond the bound is the last.
        assert!((1..=5).contains(&turns), "{turns} histories in one claim");
        taken += turns;
        assert!(found.leaves_more || taken == 12);
    }
}

/// The largest event of these histories.
const EVENT: usize = 1_000_000;

/// An instance `i` with a history of 64 events, each of a megabyte, that has something to do.
fn huge(writer: &Writer, statements: &Statements<'_>) {
    let conn = statements.connection();
    conn.execute_batch(&format!(
        "INSERT INTO instances
             (instance_id, orchestration_name, orchestration_version, created_at, updated_at, lane, incarnation)
             VALUES ('i', 'o', '1.0.0', 0, 0, '', 7);
         INSERT INTO executions (instance_id, execution_id, status, started_at) VALUES ('i', 1, 'Running', 0);
         INSERT INTO kv_store VALUES ('i', 'k', 'v', 0);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 64)
             INSERT INTO history SELECT 'i', 1, x, 'e', printf('%09d%.*c', x, {EVENT} - 9, 'h'), 0 FROM n;"
    ))
    .unwrap();
    send(writer, statements, "i", 1);
}

fn claim_one(writer: &Writer, statements: &Statements<'_>) -> RawTurn {
    let found = claim(&mut writer.tx(statements, NOW), &ask(1)).unwrap();
    found.found.into_iter().next().expect("it is claimed")
}

#[test]
fn one_claim_reads_a_bounded_part_of_a_huge_history_and_the_rest_comes_in_parts() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    huge(&writer, &statements);

    let turn = claim_one(&writer, &statements);

    let read = turn.history.bytes();
    assert!(read <= HISTORY_BYTES_MAX + EVENT, "{read} bytes");
    let large = turn.large_history().expect("it is left to others");
    // What comes later is not part of the claim.
    conn.execute_batch("INSERT INTO history VALUES ('i', 1, 65, 'e', 'later', 0)")
        .unwrap();
    let tx = writer.tx(&statements, NOW);
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let part = large.part(&tx, after).unwrap().expect("it is there");
        let bytes: usize = part.events.iter().map(Vec::len).sum();
        assert!(bytes < PART_BYTES + EVENT, "{bytes} bytes");
        events.extend(part.events);
        after = part.goes_on_after;
        if after.is_none() {
            break;
        }
    }
    let mut stored = history::load(&tx, "i", 1).unwrap();
    assert_eq!(stored.pop().as_deref(), Some(&b"later"[..]));
    assert!(events == stored, "all of it, in order");
    assert_eq!(large.key_values(&tx).unwrap().unwrap()["k"].value, "v");
}

#[test]
fn one_huge_event_is_not_read_by_the_claim() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    huge(&writer, &statements);
    conn.execute_batch(
        "UPDATE history SET event_data = printf('%.*c', 64000000, 'h') WHERE event_id = 1",
    )
    .unwrap();
    let turn = claim_one(&writer, &statements);
    assert_eq!(turn.history.bytes(), 0);
    assert!(turn.large_history().is_some());
}

#[test]
fn a_turn_with_a_large_history_is_claimed_alone() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let start = |instance: &str, at: i64| {
        let sql = "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, lane)
             VALUES (?1, 'StartOrchestration', '{}', ?2, 0, '')";
        conn.execute(sql, (instance, at)).unwrap();
    };
    start("before", 0);
    huge(&writer, &statements);
    start("behind", 2);
    start("later", 3);
    let mut claimed = Vec::new();
    for _ in 0..3 {
        let found = claim(&mut writer.tx(&statements, NOW), &ask(2)).unwrap();
        let ids = found.found.iter().map(|turn| turn.instance().to_owned());
        claimed.push((ids.collect::<Vec<_>>(), found.leaves_more));
    }
    let of = |ids: &[&str], more| (ids.iter().map(|id| (*id).to_owned()).collect(), more);
    let expected = [
        of(&["before"], true),
        of(&["i"], true),
        of(&["behind", "later"], true),
    ];
    assert_eq!(claimed, expected);
}

#[test]
fn a_large_history_is_gone_with_its_life() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    huge(&writer, &statements);
    let turn = claim_one(&writer, &statements);
    let large = turn.large_history().unwrap();

    let deleted = delete::atomic(&mut writer.tx(&statements, NOW), &["i".to_owned()], true);
    deleted.unwrap();

    let tx = writer.tx(&statements, NOW);
    assert!(history::last_event_id(&tx, "i", 1).unwrap().is_some());
    assert!(large.part(&tx, None).unwrap().is_none(), "being deleted");
    let swept = delete::sweep(&mut writer.tx(&statements, NOW), "i", 100_000).unwrap();
    assert_eq!(swept.still, delete::Still::Nothing);
    huge(&writer, &statements);
    conn.execute_batch("UPDATE instances SET incarnation = 8")
        .unwrap();
    assert!(large.part(&tx, None).unwrap().is_none(), "another life");
    assert!(large.key_values(&tx).unwrap().is_none());
}
