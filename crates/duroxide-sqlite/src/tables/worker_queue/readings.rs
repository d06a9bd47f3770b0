//! What operators ask of the queue: how much is ready, since when, and the work of one instance. Changes nothing. What
//! is left of a deleted instance does not count, but in a dump.

use duroxide_core::provider::PendingActivity;

use super::HELD_BACK_UNTIL;
use crate::error::Result;
use crate::tables::deletions;
use crate::tx::{Tx, Unsigned, count, payload_text, shown_ms, unsigned};

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

/// How many free items of this tag, session and name are ready, counted up to `limit`, and since when the first is.
pub(crate) fn ready(
    tx: &Tx<'_>,
    tag: Option<&str>,
    session: Option<&str>,
    name: &str,
    limit: u32,
) -> Result<(u64, Option<i64>)> {
    // The index does not have the instance: it is read only if activities are left of a deleted one.
    let none_go = !deletions::any_with_work(tx)?;
    tx.one(
        "SELECT COUNT(*), MIN(visible_at) FROM
             (SELECT visible_at FROM worker_queue AS w INDEXED BY idx_worker_available
              WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS ?2 AND name IS ?3 AND visible_at <= ?4
                AND (?6 OR NOT EXISTS (SELECT 1 FROM deletions AS d
                                       WHERE d.instance_id = w.instance_id AND d.work_to >= w.id))
              LIMIT ?5)",
        (tag, session, name, tx.now, limit, none_go),
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

/// How many items are not leased.
pub(crate) fn depth(tx: &Tx<'_>) -> Result<usize> {
    let none_go = !deletions::any_with_work(tx)?;
    tx.one(
        "SELECT COUNT(*) FROM worker_queue AS w
         WHERE (locked_until IS NULL OR locked_until <= ?1 OR locked_until = ?2)
           AND (?3 OR NOT EXISTS (SELECT 1 FROM deletions AS d
                                  WHERE d.instance_id = w.instance_id AND d.work_to >= w.id))",
        (tx.now, HELD_BACK_UNTIL, none_go),
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
         WHERE instance_id = ?1 AND id > COALESCE((SELECT work_to FROM deletions WHERE instance_id = ?1), -1)
         ORDER BY id LIMIT ?2",
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

/// Whose activity an item is, and which one, from the index alone: the row cannot be read.
pub(crate) fn call_of(tx: &Tx<'_>, id: i64) -> Result<Option<(String, u64)>> {
    tx.first(
        "SELECT instance_id, activity_id FROM worker_queue INDEXED BY idx_worker_activity WHERE id = ?1",
        [id],
        |row| Ok((row.get(0)?, unsigned(row, 1)?)),
    )
}

/// Reads all of an item, to find out whether that can be done.
pub(crate) fn read_through(tx: &Tx<'_>, id: i64) -> Result<()> {
    let read = tx.first(
        "SELECT work_item, created_at, incarnation, name FROM worker_queue WHERE id = ?1",
        [id],
        |_| Ok(()),
    );
    read.map(drop)
}
