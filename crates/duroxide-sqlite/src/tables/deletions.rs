//! Ids whose rows are still being removed. Two kinds share the table: deleted instances, with what is [`Left`] of them,
//! and unfinished restores, for which `queued_to` is negative and is the token of the restore. A restore has no
//! messages, activities or starts of children to remove, and the first sweep takes the token away.

use duroxide_core::provider::Incarnation;
use uuid::Uuid;

use crate::error::Result;
use crate::tables::instances::incarnation_in;
use crate::tx::{Deletions, Tx};

/// What may be left of a deleted instance. Executions, events and key-values may be left in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// The last message that is to go; those after it are for a new instance of the id.
    pub(crate) queued_to: Option<i64>,
    /// No activity of it has a higher number. The number may be given again once its row is gone: an activity that is
    /// put on the queue by hand before the deletion is through may go with it.
    pub(crate) work_to: Option<i64>,
    /// The life that was deleted, if starts of children may be left that it sent.
    pub(crate) life: Option<Incarnation>,
}

impl Left {
    /// Whether a restore brings the instance.
    pub(crate) fn is_restore(self) -> bool {
        self.queued_to.is_some_and(|token| token < 0)
    }
}

/// Tells a restore in steps from any other one. Below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestoreToken(i64);

impl RestoreToken {
    pub(crate) fn new() -> Self {
        let (bits, _) = Uuid::new_v4().as_u64_pair();
        Self(-1 - (bits >> 1).cast_signed())
    }
}

/// Adds one. If the id was deleted before and is not gone yet, both are left.
pub(crate) fn add(tx: &Tx<'_>, instance: &str, left: Left) -> Result<()> {
    changes(tx);
    tx.execute(
        "INSERT INTO deletions (instance_id, queued_to, work_to, life) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (instance_id) DO UPDATE SET queued_to = COALESCE(excluded.queued_to, queued_to),
             work_to = COALESCE(excluded.work_to, work_to), life = COALESCE(excluded.life, life)",
        (
            instance,
            left.queued_to,
            left.work_to,
            left.life.map(Incarnation::to_stored),
        ),
    )?;
    Ok(())
}

/// Less is left than before.
pub(crate) fn set(tx: &Tx<'_>, instance: &str, left: Left) -> Result<()> {
    tx.execute(
        "UPDATE deletions SET queued_to = ?2, work_to = ?3, life = ?4 WHERE instance_id = ?1",
        (
            instance,
            left.queued_to,
            left.work_to,
            left.life.map(Incarnation::to_stored),
        ),
    )?;
    Ok(())
}

/// What is left of an instance; `None` if nothing is, and no restore brings it.
pub(crate) fn of(tx: &Tx<'_>, instance: &str) -> Result<Option<Left>> {
    if is_empty(tx)? {
        return Ok(None);
    }
    tx.first(
        "SELECT queued_to, work_to, life FROM deletions WHERE instance_id = ?1",
        [instance],
        |row| {
            Ok(Left {
                queued_to: row.get(0)?,
                work_to: row.get(1)?,
                life: incarnation_in(row, 2)?,
            })
        },
    )
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

/// Whether an activity is one of those that are still to go.
pub(crate) fn include_work(tx: &Tx<'_>, instance: &str, work: i64) -> Result<bool> {
    let left = of(tx, instance)?;
    Ok(left.is_some_and(|left| left.work_to.is_some_and(|last| work <= last)))
}

/// Whether activities may be left of any of them.
pub(crate) fn any_with_work(tx: &Tx<'_>) -> Result<bool> {
    tx.one(
        "SELECT EXISTS (SELECT 1 FROM deletions WHERE work_to IS NOT NULL)",
        [],
        |row| row.get(0),
    )
}

/// The deleted instance that sent a start of this one; the start is still to go.
pub(crate) fn parent_of(tx: &Tx<'_>, child: &str) -> Result<Option<String>> {
    if is_empty(tx)? {
        return Ok(None);
    }
    tx.first(
        "SELECT d.instance_id FROM orchestrator_queue AS q INDEXED BY idx_orch_begin
             CROSS JOIN deletions AS d INDEXED BY idx_deletions_life ON d.life = q.sender_incarnation
         WHERE q.instance_id = ?1 AND q.kind IN ('StartOrchestration', 'ContinueAsNew') LIMIT 1",
        [child],
        |row| row.get(0),
    )
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

/// Whether the writer remembers that there are none; every new instance and every claimed activity asks.
pub(crate) fn is_empty(tx: &Tx<'_>) -> Result<bool> {
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
