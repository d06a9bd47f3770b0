//! Instances: handler, current execution, parent, custom status. A row appears with the first commit that names the
//! handler and its version, never earlier.

use duroxide_core::provider::rules::lane;
use duroxide_core::provider::{ExecutionStatus, Incarnation, InstanceInfo, SystemMetrics};
use rusqlite::Row;
use semver::Version;

use crate::error::Result;
use crate::tables::labels::{self, NewLabels};
use crate::tables::{executions, readable};
use crate::tx::{Tx, Unsigned, shown_ms, unsigned};

/// What a claim needs to know about an instance.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) execution_id: u64,
    pub(crate) pinned: Option<Version>,
    pub(crate) incarnation: Option<Incarnation>,
    /// The code it needs next.
    pub(crate) lane: String,
}

/// What a waiting client needs to know.
#[derive(Debug)]
pub(crate) struct InstanceStanding {
    pub(crate) execution_id: u64,
    pub(crate) status: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) custom_status: Option<String>,
    pub(crate) custom_status_version: u64,
}

/// Handler and parent, as a commit names them.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) parent: Option<String>,
    /// That of the start, if it begins the instance.
    pub(crate) memo: Option<String>,
}

/// What an instance gets when it is created, and keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) incarnation: Incarnation,
    /// The life of the parent that started it, if that is known.
    pub(crate) parent_incarnation: Option<Incarnation>,
}

/// Creates the instance or overwrites its handler; parent, incarnations, memo and labels are stored at creation only.
pub(crate) fn name(
    tx: &Tx<'_>,
    instance: &str,
    named: &Named,
    (execution_id, lane): (u64, &str),
    birth: Birth,
    labels: &NewLabels,
) -> Result<()> {
    tx.execute(
        "INSERT INTO instances (instance_id, orchestration_name, orchestration_version, current_execution_id,
             parent_instance_id, created_at, updated_at, incarnation, parent_incarnation, lane, memo, labels)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (instance_id) DO UPDATE SET orchestration_name = excluded.orchestration_name,
             orchestration_version = excluded.orchestration_version,
             current_execution_id = MAX(current_execution_id, excluded.current_execution_id),
             updated_at = excluded.updated_at, lane = excluded.lane",
        (
            instance,
            &named.name,
            &named.version,
            Unsigned(execution_id),
            &named.parent,
            tx.now,
            birth.incarnation.to_stored(),
            birth.parent_incarnation.map(Incarnation::to_stored),
            lane,
            &named.memo,
            &labels.json,
        ),
    )?;
    labels::enter(tx, instance, &labels.all, tx.now)
}

/// Moves the pointer to the current execution, upwards only, and the instance to another lane if it needs other code.
pub(crate) fn advance(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    lane: Option<&str>,
) -> Result<()> {
    tx.execute(
        "UPDATE instances SET current_execution_id = MAX(current_execution_id, ?2), updated_at = ?3,
             lane = COALESCE(?4, lane)
         WHERE instance_id = ?1",
        (instance, Unsigned(execution_id), tx.now, lane),
    )?;
    Ok(())
}

pub(crate) fn set_custom_status(tx: &Tx<'_>, instance: &str, status: Option<&str>) -> Result<()> {
    tx.execute(
        "UPDATE instances SET custom_status = ?2, custom_status_version = custom_status_version + 1
         WHERE instance_id = ?1",
        (instance, status),
    )?;
    Ok(())
}

/// The custom status and its version, if it is newer than what was seen.
pub(crate) fn custom_status(
    tx: &Tx<'_>,
    instance: &str,
    last_seen: Option<u64>,
) -> Result<Option<(Option<String>, u64)>> {
    let last_seen = last_seen.map_or(-1, |seen| i64::try_from(seen).unwrap_or(i64::MAX));
    tx.first(
        "SELECT custom_status, custom_status_version FROM instances
         WHERE instance_id = ?1 AND custom_status_version > ?2",
        (instance, last_seen),
        |row| Ok((row.get(0)?, unsigned(row, 1)?)),
    )
}

pub(crate) fn handler(tx: &Tx<'_>, instance: &str) -> Result<Option<Handler>> {
    tx.first(
        "SELECT i.orchestration_name, i.orchestration_version, i.current_execution_id,
             e.duroxide_version_major, e.duroxide_version_minor, e.duroxide_version_patch, e.duroxide_version_pre,
             i.incarnation, i.lane, e.status
         FROM instances AS i LEFT JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1",
        [instance],
        |row| {
            let (name, version): (String, Option<String>) = (row.get(0)?, row.get(1)?);
            let pinned = executions::pinned(row, 3)?;
            let stored: Option<String> = row.get(8)?;
            let status: Option<String> = row.get(9)?;
            let lane = stored.unwrap_or_else(|| match status.as_deref().and_then(ExecutionStatus::parse) {
                Some(ExecutionStatus::Completed | ExecutionStatus::Failed) => lane::ANY_NODE.to_owned(),
                Some(ExecutionStatus::ContinuedAsNew) => lane::BETWEEN.to_owned(),
                Some(ExecutionStatus::Running) | None => lane::of(&name, version.as_deref(), pinned.as_ref()),
            });
            Ok(Handler {
                name,
                version,
                execution_id: unsigned(row, 2)?,
                pinned,
                incarnation: incarnation_in(row, 7)?,
                lane,
            })
        },
    )
}

