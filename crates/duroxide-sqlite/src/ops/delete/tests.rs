use super::*;
use crate::connection::database::open_memory;
use crate::connection::statements::Statements;
use crate::writer_tx::testing::Writer;

fn count(conn: &rusqlite::Connection, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    conn.query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn an_instance_with_many_messages_and_executions_is_deleted_in_bounded_steps() {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
             SELECT x FROM n;
         INSERT INTO instances (instance_id, orchestration_name, current_execution_id, created_at, updated_at)
             VALUES ('i', 'o', 2500, 0, 0);
         INSERT INTO executions (instance_id, execution_id, status, started_at)
             SELECT 'i', x, CASE x WHEN 2500 THEN 'Running' ELSE 'ContinuedAsNew' END, 0 FROM n WHERE x <= 2500;
         INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             SELECT 'i', 'QueueMessage', '{}', 5000 - x, 0 FROM n;",
    )
    .unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let bound = STEP_ROWS as u64 * 11 / 10;
    let changed = |step: &mut dyn FnMut(&mut WriterTx<'_>)| {
        let before = conn.total_changes();
        step(&mut writer.tx(&statements, 1));
        let changes = conn.total_changes() - before;
        assert!(changes <= bound, "{changes} rows");
    };
    let mut total = DeleteInstanceResult::default();
    changed(&mut |tx| total = atomic(tx, &["i".to_owned()], true).unwrap().counts);
    assert_eq!(
        executions::count_running(&Tx::new(&statements, 1)).unwrap(),
        0
    );
    // What comes for a new instance of the id stays, whatever number it gets.
    conn.execute_batch(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             VALUES ('i', 'StartOrchestration', '{}', 0, 0)",
    )
    .unwrap();
    while let Some(left) = deletions::next(&Tx::new(&statements, 1), None).unwrap() {
        changed(&mut |tx| add(&mut total, &sweep(tx, &left, STEP_ROWS).unwrap().counts));
    }
    assert_eq!(total.queue_messages_deleted, 5_000);
    assert_eq!(total.executions_deleted, 2_500);
    let left = (
        count(&conn, "executions"),
        count(&conn, "orchestrator_queue"),
    );
    assert_eq!(left, (0, 1));
}

#[test]
fn a_sweep_that_comes_late_leaves_the_next_instance_of_the_id_alone() {
    let conn = open_memory().unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    deletions::add(&writer.tx(&statements, 1), "i", Left::default()).unwrap();
    // Two sweepers read the id; the first one is through before the second one has its turn to write.
    let first = sweep(&mut writer.tx(&statements, 1), "i", STEP_ROWS).unwrap();
    assert_eq!(first.rows, 0);
    conn.execute_batch(
        "INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at) VALUES ('i', 'o', 0, 0);
         INSERT INTO executions (instance_id, execution_id, status, started_at) VALUES ('i', 1, 'Running', 0);
         INSERT INTO history VALUES ('i', 1, 1, 'e', '{}', 0), ('i', 1, 2, 'e', '{}', 0);",
    )
    .unwrap();

    let second = sweep(&mut writer.tx(&statements, 1), "i", STEP_ROWS).unwrap();

    assert_eq!(second.rows, 0);
    let left = (count(&conn, "executions"), count(&conn, "history"));
    assert_eq!(left, (1, 2), "the next instance lost its history");
}

#[test]
fn an_instance_with_huge_rows_is_deleted_in_steps_of_bounded_bytes() {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 40)
             SELECT x FROM n;
         INSERT INTO instances (instance_id, orchestration_name, current_execution_id, created_at, updated_at)
             VALUES ('i', 'o', 10, 0, 0);
         INSERT INTO executions (instance_id, execution_id, status, output, started_at)
             SELECT 'i', x, 'Completed', printf('%.*c', 500000, 'o'), 0 FROM n WHERE x <= 10;
         INSERT INTO history SELECT 'i', x, 1, 'e', printf('%.*c', 500000, 'h'), 0 FROM n;
         INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
             SELECT 'i', 'QueueMessage', printf('%.*c', 500000, 'q'), 0, 0 FROM n;",
    )
    .unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let bytes = || -> i64 {
        let sql = "SELECT (SELECT TOTAL(octet_length(work_item)) FROM orchestrator_queue)
             + (SELECT TOTAL(octet_length(event_data)) FROM history)
             + (SELECT TOTAL(octet_length(output)) FROM executions)";
        let total: f64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        total as i64
    };
    let bound = (STEP_ROWS as i64 + 300) * 4_096;
    let mut before = bytes();
    let mut shrinks_little = || {
        let now = bytes();
        assert!(before - now <= bound, "{} bytes", before - now);
        before = now;
    };
    atomic(&mut writer.tx(&statements, 1), &["i".to_owned()], true).unwrap();
    shrinks_little();
    while let Some(left) = deletions::next(&Tx::new(&statements, 1), None).unwrap() {
        sweep(&mut writer.tx(&statements, 1), &left, STEP_ROWS).unwrap();
        shrinks_little();
    }
    assert_eq!(bytes(), 0);
}

#[test]
fn one_step_of_a_bulk_deletion_deletes_a_bounded_number_of_rows() {
    let conn = open_memory().unwrap();
    conn.execute_batch(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300)
             SELECT x FROM n;
         INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at)
             SELECT 'i' || x, 'o', 0, 0 FROM n WHERE x <= 20;
         INSERT INTO executions (instance_id, execution_id, status, started_at, completed_at)
             SELECT 'i' || x, 1, 'Completed', 0, 0 FROM n WHERE x <= 20;
         INSERT INTO history SELECT 'i' || a.x, 1, b.x, 'e', '{}', 0 FROM n AS a, n AS b WHERE a.x <= 20;",
    )
    .unwrap();
    let statements = Statements::new(&conn);
    let writer = Writer::new();
    let all: Vec<String> = (1..=20).map(|n| format!("i{n}")).collect();
    let mut roots = all.as_slice();
    let mut events = 0;
    while !roots.is_empty() {
        let before = conn.total_changes();
        let mut tx = writer.tx(&statements, 1);
        let done = bulk_step(&mut tx, roots, None, usize::MAX).unwrap();
        let changes = conn.total_changes() - before;
        assert!(changes <= STEP_ROWS as u64 * 11 / 10, "{changes} rows");
        roots = &roots[done.looked_at..];
        events += done.gone.counts.events_deleted;
        while let Some(left) = deletions::next(&tx, None).unwrap() {
            let swept = sweep(&mut tx, &left, STEP_ROWS).unwrap();
            events += swept.counts.events_deleted;
        }
    }
    assert_eq!(events, 20 * 300);
    assert_eq!(
        instances::list(&Tx::new(&statements, 1)).unwrap(),
        Vec::<String>::new()
    );
}
