//! Instances that were deleted and whose histories are not removed yet.

use crate::error::Result;
use crate::tx::{Deletions, Tx};

pub(crate) fn add(tx: &Tx<'_>, instance: &str) -> Result<()> {
    changes(tx);
    tx.execute(
        "INSERT INTO deletions (instance_id) VALUES (?1) ON CONFLICT (instance_id) DO NOTHING",
        [instance],
    )?;
    Ok(())
}

pub(crate) fn contains(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    if is_empty(tx)? {
        return Ok(false);
    }
    let found = tx.first(
        "SELECT 1 FROM deletions WHERE instance_id = ?1",
        [instance],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// The first of them after a given one.
pub(crate) fn next(tx: &Tx<'_>, after: Option<&str>) -> Result<Option<String>> {
    tx.first(
        "SELECT instance_id FROM deletions WHERE instance_id > ?1 OR ?1 IS NULL ORDER BY instance_id LIMIT 1",
        [after],
        |row| row.get(0),
    )
}

/// Whether the writer remembers that there are none; every new instance asks.
fn is_empty(tx: &Tx<'_>) -> Result<bool> {
    let Some(memory) = tx.memory() else {
        return Ok(false);
    };
    let known = match memory.deletions() {
        Some(known) => known,
        None => match next(tx, None)? {
            None => Deletions::None,
            Some(_) => Deletions::Some,
        },
    };
    memory.set_deletions(Some(known));
    Ok(known == Deletions::None)
}

/// What the writer remembers of them no longer holds.
fn changes(tx: &Tx<'_>) {
    if let Some(memory) = tx.memory() {
        memory.set_deletions(None);
    }
}

pub(crate) fn remove(tx: &Tx<'_>, instance: &str) -> Result<()> {
    changes(tx);
    tx.execute("DELETE FROM deletions WHERE instance_id = ?1", [instance])?;
    Ok(())
}
