//! Frees activities whose lease ran out, so that claims find them. In: the index of leases. Out: free rows, a bounded
//! number in each claim. An item that cannot be read stays under its lease, is remembered, and costs no other one.

use crate::error::{Result, SqliteError};
use crate::tables::worker_queue;
use crate::writer_tx::WriterTx;

/// How many items one claim frees at most.
const FREED_MAX: usize = 1_000;

/// Frees some; returns whether there may be more.
pub(crate) fn run(tx: &WriterTx<'_>) -> Result<bool> {
    let damaged = tx.writer().damaged;
    let expired = worker_queue::ids_of_expired(tx, FREED_MAX, |id| damaged.contains_work(id))?;
    for (at, id) in expired.iter().enumerate() {
        let freed = worker_queue::free_expired(tx, *id);
        if let Err(SqliteError::Damaged { detail }) = &freed {
            damaged.add_work(*id, detail);
            note_others(tx, &expired[at + 1..]);
        }
        freed?;
    }
    Ok(expired.len() == FREED_MAX)
}

/// Finds out what else cannot be read, so that not each one costs a transaction. By reading: SQLite writes nothing any
/// more in a transaction that met a damaged page.
fn note_others(tx: &WriterTx<'_>, ids: &[i64]) {
    for id in ids {
        if let Err(SqliteError::Damaged { detail }) = worker_queue::read_through(tx, *id) {
            tx.writer().damaged.add_work(*id, &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::database::open_memory;
    use crate::connection::statements::Statements;
    use crate::writer_tx::testing::Writer;

    #[test]
    fn one_claim_frees_a_bounded_number_of_expired_activities_and_says_that_there_are_more() {
        let conn = open_memory().unwrap();
        conn.execute_batch(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1500)
             INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, lock_token,
                 locked_until, created_at)
             SELECT 'i', 1, x, '{}', 0, 't', x % 7, 0 FROM n;",
        )
        .unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let free = || -> i64 {
            let sql = "SELECT COUNT(*) FROM worker_queue WHERE locked_until IS NULL";
            conn.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert!(run(&writer.tx(&statements, 10)).unwrap());
        assert_eq!(free(), FREED_MAX as i64);
        assert!(!run(&writer.tx(&statements, 10)).unwrap());
        assert_eq!(free(), 1_500);
    }
}
