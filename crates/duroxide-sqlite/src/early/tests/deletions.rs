//! A deletion in the transaction that handed a turn out.

use duroxide_core::provider::Incarnation;

use super::*;
use crate::ops::delete;
use crate::tables::orchestrator_queue;

/// A start that the parent's turn sent.
fn start_of_child(child: &str, parent: Incarnation) -> (Box<dyn Job>, Reply<()>) {
    let message = codec::decided_message(&start_of(child)).unwrap();
    write_job(LeaseView::NotNeeded, move |tx: &mut WriterTx<'_>| {
        orchestrator_queue::push_from(tx, &message, Some(parent))
    })
}

fn delete(instance: &str) -> (Box<dyn Job>, Reply<u64>) {
    let ids = [instance.to_owned()];
    write_job(LeaseView::Needed, move |tx: &mut WriterTx<'_>| {
        Ok(delete::atomic(tx, &ids, true)?.counts.instances_deleted)
    })
}

#[test]
fn what_is_handed_out_early_of_a_deleted_parents_children_cannot_commit() {
    let (bench, conn) = (Bench::new(), open_memory().unwrap());
    // Its messages are more than one transaction deletes, so that the start is still to go.
    conn.execute_batch(
        "INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at, incarnation)
             VALUES ('parent', 'o', 0, 0, 7);
         INSERT INTO executions (instance_id, execution_id, status, started_at) VALUES ('parent', 1, 'Running', 0);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000)
             INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             SELECT 'parent', 'QueueMessage', '{}', 0, 0 FROM n;",
    )
    .unwrap();
    let (statements, in_flight) = (Statements::new(&conn), InFlight::default());
    let mut group = bench.begin(&statements, &in_flight);
    let parent = Incarnation::from_stored(7).unwrap();
    run(&mut group, start_of_child("c", parent)).unwrap();
    let token = run(&mut group, claim()).unwrap().remove(0);
    assert!(in_flight.any(), "it is handed out early");

    assert_eq!(run(&mut group, delete("parent")), Ok(1));

    let start = "SELECT COUNT(*) FROM orchestrator_queue WHERE sender_incarnation = 7";
    assert_eq!(count(&conn, start), 1);
    let refused = run(&mut group, commit(&token)).unwrap_err();
    assert_eq!(refused, SqliteError::Contract(Refusal::InvalidToken));
    assert!(run(&mut group, claim()).unwrap().is_empty());
    group.commit().unwrap();
    assert_eq!(count(&conn, LEASES), 0);
}
