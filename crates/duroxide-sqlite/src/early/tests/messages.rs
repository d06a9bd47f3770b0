//! Messages that are not written before somebody has to see them.

use duroxide_core::provider::rules::lane;
use duroxide_core::provider::{IdState, StartRule, Submission, Submitted};

use super::*;
use crate::ops::{pause, pending, submit};

const IDS: &str =
    "SELECT group_concat(instance_id || id) FROM (SELECT * FROM orchestrator_queue ORDER BY id)";
const EVER_WRITTEN: &str = "SELECT COUNT(*) FROM ever_written";

/// A database that notes which messages were rows at any time.
fn noting() -> Connection {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "CREATE TEMP TABLE ever_written (id INTEGER);
         CREATE TEMP TRIGGER noted AFTER INSERT ON main.orchestrator_queue
             BEGIN INSERT INTO ever_written VALUES (NEW.id); END;",
    )
    .unwrap();
    conn
}

fn text(conn: &Connection, sql: &str) -> String {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn event(instance: &str) -> (Box<dyn Job>, Reply<()>) {
    enqueue(&WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "go".to_owned(),
        data: String::new(),
    })
}

fn submit(instance: &str) -> (Box<dyn Job>, Reply<Submitted>) {
    let rule = StartRule::MustBeNew;
    let submission = Submission::start(start_of(instance), None, rule, Vec::new());
    let submit = submit::Submit::new(submission).unwrap();
    write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        submit::run(tx, &submit)
    })
}

/// A database that takes no message for the instance `full`.
fn nearly_full() -> Connection {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON main.orchestrator_queue WHEN NEW.instance_id = 'full'
             BEGIN SELECT RAISE(ABORT, 'no room'); END;",
    )
    .unwrap();
    conn
}

/// Runs what the group does before it commits, and commits.
fn finish(mut group: Group<'_, '_>) -> Ran {
    let ran = group.write_in_flight().unwrap();
    group.commit().unwrap();
    group.into_parts().0.into_iter().for_each(Answer::answer);
    ran
}

#[test]
fn a_message_whose_turn_is_committed_in_its_own_transaction_is_never_written() {
    let (bench, conn) = (Bench::new(), noting());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, commit_as(&token, "Running", &[1])).unwrap();
    assert_eq!(finish(group), Ran::Once);
    let in_flight = InFlight::default();
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, event("i")).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, commit_as(&token, "Completed", &[2])).unwrap();
    finish(group);
    assert_eq!(count(&conn, EVER_WRITTEN), 0);
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM history"), 2);
}

#[test]
fn a_message_that_no_turn_takes_is_written_with_the_commit() {
    let (bench, conn) = (Bench::new(), noting());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    assert_eq!(count(&conn, MESSAGES), 0);
    finish(group);
    assert_eq!(count(&conn, MESSAGES), 1);
    let in_flight = InFlight::default();
    let mut group = bench.begin(&statements, &in_flight);
    assert_eq!(run(&mut group, claim()).unwrap().len(), 1, "by its lane");
}

#[test]
fn a_message_that_comes_after_its_instance_had_a_turn_waits_as_a_row_for_the_next_transaction() {
    let (bench, conn) = (Bench::new(), noting());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, commit_as(&token, "Running", &[1])).unwrap();
    run(&mut group, event("i")).unwrap();
    assert!(run(&mut group, claim()).unwrap().is_empty());
    finish(group);
    assert_eq!(text(&conn, IDS), "i1");
    assert_eq!(count(&conn, EVER_WRITTEN), 1, "only the event");
}

#[test]
fn a_request_that_looks_at_the_queue_finds_every_message() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let look = write_job(LeaseView::Needed, |tx: &mut WriterTx<'_>| {
        tx.one(MESSAGES, [], |row| row.get::<_, i64>(0))
    });
    assert_eq!(run(&mut group, look).unwrap(), 1);
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, commit(&token)).unwrap();
    finish(group);
    assert_eq!(count(&conn, MESSAGES), 0, "the turn took the row");
}

#[test]
fn a_message_that_comes_while_its_turn_is_in_flight_is_left_when_the_turn_is_committed() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, event("i")).unwrap();
    run(&mut group, commit_as(&token, "Running", &[1])).unwrap();
    finish(group);
    assert_eq!(text(&conn, IDS), "i2");
}

