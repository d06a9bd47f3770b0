//! The early hand-out, job by job in one transaction, without a thread.

mod deletions;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::SystemClock;
use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{ExecutionMetadata, HandOut, TurnClaim, TurnWrites, WorkItem};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{CrashCaution, InFlight};
use crate::codec;
use crate::connection::LastShutdown;
use crate::connection::database::open_memory;
use crate::connection::statements::Statements;
use crate::damage::DamagedRows;
use crate::error::{Result, SqliteError};
use crate::ops::{commit_turn, enqueue, fetch_turn, renew_turn, store_lease};
use crate::requests::{Answer, Job, LeaseView, write_job};
use crate::store_clock::{Pace, StoreClock};
use crate::unswept::Unswept;
use crate::watch::Watches;
use crate::writer::{Group, Ran};
use crate::writer_memory::WriterMemory;
use crate::writer_tx::{WriterState, WriterTx};

type Reply<T> = oneshot::Receiver<Result<T>>;

/// What the writer has, without its thread.
struct Bench {
    clock: Arc<StoreClock>,
    watches: Watches,
    memory: WriterMemory,
    caution: CrashCaution,
    damaged: DamagedRows,
    unswept: Unswept,
}

impl Bench {
    fn new() -> Self {
        Self::opened(LastShutdown::Clean, 0)
    }

    fn opened(after: LastShutdown, at_ms: i64) -> Self {
        Self {
            clock: StoreClock::new(Arc::new(SystemClock), Pace::System),
            watches: Watches::default(),
            memory: WriterMemory::default(),
            caution: CrashCaution::new(after, at_ms),
            damaged: DamagedRows::default(),
            unswept: Unswept::default(),
        }
    }

    fn begin<'d, 'c>(
        &'d self,
        statements: &'d Statements<'c>,
        in_flight: &'d InFlight,
    ) -> Group<'d, 'c> {
        let state = WriterState {
            watches: &self.watches,
            in_flight,
            memory: &self.memory,
            caution: &self.caution,
            damaged: &self.damaged,
            unswept: &self.unswept,
        };
        Group::begin(statements, &self.clock, state).unwrap()
    }
}

fn start() -> (Box<dyn Job>, Reply<()>) {
    enqueue(&start_of("i"))
}

fn start_of(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "o".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn enqueue(item: &WorkItem) -> (Box<dyn Job>, Reply<()>) {
    let message = codec::decided_message(item).unwrap();
    write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        enqueue::message(tx, &message)
    })
}

/// Claims with early hand-out; answers with the tokens.
fn claim() -> (Box<dyn Job>, Reply<Vec<String>>) {
    let ask = fetch_turn::Ask::new(
        &TurnClaim {
            hand_out: HandOut::BeforeCommit,
            ..TurnClaim::new(9, Duration::from_secs(5), Duration::ZERO)
        },
        Duration::ZERO,
    );
    write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        fetch_turn::tokens(tx, &ask)
    })
}

fn commit(token: &str) -> (Box<dyn Job>, Reply<()>) {
    commit_as(token, "Completed", &[1])
}

/// Commits a turn with events of these numbers, after which the instance has this status.
fn commit_as(token: &str, status: &str, events: &[u64]) -> (Box<dyn Job>, Reply<()>) {
    let event = |id: &u64| {
        let output = String::new();
        let kind = EventKind::OrchestrationCompleted { output };
        Event::with_event_id(*id, "i", 1, None, kind)
    };
    let events = events.iter().map(event).collect();
    let metadata = ExecutionMetadata {
        orchestration_name: Some("o".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        status: Some(status.to_owned()),
        ..ExecutionMetadata::default()
    };
    let writes = TurnWrites {
        history: events,
        metadata,
        ..TurnWrites::nothing(1)
    };
    let commit = commit_turn::Commit::new(token, writes).unwrap();
    write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        commit_turn::run(tx, &commit)
    })
}

/// Has the lease of a turn stored.
fn stored(token: &str) -> (Box<dyn Job>, Reply<()>) {
    let token = token.to_owned();
    write_job(LeaseView::Needed, move |tx: &mut WriterTx<'_>| {
        store_lease::run(tx, &token)
    })
}

/// A job that writes and then fails.
fn fails_dirty() -> (Box<dyn Job>, Reply<()>) {
    write_job(LeaseView::NotNeeded, |tx: &mut WriterTx<'_>| {
        tx.execute("INSERT INTO store_time (id, at) VALUES (0, 0)", [])?;
        Err(Refusal::InvalidToken.into())
    })
}

/// Runs one job and answers it.
fn run<T>(group: &mut Group<'_, '_>, (job, mut answer): (Box<dyn Job>, Reply<T>)) -> Result<T> {
    let from = group.len();
    assert_eq!(group.run(vec![job]).unwrap(), Ran::Once);
    group.split_off(from).into_iter().for_each(Answer::answer);
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
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let tokens = run(&mut group, claim()).unwrap();
    assert!(in_flight.any());
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (0, 0));
    run(&mut group, commit(&tokens[0])).unwrap();
    assert!(!in_flight.any());
    group.commit().unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, MESSAGES)), (0, 0));
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM history"), 1);
}

