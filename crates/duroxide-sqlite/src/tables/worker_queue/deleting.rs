//! Activities of deleted instances. In: an instance, and up to which number its activities are to go. Out: their
//! numbers from an index alone, what each costs, fewer of them. A row that cannot be read stands in no other one's way.

use super::HELD_BACK_UNTIL;
use crate::error::Result;
use crate::tables::budget::Going;
use crate::tx::Tx;

/// The highest number of any activity. Reads the last row.
pub(crate) fn last_id(tx: &Tx<'_>) -> Result<Option<i64>> {
    tx.one("SELECT MAX(id) FROM worker_queue", [], |row| row.get(0))
}

/// Numbers of activities of an instance up to this one, at most `max`, without those that are passed over. The rows
/// themselves are not read.
pub(crate) fn ids_up_to(
    tx: &Tx<'_>,
    instance: &str,
    last: i64,
    max: usize,
    is_passed_over: impl Fn(i64) -> bool,
) -> Result<Going> {
    let mut going = Going::default();
    tx.walk(
        "SELECT id FROM worker_queue INDEXED BY idx_worker_activity WHERE instance_id = ?1 AND id <= ?2",
        (instance, last),
        |row| {
            let id = row.get(0)?;
            Ok(going.meet(id, is_passed_over(id), max))
        },
    )?;
    Ok(going)
}

/// How long the payload of an activity is.
pub(crate) fn payload_bytes(tx: &Tx<'_>, id: i64) -> Result<i64> {
    tx.one(
        "SELECT octet_length(work_item) FROM worker_queue WHERE id = ?1",
        [id],
        |row| row.get(0),
    )
}

/// Whether an instance has any activity, from the index alone.
pub(crate) fn any_of(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let any = tx.first(
        "SELECT 1 FROM worker_queue INDEXED BY idx_worker_activity WHERE instance_id = ?1 LIMIT 1",
        [instance],
        |_| Ok(()),
    )?;
    Ok(any.is_some())
}

/// Numbers of the activities that workers hold, without those that are passed over. The rows themselves are not read.
pub(crate) fn ids_of_held(tx: &Tx<'_>, is_passed_over: impl Fn(i64) -> bool) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    tx.walk(
        "SELECT id FROM worker_queue INDEXED BY idx_worker_available WHERE locked_until < ?1",
        [HELD_BACK_UNTIL],
        |row| {
            let id = row.get(0)?;
            if !is_passed_over(id) {
                found.push(id);
            }
            Ok(true)
        },
    )?;
    Ok(found)
}

/// Deletes one.
pub(crate) fn delete(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.execute("DELETE FROM worker_queue WHERE id = ?1", [id])?;
    Ok(())
}
