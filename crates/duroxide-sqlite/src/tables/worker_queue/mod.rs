//! Activities to run. An item is free while `locked_until` is NULL, and `idx_worker_available` leads from there over
//! tag, session and name to the oldest one, so that items which no caller here may take are never read.

mod bound;
mod paused;

pub(crate) use bound::*;
pub(crate) use paused::*;

use duroxide_core::provider::{Incarnation, PendingActivity};
use rusqlite::Row;

use crate::error::Result;
use crate::tables::instances::life;
use crate::tx::{Tx, Unsigned, count, payload, payload_text, shown_ms, unsigned};

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

/// An activity that can be claimed.
#[derive(Debug)]
pub(crate) struct Free {
    pub(crate) id: i64,
    pub(crate) session: Option<String>,
    pub(crate) json: Vec<u8>,
    /// This claim included.
    pub(crate) attempts: u32,
    pub(crate) incarnation: Option<Incarnation>,
}

impl Free {
    /// An item that is bound to a session, as the index tells it; [`read_free`] reads the rest.
    pub(crate) fn bound(id: i64, session: &str) -> Self {
        Self {
            id,
            session: Some(session.to_owned()),
            json: Vec::new(),
            attempts: 0,
            incarnation: None,
        }
    }
}

/// `life` is that of the instance that scheduled it.
pub(crate) fn push(tx: &mut Tx<'_>, work: &NewWork, life: Option<Incarnation>) -> Result<()> {
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
            life.map(Incarnation::to_stored),
        ),
    )?;
    tx.effects.work_claimable_at(tx.now);
    Ok(())
}

/// Frees items whose lease ran out. The token stays: its holder may still hand the item back.
pub(crate) fn free_expired(tx: &Tx<'_>) -> Result<()> {
    // Asked first, because it is nearly always in vain: the update would set up a temporary table each time.
    let expired = tx.first(
        "SELECT 1 FROM worker_queue WHERE locked_until <= ?1 LIMIT 1",
        [tx.now],
        |_| Ok(()),
    )?;
    if expired.is_some() {
        tx.execute(
            "UPDATE worker_queue SET locked_until = NULL WHERE locked_until <= ?1",
            [tx.now],
        )?;
    }
    Ok(())
}

/// Tags that free items have, other than none.
pub(crate) fn free_tags(tx: &Tx<'_>) -> Result<Vec<String>> {
    distinct(
        |after| {
            tx.one(
                "SELECT MIN(tag) FROM worker_queue WHERE locked_until IS NULL AND tag > ?1",
                [after],
                |row| row.get(0),
            )
        },
        || {
            tx.one(
                "SELECT MIN(tag) FROM worker_queue WHERE locked_until IS NULL AND tag IS NOT NULL",
                [],
                |row| row.get(0),
            )
        },
    )
}

/// Sessions that free items with this tag are bound to.
pub(crate) fn free_sessions(tx: &Tx<'_>, tag: Option<&str>) -> Result<Vec<String>> {
    distinct(
        |after| {
            tx.one(
                "SELECT MIN(session_id) FROM worker_queue
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id > ?2",
                (tag, after),
                |row| row.get(0),
            )
        },
        || {
            tx.one(
                "SELECT MIN(session_id) FROM worker_queue
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NOT NULL",
                [tag],
                |row| row.get(0),
            )
        },
    )
}

/// Names of the activities among free items with this tag and session; those that cannot be read have none.
pub(crate) fn free_names(
    tx: &Tx<'_>,
    tag: Option<&str>,
    session: Option<&str>,
) -> Result<Vec<String>> {
    distinct(
        |after| {
            tx.one(
                "SELECT MIN(name) FROM worker_queue INDEXED BY idx_worker_available
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS ?2 AND name > ?3",
                (tag, session, after),
                |row| row.get(0),
            )
        },
        || {
            tx.one(
                "SELECT MIN(name) FROM worker_queue INDEXED BY idx_worker_available
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS ?2 AND name IS NOT NULL",
                (tag, session),
                |row| row.get(0),
            )
        },
    )
}

