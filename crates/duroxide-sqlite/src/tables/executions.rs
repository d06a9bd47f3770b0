//! Executions of instances: status, result, and the engine version that began them.

use duroxide_core::provider::{ExecutionInfo, ExecutionStatus};
use rusqlite::Row;
use semver::{BuildMetadata, Prerelease, Version};

use crate::error::Result;
use crate::tables::budget::{rows, spend};
use crate::tx::{Tx, Unsigned, shown_ms, unsigned};

/// What a commit changes of an execution.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExecutionChange {
    pub(crate) status: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) pinned: Option<Version>,
}

/// Creates the execution with the values of the commit, or changes it. What the commit leaves out stays.
pub(crate) fn apply(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    change: &ExecutionChange,
) -> Result<()> {
    let status = change.status.as_deref();
    // Still running is no completion, whatever the caller sends along.
    let completed_at = status
        .is_some_and(|status| status != ExecutionStatus::Running.as_str())
        .then_some(tx.now);
    let pinned = change.pinned.as_ref();
    tx.execute(
        "INSERT INTO executions (instance_id, execution_id, status, output, started_at, completed_at,
             duroxide_version_major, duroxide_version_minor, duroxide_version_patch, duroxide_version_pre)
         VALUES (?1, ?2, COALESCE(?3, 'Running'), ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (instance_id, execution_id) DO UPDATE SET
             status = COALESCE(?3, status),
             output = CASE WHEN ?3 IS NULL THEN output ELSE ?4 END,
             completed_at = CASE WHEN ?3 IS NULL THEN completed_at ELSE ?6 END,
             duroxide_version_major = COALESCE(?7, duroxide_version_major),
             duroxide_version_minor = COALESCE(?8, duroxide_version_minor),
             duroxide_version_patch = COALESCE(?9, duroxide_version_patch),
             duroxide_version_pre = CASE WHEN ?7 IS NULL THEN duroxide_version_pre ELSE ?10 END
         WHERE ?3 IS NOT NULL OR ?7 IS NOT NULL",
        (
            instance,
            Unsigned(execution_id),
            status,
            change.output.as_deref().filter(|_| status.is_some()),
            tx.now,
            completed_at,
            pinned.map(|version| Unsigned(version.major)),
            pinned.map(|version| Unsigned(version.minor)),
            pinned.map(|version| Unsigned(version.patch)),
            pinned
                .map(|version| version.pre.as_str())
                .filter(|pre| !pre.is_empty()),
        ),
    )?;
    Ok(())
}

