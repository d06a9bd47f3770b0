//! Turns handed out ahead, job by job in one transaction, without a thread.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::SystemClock;
use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{ExecutionMetadata, TurnClaim, WorkItem};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::in_flight::Ahead;
use crate::codec;
use crate::connection::database as open;
use crate::connection::statements::Statements;
use crate::early::recent_instances::{Known, LastEnd};
use crate::error::SqliteError;
use crate::ops::{commit_turn, enqueue, fetch_turn, renew_turn};
use crate::requests::job::{Job, Leases, job};
use crate::store_clock::{Pace, StoreClock};
use crate::tx::{Aware, Result, Tx};
use crate::watch::Wake;
use crate::writer::group::{Group, Ran};

type Answer<T> = oneshot::Receiver<Result<T>>;

/// What the writer has, without its thread.
struct Desk {
    clock: Arc<StoreClock>,
    wake: Arc<Wake>,
    known: Known,
}

impl Desk {
    fn new() -> Self {
        Self::opened(LastEnd::Orderly, 0)
    }

    fn opened(end: LastEnd, at_ms: i64) -> Self {
        Self {
            clock: StoreClock::new(Arc::new(SystemClock), Pace::System),
            wake: Arc::new(Wake::default()),
            known: Known::after(end, at_ms),
        }
    }

    fn begin<'d, 'c>(&'d self, statements: &'d Statements<'c>, ahead: &'d Ahead) -> Group<'d, 'c> {
        let aware = Aware {
            wake: &self.wake,
            ahead,
            known: &self.known,
        };
        Group::begin(statements, &self.clock, aware).unwrap()
    }
}

fn start() -> (Box<dyn Job>, Answer<()>) {
    let item = WorkItem::StartOrchestration {
        instance: "i".to_owned(),
        orchestration: "o".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    let message = codec::decided_message(&item).unwrap();
    job(Leases::PassedBy, move |tx: &mut Tx<'_>| {
        enqueue::message(tx, &message)
    })
}

/// Claims ahead; answers with the tokens.
fn claim() -> (Box<dyn Job>, Answer<Vec<String>>) {
    let ask = fetch_turn::Ask::new(
        &TurnClaim {
            ahead: true,
            ..TurnClaim::new(9, Duration::from_secs(5), Duration::ZERO)
        },
        Duration::ZERO,
    );
    job(Leases::PassedBy, move |tx: &mut Tx<'_>| {
        fetch_turn::tokens(tx, &ask)
    })
}

fn commit(token: &str) -> (Box<dyn Job>, Answer<()>) {
    let kind = EventKind::OrchestrationCompleted {
        output: String::new(),
    };
    let events = [Event::with_event_id(1, "i", 1, None, kind)];
    let metadata = ExecutionMetadata {
        orchestration_name: Some("o".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        status: Some("Completed".to_owned()),
        ..ExecutionMetadata::default()
    };
    let commit =
        commit_turn::Commit::new(token, 1, &events, &[], &[], metadata, Vec::new()).unwrap();
    job(Leases::PassedBy, move |tx: &mut Tx<'_>| {
        commit_turn::run(tx, &commit)
    })
}

/// A job that writes and then fails.
fn fails_dirty() -> (Box<dyn Job>, Answer<()>) {
    job(Leases::PassedBy, |tx: &mut Tx<'_>| {
        tx.execute("DELETE FROM orchestrator_queue WHERE instance_id = 'i'", [])?;
        Err(SqliteError::InvalidToken)
    })
}

/// Runs one job and answers it.
fn run<T>(group: &mut Group<'_, '_>, (job, mut answer): (Box<dyn Job>, Answer<T>)) -> Result<T> {
    let from = group.len();
    assert_eq!(group.run(vec![job]).unwrap(), Ran::Once);
    group.split_off(from).into_iter().for_each(Job::answer);
    answer.try_recv().unwrap()
}

fn count(conn: &Connection, sql: &str) -> i64 {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

const LEASES: &str = "SELECT COUNT(*) FROM instance_locks";
const MESSAGES: &str = "SELECT COUNT(*) FROM orchestrator_queue";
const TAGGED: &str =
    "SELECT COUNT(*) FROM orchestrator_queue WHERE lock_token IS NOT NULL AND attempt_count = 1";

#[test]
fn a_lease_that_ends_in_its_own_transaction_is_never_written() {
    let (desk, conn) = (Desk::new(), open::open_memory().unwrap());
    let (statements, ahead) = (Statements::new(&conn), Ahead::default());
    let mut group = desk.begin(&statements, &ahead);
    run(&mut group, start()).unwrap();
    let tokens = run(&mut group, claim()).unwrap();
    assert!(ahead.anybody_out());
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (0, 0));
    run(&mut group, commit(&tokens[0])).unwrap();
    assert!(!ahead.anybody_out());
    group.commit().unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, MESSAGES)), (0, 0));
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM history"), 1);
}