/// Walks from value to value by index seeks: the cost follows the number of different values, not of rows.
fn distinct(
    next: impl Fn(&str) -> Result<Option<String>>,
    first: impl Fn() -> Result<Option<String>>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut value = first()?;
    while let Some(current) = value {
        value = next(&current)?;
        found.push(current);
    }
    Ok(found)
}

/// What is read of free items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// All that a claim needs.
    Whole,
    /// What stands in the index; [`read_free`] reads the rest of one item.
    IndexOnly,
}

/// Free and visible items with exactly this tag and no session: of each name that fits the oldest, at most `limit`, and
/// those that have no name because they cannot be read. One statement goes on from name to name, and another one begins
/// only where something is to be passed over.
pub(crate) fn free(
    tx: &Tx<'_>,
    columns: Columns,
    tag: Option<&str>,
    limit: usize,
    has_code: impl Fn(&str) -> bool,
    is_damaged: impl Fn(i64) -> bool,
) -> Result<Vec<Free>> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut passed_over = None;
        let mut current: Option<String> = None;
        let mut count = 0_usize;
        let visit = |row: &Row<'_>| {
            let name = row
                .get_ref(4)?
                .as_str_or_null()
                .map_err(rusqlite::Error::from)?;
            if current.as_deref() != name {
                current = name.map(str::to_owned);
                count = 0;
            }
            let is_wanted = count < limit && name.is_none_or(&has_code);
            if is_wanted {
                if row.get::<_, i64>(5)? <= tx.now && !is_damaged(row.get(0)?) {
                    count += 1;
                    found.push(free_item(row, None)?);
                }
                return Ok(true);
            }
            passed_over = Some(name.unwrap_or_default().to_owned());
            Ok(false)
        };
        match columns {
            Columns::Whole => walk_free(tx, tag, after.as_deref(), visit)?,
            Columns::IndexOnly => walk_index(tx, tag, after.as_deref(), visit)?,
        }
        if passed_over.is_none() {
            return Ok(found);
        }
        after = passed_over;
    }
}