#[test]
fn messages_are_numbered_in_the_order_they_came_written_or_not() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, enqueue(&start_of("a"))).unwrap();
    // Nobody started this one, so the tables decide about its lane.
    run(&mut group, event("stray")).unwrap();
    run(&mut group, enqueue(&start_of("b"))).unwrap();
    run(&mut group, enqueue(&start_of("c"))).unwrap();
    run(&mut group, event("b")).unwrap();
    run(&mut group, enqueue(&start_of("d"))).unwrap();
    finish(group);
    assert_eq!(text(&conn, IDS), "a1,stray2,b3,c4,b5,d6");
}

#[test]
fn a_message_that_is_not_written_is_among_what_is_pending() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, enqueue(&start_of("a"))).unwrap();
    let look = write_job(LeaseView::NotNeeded, |tx: &mut WriterTx<'_>| {
        pending::run(tx, "a")
    });
    let pending = run(&mut group, look).unwrap();
    assert_eq!(pending.messages.len(), 1);
}

#[test]
fn two_messages_of_one_instance_in_one_transaction_are_claimed_together() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    run(&mut group, start()).unwrap();
    run(&mut group, event("i")).unwrap();
    assert_eq!(run(&mut group, claim()).unwrap().len(), 1);
    finish(group);
    assert_eq!(text(&conn, IDS), "i1,i2,i3");
    assert_eq!(count(&conn, TAGGED), 3);
}

#[test]
fn a_start_that_came_twice_in_one_transaction_is_stored_once() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    assert_eq!(run(&mut group, submit("i")).unwrap(), Submitted::Started);
    let refused = Submitted::Refused(IdState::Starting);
    assert_eq!(run(&mut group, submit("i")).unwrap(), refused);
    finish(group);
    assert_eq!(text(&conn, IDS), "i1");
}

#[test]
fn a_message_of_an_instance_that_was_paused_in_the_same_transaction_is_held_back() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    run(&mut group, start()).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    run(&mut group, commit_as(&token, "Running", &[1])).unwrap();
    finish(group);
    let in_flight = InFlight::default();
    let mut group = bench.begin(&statements, &in_flight);
    let paused = write_job(LeaseView::Needed, |tx: &mut WriterTx<'_>| {
        pause::pause(tx, "i", None)
    });
    run(&mut group, paused).unwrap();
    run(&mut group, event("i")).unwrap();
    assert!(run(&mut group, claim()).unwrap().is_empty());
    finish(group);
    assert_eq!(
        text(&conn, "SELECT lane FROM orchestrator_queue"),
        lane::PAUSED
    );
}

#[test]
fn a_job_that_fails_after_it_left_a_message_leaves_none() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let (kept, _answer) = enqueue(&start_of("a"));
    let message = codec::decided_message(&start_of("b")).unwrap();
    let (failing, mut failed) = write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        enqueue::message(tx, &message)?;
        Err::<(), _>(Refusal::InvalidToken.into())
    });
    assert_eq!(group.run(vec![kept, failing]).unwrap(), Ran::Again);
    finish(group);
    assert!(failed.try_recv().unwrap().is_err());
    assert_eq!(text(&conn, IDS), "a1");
}

#[test]
fn the_message_of_a_turn_that_cannot_be_committed_is_not_lost() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let (first, _answer) = start();
    group.run(vec![first]).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    let (twice, _refused) = commit_as(&token, "Running", &[1, 1]);
    assert_eq!(group.run(vec![twice]).unwrap(), Ran::Again);
    finish(group);
    assert_eq!(text(&conn, IDS), "i1");
    assert_eq!(count(&conn, "SELECT COUNT(*) FROM history"), 0);
}

#[test]
fn a_message_that_cannot_be_written_fails_its_sender_alone() {
    let (bench, conn) = (Bench::new(), nearly_full());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let (refused, mut no) = enqueue(&start_of("full"));
    let (stored, mut yes) = enqueue(&start_of("a"));
    assert_eq!(group.run(vec![refused, stored]).unwrap(), Ran::Once);
    assert_eq!(finish(group), Ran::Again);
    assert!(no.try_recv().unwrap().is_err());
    assert!(yes.try_recv().unwrap().is_ok());
    assert_eq!(text(&conn, IDS), "a1");
}

#[test]
fn a_message_that_a_later_request_cannot_write_fails_its_sender() {
    let (bench, conn) = (Bench::new(), nearly_full());
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let (refused, mut no) = enqueue(&start_of("full"));
    let (stored, mut yes) = enqueue(&start_of("a"));
    let (looks, _answer) = submit("full");
    assert_eq!(group.run(vec![refused, stored, looks]).unwrap(), Ran::Again);
    finish(group);
    assert!(no.try_recv().unwrap().is_err(), "the row is not there");
    assert!(yes.try_recv().unwrap().is_ok());
    assert_eq!(text(&conn, IDS), "a1");
}
