//! What calls of activities said last. Rows go with their execution, by a trigger of the schema.

use crate::error::Result;
use crate::tx::{Tx, Unsigned};

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
