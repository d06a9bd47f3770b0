//! What calls of activities said last. Rows go with their execution, by a trigger of the schema. What deletes an
//! execution deletes them before, as many as the transaction may: the trigger would take any number of them.

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::tables::budget::{rows, spend};
use crate::tx::{Tx, Unsigned};

/// Every execution.
pub(crate) const ALL: RangeInclusive<u64> = 0..=i64::MAX.unsigned_abs();

/// Keeps what a call said, in place of what it said before. The activity is one of the worker queue, by its row; the
/// details of an execution that is gone have no place to stay.
pub(crate) fn keep(tx: &Tx<'_>, work: i64, call: u64, details: &str) -> Result<bool> {
    let kept = tx.execute(
        "INSERT INTO heartbeats (instance_id, execution_id, call_id, details, said_at)
         SELECT e.instance_id, e.execution_id, ?2, ?3, ?4
         FROM worker_queue AS w JOIN executions AS e ON e.instance_id = w.instance_id AND e.execution_id = w.execution_id
         WHERE w.id = ?1
         ON CONFLICT (instance_id, execution_id, call_id) DO UPDATE
         SET details = excluded.details, said_at = excluded.said_at",
        (work, Unsigned(call), details, tx.now),
    )?;
    Ok(kept > 0)
}

pub(crate) fn last(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    call: u64,
) -> Result<Option<String>> {
    tx.first(
        "SELECT details FROM heartbeats WHERE instance_id = ?1 AND execution_id = ?2 AND call_id = ?3",
        (instance, Unsigned(execution_id), Unsigned(call)),
        |row| row.get(0),
    )
}

/// Deletes what was said in some executions of an instance, as much as is left to the transaction.
pub(crate) fn delete_some(
    tx: &Tx<'_>,
    instance: &str,
    executions: &RangeInclusive<u64>,
    left: &mut usize,
) -> Result<()> {
    let mut last: Option<(i64, i64)> = None;
    let budget = rows(*left);
    let from = Unsigned(*executions.start());
    tx.walk(
        "SELECT execution_id, call_id, octet_length(details) FROM heartbeats
         WHERE instance_id = ?1 AND execution_id BETWEEN ?2 AND ?3 ORDER BY execution_id, call_id LIMIT ?4",
        (instance, &from, Unsigned(*executions.end()), budget),
        |row| {
            last = Some((row.get(0)?, row.get(1)?));
            spend(left, row.get(2)?);
            Ok(*left > 0)
        },
    )?;
    if let Some((execution_id, call_id)) = last {
        tx.execute(
            "DELETE FROM heartbeats WHERE instance_id = ?1 AND execution_id >= ?2
                 AND (execution_id, call_id) <= (?3, ?4)",
            (instance, &from, execution_id, call_id),
        )?;
    }
    Ok(())
}
