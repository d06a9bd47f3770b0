//! The lease of one activity: taken, renewed, given back, or ended with the item.

use crate::error::Result;
use crate::tx::{Tx, payload_text, unsigned};

/// Leases one item and counts the attempt.
pub(crate) fn claim(tx: &Tx<'_>, id: i64, token: &str, until: i64) -> Result<()> {
    tx.execute(
        "UPDATE worker_queue SET lock_token = ?2, locked_until = ?3, attempt_count = attempt_count + 1 WHERE id = ?1",
        (id, token, until),
    )?;
    Ok(())
}

/// Deletes an item under its valid lease; `false` if the token does not hold one.
pub(crate) fn delete_held(tx: &Tx<'_>, id: i64, token: &str) -> Result<bool> {
    let deleted = tx.execute(
        "DELETE FROM worker_queue WHERE id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (id, token, tx.now),
    )?;
    Ok(deleted == 1)
}

/// Extends a valid lease; `false` if the token does not hold one.
pub(crate) fn renew(tx: &Tx<'_>, id: i64, token: &str, until: i64) -> Result<bool> {
    let renewed = tx.execute(
        "UPDATE worker_queue SET locked_until = ?4 WHERE id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (id, token, tx.now, until),
    )?;
    Ok(renewed == 1)
}

/// The session an item is bound to.
pub(crate) fn session_of(tx: &Tx<'_>, id: i64) -> Result<Option<String>> {
    let found = tx.first(
        "SELECT session_id FROM worker_queue WHERE id = ?1",
        [id],
        |row| row.get(0),
    )?;
    Ok(found.flatten())
}

/// Whether the lease is valid.
pub(crate) fn is_held(tx: &Tx<'_>, id: i64, token: &str) -> Result<bool> {
    let held = tx.first(
        "SELECT 1 FROM worker_queue WHERE id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (id, token, tx.now),
        |_| Ok(()),
    )?;
    Ok(held.is_some())
}

/// Whether the token is the last one granted for the item, valid or not.
pub(crate) fn is_known(tx: &Tx<'_>, id: i64, token: &str) -> Result<bool> {
    let known = tx.first(
        "SELECT 1 FROM worker_queue WHERE id = ?1 AND lock_token = ?2",
        (id, token),
        |_| Ok(()),
    )?;
    Ok(known.is_some())
}

/// Gives an item back.
pub(crate) fn release(
    tx: &Tx<'_>,
    id: i64,
    token: &str,
    visible_at: Option<i64>,
    ignore_attempt: bool,
) -> Result<bool> {
    let released = tx.execute(
        "UPDATE worker_queue
         SET lock_token = NULL, locked_until = NULL, visible_at = COALESCE(?3, visible_at), attempt_count = MAX(0, attempt_count - ?4)
         WHERE id = ?1 AND lock_token = ?2",
        (id, token, visible_at, i64::from(ignore_attempt)),
    )?;
    Ok(released == 1)
}

/// An item that was removed.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) instance: String,
    pub(crate) execution_id: u64,
    pub(crate) activity_id: u64,
    /// What it said.
    pub(crate) payload: String,
}

/// Removes an item under its token.
pub(crate) fn take(tx: &Tx<'_>, id: i64, token: &str) -> Result<Option<Taken>> {
    tx.first(
        "DELETE FROM worker_queue WHERE id = ?1 AND lock_token = ?2
         RETURNING instance_id, execution_id, activity_id, work_item",
        (id, token),
        |row| {
            Ok(Taken {
                instance: row.get(0)?,
                execution_id: unsigned(row, 1)?,
                activity_id: unsigned(row, 2)?,
                payload: payload_text(row, 3)?,
            })
        },
    )
}
