//! Messages of paused instances: in a lane that no claim looks into.

use crate::error::Result;
use crate::tx::Tx;

/// Stands in `asked_at` for a request to cancel a paused instance: it is behind all others.
const ASKED_LAST: i64 = i64::MAX;

/// Whether a visible request to terminate is queued.
pub(crate) fn is_to_be_terminated(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue INDEXED BY idx_orch_cancel_of
         WHERE kind = 'CancelInstance' AND instance_id = ?1 AND asked_at = 0 AND visible_at <= ?2 LIMIT 1",
        (instance, tx.now),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Puts a request to cancel behind those that may be carried out without code.
pub(crate) fn defer_cancel(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET asked_at = ?2 WHERE id = ?1 AND kind = 'CancelInstance' AND asked_at <> 0",
        (id, ASKED_LAST),
    )?;
    Ok(())
}

/// Puts the messages of an instance back where claims look. The claim that meets one finds out which lane is right.
pub(crate) fn bring_back(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET lane = '' WHERE instance_id = ?1 AND lane = 'paused'",
        [instance],
    )?;
    let deferred = tx.execute(
        "UPDATE orchestrator_queue SET asked_at = created_at
         WHERE instance_id = ?1 AND kind = 'CancelInstance' AND asked_at = ?2",
        (instance, ASKED_LAST),
    )?;
    if deferred > 0
        && let Some(memory) = tx.memory()
    {
        // As old as any: the next claim reads how old they are.
        memory.cancel_enqueued(i64::MIN);
    }
    Ok(())
}
