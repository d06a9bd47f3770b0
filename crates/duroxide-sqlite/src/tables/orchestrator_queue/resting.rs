//! Messages of instances that rest. In: a claim that is given back for a while. Out: whether it may rest, and its
//! messages when a rest ends.

use super::{Bounds, choose_head};
use crate::error::Result;
use crate::tables::rests::{self, Ended};
use crate::tx::Tx;

/// When the next message of an instance becomes visible.
pub(crate) fn next_due_of(tx: &Tx<'_>, instance: &str) -> Result<Option<i64>> {
    tx.one(
        "SELECT MIN(visible_at) FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at > ?2",
        (instance, tx.now),
        |row| row.get(0),
    )
}

/// Whether a visible message is queued that came since the claim of this token. What a full claim left was there
/// before, but for a request to cancel that was never handed out; and queue messages stay behind a continue-as-new that
/// carries some.
pub(crate) fn came_since_claim(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    bounds: Bounds,
) -> Result<bool> {
    let carries = tx.first(
        "SELECT 1 FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token = ?3 AND carries IS NOT NULL LIMIT 1",
        (instance, bounds.visible_by, token),
        |_| Ok(()),
    )?;
    if bounds.is_cut {
        return asked_to_cancel_since(tx, instance, token);
    }
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token IS NOT ?3 AND NOT (?4 AND kind = 'QueueMessage')
         LIMIT 1",
        (instance, tx.now, token, carries.is_some()),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Whether a request to cancel came since the claim of this token, which took none: it takes the oldest one in any
/// case. The index has only such requests, however many messages there are.
fn asked_to_cancel_since(tx: &Tx<'_>, instance: &str, token: &str) -> Result<bool> {
    tx.one(
        "SELECT COUNT(*) > 0 AND TOTAL(lock_token IS ?2) = 0 FROM orchestrator_queue INDEXED BY idx_orch_cancel_of
         WHERE instance_id = ?1 AND kind = 'CancelInstance' AND visible_at <= ?3",
        (instance, token, tx.now),
        |row| row.get(0),
    )
}

/// Whether a visible message is queued that this claim did not take.
pub(crate) fn is_left_behind(tx: &Tx<'_>, instance: &str, token: &str) -> Result<bool> {
    let left = tx.first(
        "SELECT 1 FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token IS NOT ?3 LIMIT 1",
        (instance, tx.now, token),
        |_| Ok(()),
    )?;
    Ok(left.is_some())
}

/// The instance rests no more: its messages come together, in their order. Returns whether it did.
pub(crate) fn end_rest(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    match rests::end(tx, instance)? {
        Ended::Nothing => return Ok(false),
        Ended::Held => {}
        Ended::Hidden(until) => {
            tx.execute(
                "UPDATE orchestrator_queue SET visible_at = ?3 WHERE instance_id = ?1 AND visible_at = ?2",
                (instance, until, tx.now),
            )?;
            choose_head(tx, instance)?;
        }
    }
    Ok(true)
}