/// An incarnation from its column.
pub(crate) fn incarnation_in(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<Incarnation>> {
    let stored: Option<i64> = row.get(column)?;
    Ok(stored.and_then(Incarnation::from_stored))
}

/// The life of an instance; `None` if there is no such instance.
pub(crate) fn incarnation(tx: &Tx<'_>, instance: &str) -> Result<Option<Incarnation>> {
    let found = tx.first(
        "SELECT incarnation FROM instances WHERE instance_id = ?1",
        [instance],
        |row| incarnation_in(row, 0),
    )?;
    Ok(found.flatten())
}

/// The life of the parent that started this instance, if it was recorded.
pub(crate) fn parent_incarnation(tx: &Tx<'_>, instance: &str) -> Result<Option<Incarnation>> {
    let found = tx.first(
        "SELECT parent_incarnation FROM instances WHERE instance_id = ?1",
        [instance],
        |row| incarnation_in(row, 0),
    )?;
    Ok(found.flatten())
}

pub(crate) fn standing(tx: &Tx<'_>, instance: &str) -> Result<Option<InstanceStanding>> {
    tx.first(
        "SELECT i.current_execution_id, e.status, e.output, i.custom_status, i.custom_status_version
         FROM instances AS i LEFT JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1",
        [instance],
        |row| {
            Ok(InstanceStanding {
                execution_id: unsigned(row, 0)?,
                status: row.get(1)?,
                output: row.get(2)?,
                custom_status: row.get(3)?,
                custom_status_version: unsigned(row, 4)?,
            })
        },
    )
}

pub(crate) fn current_execution(tx: &Tx<'_>, instance: &str) -> Result<Option<u64>> {
    tx.first(
        "SELECT current_execution_id FROM instances WHERE instance_id = ?1",
        [instance],
        |row| unsigned(row, 0),
    )
}

/// All ids, newest first: rows are numbered in the order of their creation.
pub(crate) fn list(tx: &Tx<'_>) -> Result<Vec<String>> {
    let all = tx.all(
        "SELECT instance_id FROM instances ORDER BY rowid DESC",
        [],
        |row| row.get(0),
    );
    readable::or_one_by_one(all, || newest_first(readable::ids(tx)))
}

fn newest_first(oldest_first: Result<Vec<String>>) -> Result<Vec<String>> {
    let mut ids = oldest_first?;
    ids.reverse();
    Ok(ids)
}

/// Ids whose current execution has this status, newest first.
pub(crate) fn list_by_status(tx: &Tx<'_>, status: &str) -> Result<Vec<String>> {
    let all = if status == ExecutionStatus::Completed.as_str() {
        tx.all(
            "SELECT i.instance_id FROM instances AS i JOIN executions AS e
                 ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
             WHERE e.status = ?1 ORDER BY i.rowid DESC",
            [status],
            |row| row.get(0),
        )
    } else {
        // What has not completed is few, and has an index; its condition is written out for SQLite.
        tx.all(
            "SELECT i.instance_id FROM executions AS e INDEXED BY idx_executions_open CROSS JOIN instances AS i
                 ON i.instance_id = e.instance_id AND i.current_execution_id = e.execution_id
             WHERE e.status <> 'Completed' AND e.status = ?1 ORDER BY i.rowid DESC",
            [status],
            |row| row.get(0),
        )
    };
    readable::or_one_by_one(all, || {
        newest_first(readable::those(tx, usize::MAX, |id| {
            Ok(self::status(tx, id)?.as_deref() == Some(status))
        }))
    })
}

/// Status of the current execution; `None` if there is no such instance or execution.
pub(crate) fn status(tx: &Tx<'_>, instance: &str) -> Result<Option<String>> {
    tx.first(
        "SELECT e.status FROM instances AS i JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1",
        [instance],
        |row| row.get(0),
    )
}

pub(crate) fn info(tx: &Tx<'_>, instance: &str) -> Result<Option<InstanceInfo>> {
    tx.first(
        "SELECT i.instance_id, i.orchestration_name, i.orchestration_version, i.current_execution_id,
             e.status, e.output, i.created_at, i.updated_at, i.parent_instance_id
         FROM instances AS i LEFT JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1",
        [instance],
        |row| {
            Ok(InstanceInfo {
                instance_id: row.get(0)?,
                orchestration_name: row.get(1)?,
                orchestration_version: or_unknown(row.get(2)?, "unknown"),
                current_execution_id: unsigned(row, 3)?,
                status: or_unknown(row.get(4)?, "Unknown"),
                output: row.get(5)?,
                created_at: shown_ms(row.get(6)?),
                updated_at: shown_ms(row.get(7)?),
                parent_instance_id: row.get(8)?,
            })
        },
    )
}

fn or_unknown(value: Option<String>, unknown: &str) -> String {
    value.unwrap_or_else(|| unknown.to_owned())
}

/// The parent, if the instance exists. One whose parent was deleted has none.
pub(crate) fn parent(tx: &Tx<'_>, instance: &str) -> Result<Option<Option<String>>> {
    tx.first(
        "SELECT p.instance_id FROM instances AS i LEFT JOIN instances AS p ON p.instance_id = i.parent_instance_id
             AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)
         WHERE i.instance_id = ?1",
        [instance],
        |row| row.get(0),
    )
}

