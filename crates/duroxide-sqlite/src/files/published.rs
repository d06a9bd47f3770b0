//! Files of the published 0.1 line. In: such a file. Out: a file of ours with everything that was in flight; the old
//! one stays as it is.

use std::path::Path;

use duroxide_core::provider::rules::Refusal;
use rusqlite::{Connection, OpenFlags};

use super::new_file::NewFile;
use super::open;
use crate::connection::{database, migrate};
use crate::error::{Result, SqliteError};

const IMPORT: &str = include_str!("../../import/published_0_1.sql");

/// The last migration of the published 0.1.32.
const LAST_MIGRATION: i64 = 20_240_112_000_000;

/// What was brought over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The number of instances that were imported.
    pub instances: u64,
    /// Their executions.
    pub executions: u64,
    /// Their events.
    pub events: u64,
    /// Messages and timers that wait.
    pub messages: u64,
    /// Activities that wait or were running.
    pub activities: u64,
    /// Key-values, those of running executions included.
    pub key_values: u64,
}

/// Brings an SQLite file of the published crate, 0.1.32, over into a new store file. Blocks.
///
/// Histories, queues, timers, key-values and custom statuses come along; leases and sessions do not, because their
/// holders are gone. The old file is only read. The new one appears when it is whole: rows are counted on both sides.
/// Stop the programs that use the old file first; what they do later is not brought over.
///
/// # Errors
///
/// If the old file is of another program or another version, the new one exists, or the disk fails.
pub fn import_published(old: &Path, new: &Path) -> Result<Imported> {
    let file = NewFile::at(new)?;
    check_published(old)?;
    let conn = Connection::open_with_flags(
        file.draft(),
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI,
    )?;
    // The file has no name yet: whatever happens to this process, it is begun anew.
    conn.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    database::give_back_in_steps(&conn)?;
    migrate::run(&conn, file.draft())?;
    conn.execute("ATTACH ?1 AS old", [read_only_uri(old)])?;
    let imported = copy(&conn)?;
    conn.execute_batch("DETACH old")?;
    conn.close().map_err(|(_, error)| error)?;
    file.finish()?;
    Ok(imported)
}

/// Copies within one transaction, so that the old file is read as of one moment, and compares the counts.
fn copy(conn: &Connection) -> Result<Imported> {
    conn.execute_batch("BEGIN")?;
    conn.execute_batch(IMPORT)?;
    let old = counts(conn, "old")?;
    let new = counts(conn, "main")?;
    if old != new {
        return Err(Refusal::Unstorable {
            what: format!("what was counted in the old file, {old:?},"),
            why: format!("{new:?} arrived"),
        }
        .into());
    }
    conn.execute_batch("COMMIT")?;
    Ok(new)
}

fn counts(conn: &Connection, schema: &str) -> Result<Imported> {
    let count = |table: &str| {
        let sql = format!("SELECT COUNT(*) FROM {schema}.{table}");
        let count = conn.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
        Ok::<_, SqliteError>(u64::try_from(count).unwrap_or(0))
    };
    Ok(Imported {
        instances: count("instances")?,
        executions: count("executions")?,
        events: count("history")?,
        messages: count("orchestrator_queue")?,
        activities: count("worker_queue")?,
        key_values: count("kv_store")? + count("kv_delta")?,
    })
}

fn check_published(old: &Path) -> Result<()> {
    let conn = open(old, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let latest = conn.query_row("SELECT MAX(version) FROM _sqlx_migrations", [], |row| {
        row.get::<_, Option<i64>>(0)
    });
    let owner = match latest {
        Ok(Some(LAST_MIGRATION)) => return Ok(()),
        Ok(Some(version)) => {
            format!(
                "the duroxide 0.1 line with schema {version}, and 0.1.32 has {LAST_MIGRATION}; open it with 0.1.32 once"
            )
        }
        Ok(None) | Err(_) => "another program, and not of the published duroxide crate".to_owned(),
    };
    Err(SqliteError::ForeignDatabase {
        path: old.to_owned(),
        owner,
    })
}

/// The path as a URI that SQLite opens read-only.
fn read_only_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?mode=ro");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_part_of_the_query() {
        let uri = read_only_uri(Path::new("/a b?c.db"));
        assert_eq!(uri, "file:/a%20b%3Fc.db?mode=ro");
    }
}
