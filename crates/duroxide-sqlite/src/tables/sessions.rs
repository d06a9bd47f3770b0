//! Leases of sessions: which worker all activities of a session go to.

use crate::error::Result;
use crate::tx::Tx;

/// Leases a session. The caller has made sure, in this transaction, that no other worker holds it.
pub(crate) fn grant(tx: &Tx<'_>, session: &str, worker: &str, until: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO sessions (session_id, worker_id, locked_until, last_activity_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session_id) DO UPDATE SET worker_id = excluded.worker_id,
             locked_until = excluded.locked_until, last_activity_at = excluded.last_activity_at",
        (session, worker, until, tx.now),
    )?;
    Ok(())
}

/// Something happened in the session; a lease that has run out is not revived.
pub(crate) fn touch(tx: &Tx<'_>, session: &str) -> Result<()> {
    tx.execute(
        "UPDATE sessions SET last_activity_at = ?2 WHERE session_id = ?1 AND locked_until > ?2",
        (session, tx.now),
    )?;
    Ok(())
}

/// Extends the valid leases of one worker that saw activity after `active_since`; returns how many.
pub(crate) fn renew(tx: &Tx<'_>, worker: &str, until: i64, active_since: i64) -> Result<usize> {
    tx.execute(
        "UPDATE sessions SET locked_until = ?3 WHERE worker_id = ?1 AND locked_until > ?2 AND last_activity_at > ?4",
        (worker, tx.now, until, active_since),
    )
}

/// Deletes sessions whose lease has run out and that no queued activity names; returns how many.
pub(crate) fn delete_orphaned(tx: &Tx<'_>) -> Result<usize> {
    tx.execute(
        "DELETE FROM sessions WHERE locked_until < ?1
         AND NOT EXISTS (SELECT 1 FROM worker_queue AS w WHERE w.session_id = sessions.session_id)",
        [tx.now],
    )
}
