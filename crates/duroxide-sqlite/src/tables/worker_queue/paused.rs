//! Activities of paused instances: under a lease that no worker holds and that does not end.

use crate::error::Result;
use crate::tx::Tx;

/// When that lease ends.
pub(super) const HELD_BACK_UNTIL: i64 = i64::MAX;

/// The instance that an item belongs to.
pub(crate) fn instance_of(tx: &Tx<'_>, id: i64) -> Result<Option<String>> {
    tx.first(
        "SELECT instance_id FROM worker_queue WHERE id = ?1",
        [id],
        |row| row.get(0),
    )
}

/// Holds a free item back until its instance is resumed.
pub(crate) fn hold_back(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.execute(
        "UPDATE worker_queue SET lock_token = 'paused', locked_until = ?2 WHERE id = ?1",
        (id, HELD_BACK_UNTIL),
    )?;
    Ok(())
}

/// Frees the items of an instance that were held back.
pub(crate) fn bring_back(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "UPDATE worker_queue SET lock_token = NULL, locked_until = NULL WHERE instance_id = ?1 AND locked_until = ?2",
        (instance, HELD_BACK_UNTIL),
    )?;
    Ok(())
}