/// The pinned version from four columns beginning at `first`; `None` if it was never set.
pub(crate) fn pinned(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Version>> {
    if row.get::<_, Option<i64>>(first)?.is_none() {
        return Ok(None);
    }
    let pre: Option<String> = row.get(first + 3)?;
    Ok(Some(Version {
        major: unsigned(row, first)?,
        minor: unsigned(row, first + 1)?,
        patch: unsigned(row, first + 2)?,
        pre: pre
            .and_then(|pre| Prerelease::new(&pre).ok())
            .unwrap_or(Prerelease::EMPTY),
        build: BuildMetadata::EMPTY,
    }))
}

/// The highest execution that exists, with its pinned version.
pub(crate) fn latest(tx: &Tx<'_>, instance: &str) -> Result<Option<(u64, Option<Version>)>> {
    tx.first(
        "SELECT execution_id, duroxide_version_major, duroxide_version_minor, duroxide_version_patch,
             duroxide_version_pre
         FROM executions WHERE instance_id = ?1 ORDER BY execution_id DESC LIMIT 1",
        [instance],
        |row| Ok((unsigned(row, 0)?, pinned(row, 1)?)),
    )
}

/// The highest execution's id, 1 if there is none.
pub(crate) fn latest_id(tx: &Tx<'_>, instance: &str) -> Result<u64> {
    tx.one(
        "SELECT COALESCE(MAX(execution_id), 1) FROM executions WHERE instance_id = ?1",
        [instance],
        |row| unsigned(row, 0),
    )
}

/// Ids, ascending.
pub(crate) fn list(tx: &Tx<'_>, instance: &str) -> Result<Vec<u64>> {
    tx.all(
        "SELECT execution_id FROM executions WHERE instance_id = ?1 ORDER BY execution_id",
        [instance],
        |row| unsigned(row, 0),
    )
}

/// One execution; the number of its events is left at 0.
pub(crate) fn info(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
) -> Result<Option<ExecutionInfo>> {
    tx.first(
        "SELECT execution_id, status, output, started_at, completed_at FROM executions
         WHERE instance_id = ?1 AND execution_id = ?2",
        (instance, Unsigned(execution_id)),
        |row| {
            Ok(ExecutionInfo {
                execution_id: unsigned(row, 0)?,
                status: row.get(1)?,
                output: row.get(2)?,
                started_at: shown_ms(row.get(3)?),
                completed_at: row.get::<_, Option<i64>>(4)?.map(shown_ms),
                event_count: 0,
            })
        },
    )
}

/// Executions that run; an instance has one at most. Counted without the instances, whose rows lie elsewhere.
///
/// The condition of the index is written out: SQLite does not derive it from the equality, and nodes ask this
/// regularly.
pub(crate) fn count_running(tx: &Tx<'_>) -> Result<u64> {
    tx.one(
        "SELECT COUNT(*) FROM executions INDEXED BY idx_executions_open
         WHERE status <> 'Completed' AND status = 'Running'",
        [],
        |row| unsigned(row, 0),
    )
}

pub(crate) fn count(tx: &Tx<'_>) -> Result<u64> {
    tx.one("SELECT COUNT(*) FROM executions", [], |row| {
        unsigned(row, 0)
    })
}

/// The oldest executions below `current` that ended (before a time, if given) and are not among the `keep` newest of
/// all, at most `max`.
pub(crate) fn prunable(
    tx: &Tx<'_>,
    instance: &str,
    current: u64,
    keep: u32,
    completed_before: Option<i64>,
    max: usize,
) -> Result<Vec<u64>> {
    tx.all(
        "SELECT execution_id FROM executions
         WHERE instance_id = ?1 AND execution_id <> ?2 AND status <> 'Running'
           AND (?4 IS NULL OR completed_at < ?4)
           AND execution_id NOT IN
             (SELECT execution_id FROM executions WHERE instance_id = ?1 ORDER BY execution_id DESC LIMIT ?3)
         ORDER BY execution_id LIMIT ?5",
        (
            instance,
            Unsigned(current),
            keep,
            completed_before,
            i64::try_from(max).unwrap_or(i64::MAX),
        ),
        |row| unsigned(row, 0),
    )
}

/// An execution of a deleted instance that is not gone yet does not run.
pub(crate) fn mark_over(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<()> {
    tx.execute(
        "UPDATE executions SET status = 'ContinuedAsNew' WHERE instance_id = ?1 AND execution_id = ?2",
        (instance, Unsigned(execution_id)),
    )?;
    Ok(())
}

pub(crate) fn delete(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<usize> {
    tx.execute(
        "DELETE FROM executions WHERE instance_id = ?1 AND execution_id = ?2",
        (instance, Unsigned(execution_id)),
    )
}

/// Deletes executions of an instance, the newest first, as many as are left to the transaction; returns how many.
pub(crate) fn delete_instance(tx: &Tx<'_>, instance: &str, left: &mut usize) -> Result<usize> {
    let mut oldest: Option<i64> = None;
    let budget = rows(*left);
    tx.walk(
        "SELECT execution_id, COALESCE(octet_length(output), 0) FROM executions WHERE instance_id = ?1
         ORDER BY execution_id DESC LIMIT ?2",
        (instance, budget),
        |row| {
            oldest = Some(row.get(0)?);
            spend(left, row.get(1)?);
            Ok(*left > 0)
        },
    )?;
    let Some(oldest) = oldest else {
        return Ok(0);
    };
    tx.execute(
        "DELETE FROM executions WHERE instance_id = ?1 AND execution_id >= ?2",
        (instance, oldest),
    )
}