#[test]
fn a_turn_in_flight_when_its_transaction_is_committed_is_leased_like_any_other() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let statements = Statements::new(&conn);
    let token = {
        let in_flight = InFlight::default();
        let mut group = bench.begin(&statements, &in_flight);
        run(&mut group, start()).unwrap();
        let mut tokens = run(&mut group, claim()).unwrap();
        assert!(
            run(&mut group, claim()).unwrap().is_empty(),
            "it is in flight"
        );
        group.commit().unwrap();
        tokens.remove(0)
    };
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (1, 1));
    let in_flight = InFlight::default();
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, commit(&token)).unwrap();
    group.commit().unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, MESSAGES)), (0, 0));
}

#[test]
fn a_turn_of_a_transaction_that_was_rolled_back_holds_no_lease() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let statements = Statements::new(&conn);
    let token = {
        let in_flight = InFlight::default();
        let mut group = bench.begin(&statements, &in_flight);
        run(&mut group, start()).unwrap();
        run(&mut group, claim()).unwrap().remove(0)
    };
    assert_eq!(count(&conn, MESSAGES), 0, "the start was undone as well");
    let in_flight = InFlight::default();
    let mut group = bench.begin(&statements, &in_flight);
    let refused = run(&mut group, commit(&token)).unwrap_err();
    assert!(
        matches!(refused, SqliteError::Contract(Refusal::InvalidToken)),
        "{refused}"
    );
}

#[test]
fn a_group_that_starts_over_revokes_what_it_handed_out() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let (first, _kept) = start();
    group.run(vec![first]).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let (failing, mut failed) = fails_dirty();
    assert_eq!(group.run(vec![failing]).unwrap(), Ran::Again);
    assert!(!in_flight.any());
    let refused = run(&mut group, commit(&token)).unwrap_err();
    assert!(
        matches!(refused, SqliteError::Contract(Refusal::InvalidToken)),
        "{refused}"
    );
    group.commit().unwrap();
    group.into_parts().0.into_iter().for_each(Answer::answer);
    assert!(failed.try_recv().unwrap().is_err());
    assert_eq!(count(&conn, MESSAGES), 1, "the start was done again");
    assert_eq!(count(&conn, LEASES), 0, "and it is not leased");
}

#[test]
fn a_request_that_needs_leases_finds_those_of_turns_in_flight() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let renewed = token.clone();
    let renew = write_job(LeaseView::Needed, move |tx: &mut WriterTx<'_>| {
        renew_turn::run(tx, &renewed, Duration::from_secs(60))
    });
    run(&mut group, renew).unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (1, 1));
    run(&mut group, commit(&token)).unwrap();
    group.commit().unwrap();
    assert_eq!((count(&conn, LEASES), count(&conn, MESSAGES)), (0, 0));
}

#[test]
fn a_turn_that_runs_an_effect_has_its_lease_and_its_attempt_written_first() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, stored(&token)).unwrap();
    assert!(!in_flight.any());
    assert_eq!((count(&conn, LEASES), count(&conn, TAGGED)), (1, 1));
    group.commit().unwrap();
}

#[test]
fn a_turn_whose_transaction_was_rolled_back_may_run_no_effect() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let (first, _kept) = start();
    group.run(vec![first]).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let (failing, _failed) = fails_dirty();
    assert_eq!(group.run(vec![failing]).unwrap(), Ran::Again);
    // Another claim may have it by now, beside the turn that asks.
    let again = run(&mut group, claim()).unwrap();
    assert_eq!(again.len(), 1);
    let refused = run(&mut group, stored(&token)).unwrap_err();
    assert!(
        matches!(refused, SqliteError::Contract(Refusal::InvalidToken)),
        "{refused}"
    );
    run(&mut group, stored(&again[0])).unwrap();
}

/// Whether the turn of a started instance is handed out before its lease is written.
fn is_early(bench: &Bench, before: impl FnOnce(&mut Group<'_, '_>)) -> bool {
    let conn = open_memory().unwrap();
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    before(&mut group);
    assert_eq!(run(&mut group, claim()).unwrap().len(), 1);
    assert_eq!(in_flight.any(), count(&conn, LEASES) == 0);
    in_flight.any()
}

#[test]
fn nothing_is_handed_out_early_soon_after_an_unclean_shutdown() {
    assert!(is_early(&Bench::new(), |_| {}));
    assert!(!is_early(&Bench::opened(LastShutdown::Unclean, 0), |_| {}));
}

#[test]
fn a_message_from_before_this_process_or_tried_before_is_counted_before_it_is_handed_out() {
    let tried = |group: &mut Group<'_, '_>| {
        let count = write_job(LeaseView::Needed, |tx: &mut WriterTx<'_>| {
            tx.execute("UPDATE orchestrator_queue SET attempt_count = 1", [])
        });
        assert_eq!(run(group, count).unwrap(), 1);
    };
    assert!(!is_early(&Bench::new(), tried));
    let of_a_later_life = Bench::opened(LastShutdown::Clean, i64::MAX);
    assert!(!is_early(&of_a_later_life, |_| {}));
}

#[test]
fn an_instance_of_which_only_messages_were_consumed_is_not_remembered() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let nothing = commit_turn::Commit::new(&token, TurnWrites::nothing(1)).unwrap();
    let nothing = write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        commit_turn::run(tx, &nothing)
    });
    run(&mut group, nothing).unwrap();
    assert!(bench.memory.get("i").is_none());
}