/// Free items by name and age, those without a name first; or those of later names. What is not visible yet is not
/// read.
fn walk_free(
    tx: &Tx<'_>,
    tag: Option<&str>,
    after: Option<&str>,
    visit: impl FnMut(&Row<'_>) -> Result<bool>,
) -> Result<()> {
    match after {
        None => tx.walk(
            "SELECT id, CASE WHEN visible_at <= ?2 THEN work_item END, attempt_count + 1, incarnation, name, visible_at
             FROM worker_queue INDEXED BY idx_worker_available
             WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NULL
             ORDER BY name, id",
            (tag, tx.now),
            visit,
        ),
        Some(after) => tx.walk(
            "SELECT id, CASE WHEN visible_at <= ?2 THEN work_item END, attempt_count + 1, incarnation, name, visible_at
             FROM worker_queue INDEXED BY idx_worker_available
             WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NULL AND name > ?3
             ORDER BY name, id",
            (tag, tx.now, after),
            visit,
        ),
    }
}

/// As [`walk_free`], without touching the table.
fn walk_index(
    tx: &Tx<'_>,
    tag: Option<&str>,
    after: Option<&str>,
    visit: impl FnMut(&Row<'_>) -> Result<bool>,
) -> Result<()> {
    tx.walk(
        "SELECT id, '', 0, NULL, name, visible_at FROM worker_queue INDEXED BY idx_worker_available
         WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NULL AND (name > ?2 OR ?2 IS NULL)
         ORDER BY name, id",
        (tag, after),
        visit,
    )
}

/// Reads what the index does not hold of a free item.
pub(crate) fn read_free(tx: &Tx<'_>, item: &mut Free) -> Result<()> {
    let session = item.session.take();
    *item = tx.one(
        "SELECT id, work_item, attempt_count + 1, incarnation FROM worker_queue WHERE id = ?1",
        [item.id],
        |row| free_item(row, session.as_deref()),
    )?;
    Ok(())
}

fn free_item(row: &Row<'_>, session: Option<&str>) -> rusqlite::Result<Free> {
    Ok(Free {
        id: row.get(0)?,
        session: session.map(str::to_owned),
        json: payload(row, 1)?,
        attempts: row.get::<_, i64>(2)?.try_into().unwrap_or(u32::MAX),
        incarnation: life(row, 3)?,
    })
}

/// Leases one item and counts the attempt.
pub(crate) fn claim(tx: &Tx<'_>, id: i64, token: &str, until: i64) -> Result<()> {
    tx.execute(
        "UPDATE worker_queue SET lock_token = ?2, locked_until = ?3, attempt_count = attempt_count + 1 WHERE id = ?1",
        (id, token, until),
    )?;
    Ok(())
}

/// Deletes an item under its valid lease; `false` if the token does not hold one.
pub(crate) fn delete_held(tx: &Tx<'_>, id: i64, token: &str) -> Result<bool> {
    let deleted = tx.execute(
        "DELETE FROM worker_queue WHERE id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (id, token, tx.now),
    )?;
    Ok(deleted == 1)
}

/// Extends a valid lease; `false` if the token does not hold one.
pub(crate) fn renew(tx: &Tx<'_>, id: i64, token: &str, until: i64) -> Result<bool> {
    let renewed = tx.execute(
        "UPDATE worker_queue SET locked_until = ?4 WHERE id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (id, token, tx.now, until),
    )?;
    Ok(renewed == 1)
}

/// The session an item is bound to.
pub(crate) fn session_of(tx: &Tx<'_>, id: i64) -> Result<Option<String>> {
    let found = tx.first(
        "SELECT session_id FROM worker_queue WHERE id = ?1",
        [id],
        |row| row.get(0),
    )?;
    Ok(found.flatten())
}

/// Whether the lease is valid.
pub(crate) fn is_held(tx: &Tx<'_>, id: i64, token: &str) -> Result<bool> {
    let held = tx.first(
        "SELECT 1 FROM worker_queue WHERE id = ?1 AND lock_token = ?2 AND locked_until > ?3",
        (id, token, tx.now),
        |_| Ok(()),
    )?;
    Ok(held.is_some())
}

/// Whether the token is the last one granted for the item, valid or not.
pub(crate) fn is_known(tx: &Tx<'_>, id: i64, token: &str) -> Result<bool> {
    let known = tx.first(
        "SELECT 1 FROM worker_queue WHERE id = ?1 AND lock_token = ?2",
        (id, token),
        |_| Ok(()),
    )?;
    Ok(known.is_some())
}

/// Gives an item back.
pub(crate) fn release(
    tx: &Tx<'_>,
    id: i64,
    token: &str,
    visible_at: Option<i64>,
    ignore_attempt: bool,
) -> Result<bool> {
    let released = tx.execute(
        "UPDATE worker_queue
         SET lock_token = NULL, locked_until = NULL, visible_at = COALESCE(?3, visible_at), attempt_count = MAX(0, attempt_count - ?4)
         WHERE id = ?1 AND lock_token = ?2",
        (id, token, visible_at, i64::from(ignore_attempt)),
    )?;
    Ok(released == 1)
}

/// An item that was removed.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) instance: String,
    pub(crate) execution_id: u64,
    pub(crate) activity_id: u64,
    /// What it said.
    pub(crate) payload: String,
}

/// Removes an item under its token.
pub(crate) fn take(tx: &Tx<'_>, id: i64, token: &str) -> Result<Option<Taken>> {
    tx.first(
        "DELETE FROM worker_queue WHERE id = ?1 AND lock_token = ?2
         RETURNING instance_id, execution_id, activity_id, work_item",
        (id, token),
        |row| {
            Ok(Taken {
                instance: row.get(0)?,
                execution_id: unsigned(row, 1)?,
                activity_id: unsigned(row, 2)?,
                payload: payload_text(row, 3)?,
            })
        },
    )
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

/// How often an activity was claimed; `None` once it is no longer queued.
pub(crate) fn attempts(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    activity_id: u64,
) -> Result<Option<i64>> {
    tx.first(
        "SELECT attempt_count FROM worker_queue WHERE instance_id = ?1 AND execution_id = ?2 AND activity_id = ?3",
        (instance, Unsigned(execution_id), Unsigned(activity_id)),
        |row| row.get(0),
    )
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

/// How many free items of this tag, session and name are ready, counted up to `limit`, and since when the first is.
pub(crate) fn ready(
    tx: &Tx<'_>,
    tag: Option<&str>,
    session: Option<&str>,
    name: &str,
    limit: u32,
) -> Result<(u64, Option<i64>)> {
    tx.one(
        "SELECT COUNT(*), MIN(visible_at) FROM
             (SELECT visible_at FROM worker_queue INDEXED BY idx_worker_available
              WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS ?2 AND name IS ?3 AND visible_at <= ?4
              LIMIT ?5)",
        (tag, session, name, tx.now, limit),
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?)),
    )
}

/// Items whose lease ran out, by name, counted up to `limit` altogether, and since when the first is free again.
pub(crate) fn expired(tx: &Tx<'_>, limit: u32) -> Result<Vec<(String, u64, i64)>> {
    tx.all(
        "SELECT name, COUNT(*), MIN(locked_until) FROM
             (SELECT name, locked_until FROM worker_queue
              WHERE locked_until <= ?1 AND name IS NOT NULL LIMIT ?2) GROUP BY name",
        (tx.now, limit),
        |row| {
            Ok((
                row.get(0)?,
                row.get::<_, i64>(1)?.unsigned_abs(),
                row.get(2)?,
            ))
        },
    )
}

/// Deletes all activities of an instance; returns how many.
pub(crate) fn delete_instance(tx: &Tx<'_>, instance: &str) -> Result<usize> {
    tx.execute(
        "DELETE FROM worker_queue WHERE instance_id = ?1",
        [instance],
    )
}

/// How many items are not leased.
pub(crate) fn depth(tx: &Tx<'_>) -> Result<usize> {
    tx.one(
        "SELECT COUNT(*) FROM worker_queue WHERE locked_until IS NULL OR locked_until <= ?1 OR locked_until = ?2",
        (tx.now, HELD_BACK_UNTIL),
        |row| count(row, 0),
    )
}

/// The first rows as text, for a person.
pub(crate) fn dump(tx: &Tx<'_>) -> Result<(i64, Vec<String>)> {
    let count = tx.one("SELECT COUNT(*) FROM worker_queue", [], |row| row.get(0))?;
    let rows = tx.all(
        "SELECT id, instance_id, visible_at, lock_token, attempt_count, work_item
         FROM worker_queue ORDER BY id LIMIT 10",
        [],
        |row| {
            Ok(format!(
                "#{} {} visible_at={} lock={:?} attempts={} {}",
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, Option<String>>(3)?,
                row.get::<_, i64>(4)?,
                payload_text(row, 5)?,
            ))
        },
    )?;
    Ok((count, rows))
}

/// The activities of an instance that have not been acknowledged, in the order of the queue.
pub(crate) fn pending(tx: &Tx<'_>, instance: &str, limit: u32) -> Result<Vec<PendingActivity>> {
    tx.all(
        "SELECT execution_id, activity_id, visible_at, locked_until, attempt_count FROM worker_queue
         WHERE instance_id = ?1 ORDER BY id LIMIT ?2",
        (instance, limit),
        |row| {
            let held: Option<i64> = row.get(3)?;
            Ok(PendingActivity {
                execution_id: unsigned(row, 0)?,
                activity_id: unsigned(row, 1)?,
                visible_at_ms: shown_ms(row.get(2)?),
                leased_until_ms: held
                    .filter(|until| *until > tx.now && *until < HELD_BACK_UNTIL)
                    .map(shown_ms),
                attempts: row.get(4)?,
            })
        },
    )
}
