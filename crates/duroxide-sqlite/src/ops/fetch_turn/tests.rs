//! What one claim may read and put away.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::TurnClaim;
use rusqlite::Connection;

use super::{AWAITING_START_MAX, Ask, HISTORIES_BYTES_MAX, claim};
use crate::codec;
use crate::connection::database::open_memory;
use crate::connection::statements::Statements;
use crate::ops::enqueue;
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