#[test]
fn a_turn_that_is_out_when_its_transaction_is_committed_is_leased_like_any_other() {
    let (desk, conn) = (Desk::new(), open::open_memory().unwrap());
    let statements = Statements::new(&conn);
    let token = {
        let ahead = Ahead::default();
        let mut group = desk.begin(&statements, &ahead);
        run(&mut group, start()).unwrap();
        let mut tokens = run(&mut group, claim()).unwrap();
        assert!(run(&mut group, claim()).unwrap().is_empty(), "it is out");
        group.commit().unwrap();
        tokens.remove(0)
    };
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (1, 1));
    let ahead = Ahead::default();
    let mut group = desk.begin(&statements, &ahead);
    run(&mut group, commit(&token)).unwrap();
    group.commit().unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, MESSAGES)), (0, 0));
}

#[test]
fn a_turn_claimed_in_a_transaction_that_never_happened_holds_nothing() {
    let (desk, conn) = (Desk::new(), open::open_memory().unwrap());
    let statements = Statements::new(&conn);
    let token = {
        let ahead = Ahead::default();
        let mut group = desk.begin(&statements, &ahead);
        run(&mut group, start()).unwrap();
        run(&mut group, claim()).unwrap().remove(0)
    };
    assert_eq!(count(&conn, MESSAGES), 0, "the start was undone as well");
    let ahead = Ahead::default();
    let mut group = desk.begin(&statements, &ahead);
    let refused = run(&mut group, commit(&token)).unwrap_err();
    assert!(matches!(refused, SqliteError::InvalidToken), "{refused}");
}

#[test]
fn a_group_that_starts_over_takes_back_what_it_handed_out() {
    let (desk, conn) = (Desk::new(), open::open_memory().unwrap());
    let (statements, ahead) = (Statements::new(&conn), Ahead::default());
    let mut group = desk.begin(&statements, &ahead);
    let (first, _kept) = start();
    group.run(vec![first]).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let (failing, mut failed) = fails_dirty();
    assert_eq!(group.run(vec![failing]).unwrap(), Ran::Again);
    assert!(!ahead.anybody_out());
    let refused = run(&mut group, commit(&token)).unwrap_err();
    assert!(matches!(refused, SqliteError::InvalidToken), "{refused}");
    group.commit().unwrap();
    group.into_parts().0.into_iter().for_each(Job::answer);
    assert!(failed.try_recv().unwrap().is_err());
    assert_eq!(count(&conn, MESSAGES), 1, "the start was done again");
    assert_eq!(count(&conn, LEASES), 0, "and nobody holds it");
}

#[test]
fn a_request_that_looks_at_leases_finds_those_of_turns_that_are_out() {
    let (desk, conn) = (Desk::new(), open::open_memory().unwrap());
    let (statements, ahead) = (Statements::new(&conn), Ahead::default());
    let mut group = desk.begin(&statements, &ahead);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let renewed = token.clone();
    let renew = job(Leases::Minded, move |tx: &mut Tx<'_>| {
        renew_turn::run(tx, &renewed, Duration::from_secs(60))
    });
    run(&mut group, renew).unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (1, 1));
    run(&mut group, commit(&token)).unwrap();
    group.commit().unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, MESSAGES)), (0, 0));
}

/// Whether the turn of a started instance is handed out before its lease is written.
fn goes_ahead(desk: &Desk, before: impl FnOnce(&Connection)) -> bool {
    let conn = open::open_memory().unwrap();
    let (statements, ahead) = (Statements::new(&conn), Ahead::default());
    let mut group = desk.begin(&statements, &ahead);
    run(&mut group, start()).unwrap();
    before(&conn);
    assert_eq!(run(&mut group, claim()).unwrap().len(), 1);
    assert_eq!(ahead.anybody_out(), count(&conn, LEASES) == 0);
    ahead.anybody_out()
}

#[test]
fn nothing_is_handed_out_ahead_soon_after_a_crash() {
    assert!(goes_ahead(&Desk::new(), |_| {}));
    assert!(!goes_ahead(&Desk::opened(LastEnd::Unknown, 0), |_| {}));
}

#[test]
fn what_came_before_this_process_or_was_tried_before_is_counted_before_it_is_handed_out() {
    let tried = |conn: &Connection| {
        let count = "UPDATE orchestrator_queue SET attempt_count = 1";
        assert_eq!(conn.execute(count, []).unwrap(), 1);
    };
    assert!(!goes_ahead(&Desk::new(), tried));
    let of_a_later_life = Desk::opened(LastEnd::Orderly, i64::MAX);
    assert!(!goes_ahead(&of_a_later_life, |_| {}));
}

#[test]
fn an_instance_of_which_only_messages_were_consumed_is_not_known() {
    let (desk, conn) = (Desk::new(), open::open_memory().unwrap());
    let (statements, ahead) = (Statements::new(&conn), Ahead::default());
    let mut group = desk.begin(&statements, &ahead);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let metadata = ExecutionMetadata::default();
    let nothing = commit_turn::Commit::new(&token, 1, &[], &[], &[], metadata, Vec::new()).unwrap();
    let nothing = job(Leases::PassedBy, move |tx: &mut Tx<'_>| {
        commit_turn::run(tx, &nothing)
    });
    run(&mut group, nothing).unwrap();
    assert!(desk.known.of("i").is_none());
}
