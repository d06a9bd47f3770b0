//! Ids whose rows are still being removed. Two kinds share the table: deleted instances, for which `queued_to` is the
//! last message to remove, and unfinished restores, for which `queued_to` is negative and is the token of the restore.
//! A restore has no messages to remove, and the first sweep takes the token away.

use uuid::Uuid;

use crate::error::Result;
use crate::tx::{Deletions, Tx};

/// Tells a restore in steps from any other one. Below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestoreToken(i64);

impl RestoreToken {
    pub(crate) fn new() -> Self {
        let (bits, _) = Uuid::new_v4().as_u64_pair();
        Self(-1 - (bits >> 1).cast_signed())
    }
}

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

/// A restore begins: what comes of the instance is to go, unless the restore ends.
pub(crate) fn note_restore(tx: &Tx<'_>, instance: &str, token: RestoreToken) -> Result<()> {
    changes(tx);
    tx.execute(
        "INSERT INTO deletions (instance_id, queued_to) VALUES (?1, ?2)",
        (instance, token.0),
    )?;
    Ok(())
}

/// Whether no sweep has removed what this restore brought.
pub(crate) fn is_restored_by(tx: &Tx<'_>, instance: &str, token: RestoreToken) -> Result<bool> {
    Ok(queued_to(tx, instance)? == Some(token.0))
}

/// A restore that is under way has lost what it brought, because the id is deleted: it begins anew.
pub(crate) fn end_restore(tx: &Tx<'_>, instance: &str) -> Result<()> {
    if contains(tx, instance)? {
        tx.execute(
            "UPDATE deletions SET queued_to = NULL WHERE instance_id = ?1 AND queued_to < 0",
            [instance],
        )?;
    }
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

/// The first of them after a given one, those left out that a restore is bringing.
pub(crate) fn next_deleted(tx: &Tx<'_>, after: Option<&str>) -> Result<Option<String>> {
    tx.first(
        "SELECT instance_id FROM deletions WHERE (instance_id > ?1 OR ?1 IS NULL) AND COALESCE(queued_to, 0) >= 0
         ORDER BY instance_id LIMIT 1",
        [after],
        |row| row.get(0),
    )
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
