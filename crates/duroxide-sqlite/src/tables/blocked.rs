//! What nodes noted of instances that they cannot go on with. Written under the lease of a turn; nothing has to be
//! written when an instance goes on, because a note names the last event that the instance had.

use duroxide_core::provider::{BlockNote, BlockedInstance};

use rusqlite::Row;

use crate::error::{Result, SqliteError};
use crate::tx::{Tx, Unsigned, shown_ms, unsigned};

/// Keeps a note in place of the one before. The columns that are selected: instance, incarnation, execution, last
/// event, and what is bound as name, report, attempts, node, time.
macro_rules! keep {
    ($select:literal) => {
        concat!(
            "INSERT INTO blocked
                 (instance_id, incarnation, execution_id, last_event_id, name, report, attempts, node, noted_at)
             ",
            $select,
            " ON CONFLICT (instance_id) DO UPDATE SET incarnation = excluded.incarnation,
                 execution_id = excluded.execution_id, last_event_id = excluded.last_event_id, name = excluded.name,
                 report = excluded.report, attempts = excluded.attempts, node = excluded.node,
                 noted_at = excluded.noted_at"
        )
    };
}

/// Keeps a note in place of the one before; `false` if there is no such instance, or it has no events.
pub(crate) fn note(
    tx: &Tx<'_>,
    instance: &str,
    blocked: &BlockedInstance,
    node: &str,
) -> Result<bool> {
    let written = tx.execute(
        keep!("SELECT i.instance_id, i.incarnation, i.current_execution_id, h.event_id, ?2, ?3, ?4, ?5, ?6
         FROM instances AS i JOIN history AS h
             ON h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1 ORDER BY h.event_id DESC LIMIT 1"),
        (
            instance,
            &blocked.orchestration_name,
            &blocked.report,
            blocked.attempts,
            node,
            tx.now,
        ),
    )?;
    Ok(written == 1)
}

/// In place of the last event, of an instance whose history cannot be read: the note holds until the instance is
/// updated.
const NO_LAST_EVENT: i64 = -1;

/// The same without a look at the history, which cannot be read.
pub(crate) fn note_without_history(
    tx: &Tx<'_>,
    blocked: &BlockedInstance,
    node: &str,
) -> Result<bool> {
    let written = tx.execute(
        keep!(
            "SELECT i.instance_id, i.incarnation, i.current_execution_id, ?7, ?2, ?3, ?4, ?5, ?6
         FROM instances AS i WHERE i.instance_id = ?1"
        ),
        (
            &blocked.instance_id,
            &blocked.orchestration_name,
            &blocked.report,
            blocked.attempts,
            node,
            tx.now,
            NO_LAST_EVENT,
        ),
    )?;
    Ok(written == 1)
}

/// The same of an instance whose row cannot be read either: whether there is one says the index.
pub(crate) fn note_by_id(tx: &Tx<'_>, blocked: &BlockedInstance, node: &str) -> Result<bool> {
    let written = tx.execute(
        keep!(
            "SELECT i.instance_id, NULL, ?8, ?7, ?2, ?3, ?4, ?5, ?6
         FROM instances AS i INDEXED BY sqlite_autoindex_instances_1 WHERE i.instance_id = ?1"
        ),
        (
            &blocked.instance_id,
            &blocked.orchestration_name,
            &blocked.report,
            blocked.attempts,
            node,
            tx.now,
            NO_LAST_EVENT,
            Unsigned(blocked.execution_id),
        ),
    )?;
    Ok(written == 1)
}

/// The note of an instance, if it holds; `instance_pages` says the same for many. Of an instance that cannot be read
/// the note that is kept.
pub(crate) fn of(tx: &Tx<'_>, instance: &str) -> Result<Option<BlockNote>> {
    match of_readable(tx, instance) {
        Err(error @ SqliteError::Damaged { .. }) => match kept(tx, instance)? {
            None => Err(error),
            note => Ok(note),
        },
        note => note,
    }
}

fn of_readable(tx: &Tx<'_>, instance: &str) -> Result<Option<BlockNote>> {
    tx.first(
        "SELECT k.execution_id, k.name, k.report, k.attempts, k.node, k.noted_at FROM blocked AS k
         JOIN instances AS i ON i.instance_id = k.instance_id AND i.incarnation IS k.incarnation
             AND i.current_execution_id = k.execution_id
         JOIN executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
             AND e.status NOT IN ('Completed', 'Failed')
         WHERE k.instance_id = ?1 AND CASE WHEN k.last_event_id < 0 THEN i.updated_at <= k.noted_at
             ELSE k.last_event_id = (SELECT MAX(h.event_id) FROM history AS h
                 WHERE h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id) END",
        [instance],
        |row| note_in(row, instance),
    )
}

/// The note of an instance, whether it holds or not.
pub(crate) fn kept(tx: &Tx<'_>, instance: &str) -> Result<Option<BlockNote>> {
    tx.first(
        "SELECT execution_id, name, report, attempts, node, noted_at FROM blocked WHERE instance_id = ?1",
        [instance],
        |row| note_in(row, instance),
    )
}

fn note_in(row: &Row<'_>, instance: &str) -> rusqlite::Result<BlockNote> {
    let blocked = BlockedInstance {
        instance_id: instance.to_owned(),
        execution_id: unsigned(row, 0)?,
        orchestration_name: row.get(1)?,
        report: row.get(2)?,
        attempts: row.get(3)?,
    };
    let node: String = row.get(4)?;
    Ok(BlockNote::new(blocked, node, shown_ms(row.get(5)?)))
}