/// Direct children, oldest first; not those of an earlier life.
pub(crate) fn children(tx: &Tx<'_>, instance: &str) -> Result<Vec<String>> {
    tx.all(
        "SELECT c.instance_id FROM instances AS c LEFT JOIN instances AS p ON p.instance_id = c.parent_instance_id
         WHERE c.parent_instance_id = ?1
           AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation)
         ORDER BY c.rowid",
        [instance],
        |row| row.get(0),
    )
}

/// Whether the current execution has not ended for good: it runs, or its successor is still to come.
pub(crate) fn is_live(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let live = tx.first(
        "SELECT 1 FROM instances AS i JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1 AND e.status IN ('Running', 'ContinuedAsNew')",
        [instance],
        |_| Ok(()),
    )?;
    Ok(live.is_some())
}

/// Roots whose current execution ended for good (before a time, if given), oldest instance first.
pub(crate) fn finished_roots(tx: &Tx<'_>, completed_before: Option<i64>) -> Result<Vec<String>> {
    let all = tx.all(
        "SELECT i.instance_id FROM instances AS i JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE (i.parent_instance_id IS NULL OR NOT EXISTS
                 (SELECT 1 FROM instances AS p WHERE p.instance_id = i.parent_instance_id
                  AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)))
           AND e.status IN ('Completed', 'Failed') AND (?1 IS NULL OR e.completed_at < ?1)
         ORDER BY i.rowid",
        [completed_before],
        |row| row.get(0),
    );
    readable::or_one_by_one(all, || {
        let is_wanted = |id: &str| is_finished_root(tx, id, completed_before);
        readable::those(tx, usize::MAX, is_wanted)
    })
}

/// Whether the instance is such a root.
pub(crate) fn is_finished_root(
    tx: &Tx<'_>,
    instance: &str,
    completed_before: Option<i64>,
) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM instances AS i JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?2 AND (i.parent_instance_id IS NULL OR NOT EXISTS
                 (SELECT 1 FROM instances AS p WHERE p.instance_id = i.parent_instance_id
                  AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)))
           AND e.status IN ('Completed', 'Failed') AND (?1 IS NULL OR e.completed_at < ?1)",
        (completed_before, instance),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Instances whose current execution ended before a time, or all; oldest first.
pub(crate) fn list_completed_before(
    tx: &Tx<'_>,
    completed_before: Option<i64>,
    limit: u32,
) -> Result<Vec<String>> {
    let all = tx.all(
        "SELECT i.instance_id FROM instances AS i LEFT JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE ?1 IS NULL OR e.completed_at < ?1
         ORDER BY i.rowid LIMIT ?2",
        (completed_before, limit),
        |row| row.get(0),
    );
    readable::or_one_by_one(all, || {
        let is_wanted = |id: &str| matches_completed_before(tx, id, completed_before);
        readable::those(tx, usize::try_from(limit).unwrap_or(usize::MAX), is_wanted)
    })
}

/// Whether the instance exists and its current execution ended before a time, if one is given.
pub(crate) fn matches_completed_before(
    tx: &Tx<'_>,
    instance: &str,
    completed_before: Option<i64>,
) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM instances AS i LEFT JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1 AND (?2 IS NULL OR e.completed_at < ?2)",
        (instance, completed_before),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Counts by status of the current execution; executions and events are left at 0.
pub(crate) fn metrics(tx: &Tx<'_>) -> Result<SystemMetrics> {
    tx.one(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE e.status = 'Running'), COUNT(*) FILTER (WHERE e.status = 'Completed'),
             COUNT(*) FILTER (WHERE e.status = 'Failed')
         FROM instances AS i LEFT JOIN executions AS e
             ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id",
        [],
        |row| {
            Ok(SystemMetrics {
                total_instances: unsigned(row, 0)?,
                running_instances: unsigned(row, 1)?,
                completed_instances: unsigned(row, 2)?,
                failed_instances: unsigned(row, 3)?,
                ..SystemMetrics::default()
            })
        },
    )
}

pub(crate) fn delete(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM instances WHERE instance_id = ?1", [instance])? == 1)
}
