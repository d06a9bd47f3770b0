//! Instances that are paused. Claims ask for each instance and activity they meet; nearly always there are none, and
//! the writer remembers that.

use crate::error::Result;
use crate::tx::{Pauses, Tx};

/// Pauses an instance; `false` if it was paused.
pub(crate) fn add(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    changes(tx);
    let added = tx.execute(
        "INSERT INTO pauses (instance_id, paused_at) VALUES (?1, ?2) ON CONFLICT (instance_id) DO NOTHING",
        (instance, tx.now),
    )?;
    Ok(added == 1)
}

/// Writes the pause of an instance that comes from a snapshot.
pub(crate) fn restore(tx: &Tx<'_>, instance: &str, paused_at: i64) -> Result<()> {
    changes(tx);
    tx.execute(
        "INSERT INTO pauses (instance_id, paused_at) VALUES (?1, ?2)",
        (instance, paused_at),
    )?;
    Ok(())
}

/// Since when an instance is paused.
pub(crate) fn since(tx: &Tx<'_>, instance: &str) -> Result<Option<i64>> {
    if is_empty(tx)? {
        return Ok(None);
    }
    tx.first(
        "SELECT paused_at FROM pauses WHERE instance_id = ?1",
        [instance],
        |row| row.get(0),
    )
}

/// Forgets the pause of an instance; `false` if there was none.
pub(crate) fn remove(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    if is_empty(tx)? {
        return Ok(false);
    }
    changes(tx);
    let removed = tx.execute("DELETE FROM pauses WHERE instance_id = ?1", [instance])?;
    Ok(removed == 1)
}

/// Whether the writer knows that there are none.
pub(crate) fn is_empty(tx: &Tx<'_>) -> Result<bool> {
    let Some(memory) = tx.memory() else {
        return Ok(false);
    };
    let known = match memory.pauses() {
        Some(known) => known,
        None => match tx.first("SELECT 1 FROM pauses LIMIT 1", [], |_| Ok(()))? {
            None => Pauses::None,
            Some(()) => Pauses::Some,
        },
    };
    memory.set_pauses(Some(known));
    Ok(known == Pauses::None)
}

/// What the writer remembers of them no longer holds.
fn changes(tx: &Tx<'_>) {
    if let Some(memory) = tx.memory() {
        memory.set_pauses(None);
    }
}
