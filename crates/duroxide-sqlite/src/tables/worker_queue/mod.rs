//! Activities to run. In: items, claims, the ends of claims. Out: rows, the oldest free one first. An item is free
//! while `locked_until` is NULL, and `idx_worker_available` leads from there over tag, session and name to the oldest
//! one, so that items which no caller here may take are never read.

mod bound;
mod deleting;
mod free;
mod leases;
mod paused;
mod readings;

pub(crate) use bound::*;
pub(crate) use deleting::*;
pub(crate) use free::*;
pub(crate) use leases::*;
pub(crate) use paused::*;
pub(crate) use readings::*;

use duroxide_core::provider::Incarnation;

use crate::error::Result;
use crate::tx::{Tx, Unsigned};

/// An activity ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewWork {
    pub(crate) instance: String,
    pub(crate) execution_id: u64,
    pub(crate) activity_id: u64,
    pub(crate) name: String,
    pub(crate) session: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) json: String,
}

/// `life` is that of the instance that scheduled it.
pub(crate) fn push(
    tx: &mut Tx<'_>,
    work: &NewWork,
    incarnation: Option<Incarnation>,
) -> Result<()> {
    tx.execute(
        "INSERT INTO worker_queue
             (instance_id, execution_id, activity_id, work_item, session_id, tag, visible_at, created_at,
              incarnation, name)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?9, ?8)",
        (
            &work.instance,
            Unsigned(work.execution_id),
            Unsigned(work.activity_id),
            &work.json,
            &work.session,
            &work.tag,
            tx.now,
            &work.name,
            incarnation.map(Incarnation::to_stored),
        ),
    )?;
    tx.effects.work_claimable_at(tx.now);
    Ok(())
}

/// Items whose lease ran out, the first ones first: at most `max`, without those that are passed over. The rows
/// themselves are not read.
pub(crate) fn ids_of_expired(
    tx: &Tx<'_>,
    max: usize,
    is_passed_over: impl Fn(i64) -> bool,
) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    tx.walk(
        "SELECT id FROM worker_queue INDEXED BY idx_worker_available WHERE locked_until <= ?1 ORDER BY locked_until",
        [tx.now],
        |row| {
            let id = row.get(0)?;
            if !is_passed_over(id) {
                found.push(id);
            }
            Ok(found.len() < max)
        },
    )?;
    Ok(found)
}

/// Frees an item whose lease ran out. The token stays: its holder may still hand the item back.
pub(crate) fn free_expired(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.execute(
        "UPDATE worker_queue SET locked_until = NULL WHERE id = ?1",
        [id],
    )?;
    Ok(())
}

/// Deletes an activity, claimed or not; its worker learns it from the next renewal.
pub(crate) fn cancel(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    activity_id: u64,
) -> Result<()> {
    tx.execute(
        "DELETE FROM worker_queue WHERE instance_id = ?1 AND execution_id = ?2 AND activity_id = ?3",
        (instance, Unsigned(execution_id), Unsigned(activity_id)),
    )?;
    Ok(())
}

/// When a delayed item becomes visible or a lease runs out, whichever is first.
pub(crate) fn next_due(tx: &Tx<'_>) -> Result<Option<i64>> {
    // Not `visible_at > ?1`: SQLite would compare the bound value with the condition of the partial index, and
    // prepare the statement again whenever the value changes.
    let delayed: Option<i64> = tx.one(
        "SELECT MIN(visible_at) FROM worker_queue WHERE visible_at > created_at AND visible_at >= ?1",
        [tx.now.saturating_add(1)],
        |row| row.get(0),
    )?;
    let expiring: Option<i64> = tx.one(
        "SELECT MIN(locked_until) FROM worker_queue WHERE locked_until > ?1 AND locked_until < ?2",
        (tx.now, HELD_BACK_UNTIL),
        |row| row.get(0),
    )?;
    Ok(delayed.into_iter().chain(expiring).min())
}
