//! Instances that were deleted and whose histories are still to go.

use crate::tx::{Result, Tx};

pub(crate) fn add(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "INSERT INTO deletions (instance_id) VALUES (?1) ON CONFLICT (instance_id) DO NOTHING",
        [instance],
    )?;
    Ok(())
}

pub(crate) fn contains(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM deletions WHERE instance_id = ?1",
        [instance],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Any one of them.
pub(crate) fn next(tx: &Tx<'_>) -> Result<Option<String>> {
    tx.first("SELECT instance_id FROM deletions LIMIT 1", [], |row| {
        row.get(0)
    })
}

pub(crate) fn remove(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute("DELETE FROM deletions WHERE instance_id = ?1", [instance])?;
    Ok(())
}
