//! Questions about all instances where a page of the file cannot be read. In: the failure of the statement that answers
//! otherwise. Out: the same answer, found instance by instance; what cannot be read is left out, and the log says so.
//! Ids come from an index, which holds those on a damaged page too. Never asked while everything can be read.

use crate::error::{Result, SqliteError};
use crate::tx::Tx;

/// The answer of a statement about many instances; of `one_by_one`, if it met a page that cannot be read.
pub(crate) fn or_one_by_one<T>(
    answer: Result<T>,
    one_by_one: impl FnOnce() -> Result<T>,
) -> Result<T> {
    match answer {
        Err(error @ SqliteError::Damaged { .. }) => {
            tracing::error!(target: "duroxide::providers::sqlite", %error, "a listing met a page that cannot be read; it says so in its place, or leaves out what is on it");
            one_by_one()
        }
        answer => answer,
    }
}

/// What could be read; `None` if a page of it cannot.
pub(crate) fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(SqliteError::Damaged { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// All ids with the numbers of their rows, oldest first.
fn rows(tx: &Tx<'_>) -> Result<Vec<(i64, String)>> {
    tx.all(
        "SELECT rowid, instance_id FROM instances INDEXED BY sqlite_autoindex_instances_1 ORDER BY rowid",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// All ids, oldest first.
pub(crate) fn ids(tx: &Tx<'_>) -> Result<Vec<String>> {
    Ok(rows(tx)?.into_iter().map(|(_, id)| id).collect())
}

/// At most `limit` ids of rows behind this one, with the numbers of their rows, oldest first.
pub(crate) fn rows_after(tx: &Tx<'_>, after: i64, limit: i64) -> Result<Vec<(i64, String)>> {
    tx.all(
        "SELECT rowid, instance_id FROM instances INDEXED BY sqlite_autoindex_instances_1 WHERE rowid > ?1
         ORDER BY rowid LIMIT ?2",
        (after, limit),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Those of which this could be read, and is so; oldest first.
pub(crate) fn those(
    tx: &Tx<'_>,
    limit: usize,
    mut is_wanted: impl FnMut(&str) -> Result<bool>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for id in ids(tx)? {
        if found.len() >= limit {
            break;
        }
        if unless_damaged(is_wanted(&id))?.unwrap_or(false) {
            found.push(id);
        }
    }
    Ok(found)
}
