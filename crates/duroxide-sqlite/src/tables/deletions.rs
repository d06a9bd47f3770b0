//! Instances that were deleted and of which messages, executions or events are not removed yet.

use crate::error::Result;
use crate::tx::{Deletions, Tx};

/// Adds one; `queued_to` is the last of its messages, if any are left.
pub(crate) fn add(tx: &Tx<'_>, instance: &str, queued_to: Option<i64>) -> Result<()> {
    changes(tx);
    tx.execute(
        "INSERT INTO deletions (instance_id, queued_to) VALUES (?1, ?2)
         ON CONFLICT (instance_id) DO UPDATE SET queued_to = COALESCE(excluded.queued_to, queued_to)",
        (instance, queued_to),
    )?;
    Ok(())
}

/// The last message that is to go; those after it are for a new instance of the id.
pub(crate) fn queued_to(tx: &Tx<'_>, instance: &str) -> Result<Option<i64>> {
    let found = tx.first(
        "SELECT queued_to FROM deletions WHERE instance_id = ?1",
        [instance],
        |row| row.get(0),
    )?;
    Ok(found.flatten())
}

/// All its messages are gone.
pub(crate) fn messages_are_gone(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "UPDATE deletions SET queued_to = NULL WHERE instance_id = ?1",
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
