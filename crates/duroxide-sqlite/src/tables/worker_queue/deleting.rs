//! Activities of deleted instances. In: an instance, and up to which number its activities are to go. Out: fewer of
//! them. Never more at once than the transaction may still delete, but for those that a worker holds.

use super::HELD_BACK_UNTIL;
use crate::error::Result;
use crate::tables::budget::{rows, spend};
use crate::tx::Tx;

/// The highest number of any activity.
pub(crate) fn last_id(tx: &Tx<'_>) -> Result<Option<i64>> {
    tx.one("SELECT MAX(id) FROM worker_queue", [], |row| row.get(0))
}

/// Deletes activities of an instance up to a number, as many as are left to the transaction. Returns how many went, and
/// whether those were all.
pub(crate) fn delete_up_to(
    tx: &Tx<'_>,
    instance: &str,
    last: i64,
    left: &mut usize,
) -> Result<(usize, bool)> {
    let mut ids: Vec<i64> = Vec::new();
    let budget = rows(*left);
    tx.walk(
        "SELECT id, octet_length(work_item) FROM worker_queue INDEXED BY idx_worker_activity
         WHERE instance_id = ?1 AND id <= ?2 LIMIT ?3",
        (instance, last, budget),
        |row| {
            ids.push(row.get(0)?);
            spend(left, row.get(1)?);
            Ok(*left > 0)
        },
    )?;
    delete(tx, &ids)?;
    Ok((ids.len(), *left > 0))
}

/// Deletes the activities of an instance that workers hold, who find out with the next renewal; returns how many. They
/// are found among all that are held: those are few, whatever waits for this instance.
pub(crate) fn delete_held_of(tx: &Tx<'_>, instance: &str) -> Result<usize> {
    let any = tx.first(
        "SELECT 1 FROM worker_queue WHERE instance_id = ?1 LIMIT 1",
        [instance],
        |_| Ok(()),
    )?;
    if any.is_none() {
        return Ok(0);
    }
    let ids: Vec<i64> = tx.all(
        "SELECT id FROM worker_queue INDEXED BY idx_worker_available
         WHERE locked_until < ?2 AND instance_id = ?1",
        (instance, HELD_BACK_UNTIL),
        |row| row.get(0),
    )?;
    delete(tx, &ids)?;
    Ok(ids.len())
}

fn delete(tx: &Tx<'_>, ids: &[i64]) -> Result<()> {
    for id in ids {
        tx.execute("DELETE FROM worker_queue WHERE id = ?1", [id])?;
    }
    Ok(())
}
