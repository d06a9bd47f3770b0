//! Leases of instances. A row exists while a turn is claimed; it counts only until `locked_until`.
//!
//! An instance that rests may have a row too, under the reserved token [`RESTING`], which no caller has.

use crate::error::Result;
use crate::tx::Tx;

/// Grants a lease. The caller has made sure, in this transaction, that no valid one exists.
pub(crate) fn grant(tx: &Tx<'_>, instance: &str, token: &str, until: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO instance_locks (instance_id, lock_token, locked_until, locked_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (instance_id) DO UPDATE
         SET lock_token = excluded.lock_token, locked_until = excluded.locked_until, locked_at = excluded.locked_at",
        (instance, token, until, tx.now),
    )?;
    Ok(())
}

/// Stands for the token while an instance rests. Tokens of claims begin otherwise.
pub(super) const RESTING: &str = "resting";

/// Ends a valid lease; `false` if the token does not hold one.
pub(crate) fn release_valid(tx: &Tx<'_>, instance: &str, token: &str) -> Result<bool> {
    let ended = tx.execute(
        "DELETE FROM instance_locks WHERE instance_id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (instance, token, tx.now),
    )?;
    Ok(ended == 1)
}

/// Ends a lease that no other claim took over, expired or not.
pub(crate) fn release(tx: &Tx<'_>, instance: &str, token: &str) -> Result<bool> {
    let ended = tx.execute(
        "DELETE FROM instance_locks WHERE instance_id = ?1 AND lock_token = ?2",
        (instance, token),
    )?;
    Ok(ended == 1)
}

/// Ends whatever lease there is.
pub(crate) fn revoke(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "DELETE FROM instance_locks WHERE instance_id = ?1",
        [instance],
    )?;
    Ok(())
}

/// Extends a valid lease.
pub(crate) fn renew(tx: &Tx<'_>, instance: &str, token: &str, until: i64) -> Result<bool> {
    let renewed = tx.execute(
        "UPDATE instance_locks SET locked_until = ?4 WHERE instance_id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (instance, token, tx.now, until),
    )?;
    Ok(renewed == 1)
}

/// Whether the token holds a valid lease.
pub(crate) fn is_valid(tx: &Tx<'_>, instance: &str, token: &str) -> Result<bool> {
    let valid = tx.first(
        "SELECT 1 FROM instance_locks WHERE instance_id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (instance, token, tx.now),
        |_| Ok(()),
    )?;
    Ok(valid.is_some())
}

/// Whether the token is the last one granted, valid or not.
pub(crate) fn is_known(tx: &Tx<'_>, instance: &str, token: &str) -> Result<bool> {
    let known = tx.first(
        "SELECT 1 FROM instance_locks WHERE instance_id = ?1 AND lock_token = ?2",
        (instance, token),
        |_| Ok(()),
    )?;
    Ok(known.is_some())
}

/// When the next lease runs out. The table holds only instances being worked on, so it is simply read through.
pub(crate) fn next_expiry(tx: &Tx<'_>) -> Result<Option<i64>> {
    tx.one(
        "SELECT MIN(locked_until) FROM instance_locks WHERE locked_until > ?1",
        [tx.now],
        |row| row.get(0),
    )
}

/// Until when a node holds the instance, if one does.
pub(crate) fn valid_until(tx: &Tx<'_>, instance: &str) -> Result<Option<i64>> {
    tx.first(
        "SELECT locked_until FROM instance_locks WHERE instance_id = ?1 AND locked_until > ?2 AND lock_token <> ?3",
        (instance, tx.now, RESTING),
        |row| row.get(0),
    )
}
