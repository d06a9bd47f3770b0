//! The schema and its versions. In: a connection to any database. Out: one with our schema, or an error that
//! names its owner. Each migration runs once, in an exclusive transaction; `user_version` counts them.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::statements::Prepared;
use crate::error::{Result, SqliteError};
use crate::kill;

/// Marks a file as ours: `Durx` in ASCII.
const APPLICATION_ID: i64 = 0x4475_7278;

/// Append only; the version of a schema is the number of migrations it has seen.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_init.sql"),
    include_str!("../../migrations/0002_incarnations.sql"),
    include_str!("../../migrations/0003_lanes.sql"),
    include_str!("../../migrations/0004_deletions.sql"),
    include_str!("../../migrations/0005_causes.sql"),
    include_str!("../../migrations/0006_queries.sql"),
    include_str!("../../migrations/0007_termination.sql"),
    include_str!("../../migrations/0008_letters.sql"),
    include_str!("../../migrations/0009_operate.sql"),
    include_str!("../../migrations/0010_heartbeats.sql"),
    include_str!("../../migrations/0011_operate.sql"),
    include_str!("../../migrations/0012_rests.sql"),
    include_str!("../../migrations/0013_memos.sql"),
    include_str!("../../migrations/0014_held_letters.sql"),
    include_str!("../../migrations/0015_closing.sql"),
    include_str!("../../migrations/0016_pages.sql"),
    include_str!("../../migrations/0017_blocked.sql"),
    include_str!("../../migrations/0018_deleted_lives.sql"),
];

/// The version of another build that the log has named.
static SCHEMA_TOLD: AtomicI64 = AtomicI64::new(0);

/// What the header of a file declares.
#[derive(Clone, Copy)]
enum State {
    Empty,
    Ours { version: i64 },
}

/// Brings the schema up to date. Safe when many processes open an empty file at once: the one that gets the lock second
/// finds the work done.
pub(crate) fn run(conn: &Connection, path: &Path) -> Result<()> {
    // Read before asking for the lock, so that a file of another program is left untouched.
    if let State::Ours { version } = snapshot_state(conn, path)?
        && version == known_version()
    {
        return Ok(());
    }
    let tx = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Exclusive)?;
    let version = match state(&tx, path)? {
        State::Empty => 0,
        State::Ours { version } => version,
    };
    for migration in MIGRATIONS
        .iter()
        .skip(usize::try_from(version).unwrap_or(0))
    {
        tx.execute_batch(migration)?;
        kill::point("migration");
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", known_version())?;
    kill::point("before_schema");
    tx.commit()?;
    kill::point("after_schema");
    Ok(())
}

/// Gives an empty database the schema that an older build had.
#[cfg(test)]
pub(crate) fn run_up_to(conn: &Connection, version: usize) -> Result<()> {
    for migration in &MIGRATIONS[..version] {
        conn.execute_batch(migration)?;
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(conn.pragma_update(None, "user_version", version as i64)?)
}

/// Gives a new file its schema; one that has an older schema is left as it is.
pub(crate) fn run_if_empty(conn: &Connection, path: &Path) -> Result<()> {
    match snapshot_state(conn, path)? {
        State::Empty => run(conn, path),
        State::Ours { .. } => check(conn, path),
    }
}

/// Checks the schema without changing it.
pub(crate) fn check(conn: &Connection, path: &Path) -> Result<()> {
    check_state(snapshot_state(conn, path)?, path)
}

/// As [`check`], within an open transaction.
pub(crate) fn check_within(conn: &Connection, path: &Path) -> Result<()> {
    check_state(state(conn, path)?, path)
}

fn check_state(state: State, path: &Path) -> Result<()> {
    match state {
        State::Ours { version } if version == known_version() => Ok(()),
        State::Ours { version: found } => Err(SqliteError::NeedsUpgrade {
            path: path.to_owned(),
            found,
        }),
        State::Empty => Err(SqliteError::NeedsUpgrade {
            path: path.to_owned(),
            found: 0,
        }),
    }
}

/// The version of the schema, of this build or any other; an error if the file is not ours.
pub(crate) fn version_of(conn: &Connection, path: &Path) -> Result<i64> {
    match snapshot_state(conn, path) {
        Ok(State::Ours { version }) => Ok(version),
        Err(SqliteError::NewerSchema { found, .. }) => Ok(found),
        Ok(State::Empty) => Err(foreign(path, "no program yet, it is empty".to_owned())),
        Err(error) => Err(error),
    }
}

/// The version of a schema that this build can bring up to date.
pub(crate) fn upgradable_version(conn: &Connection, path: &Path) -> Result<i64> {
    match snapshot_state(conn, path)? {
        State::Ours { version } => Ok(version),
        State::Empty => Err(foreign(path, "no program yet, it is empty".to_owned())),
    }
}

/// The migrations that a schema of this version has not seen.
pub(crate) fn steps_after(version: u64) -> &'static [&'static str] {
    let seen = usize::try_from(version).unwrap_or(usize::MAX);
    MIGRATIONS.get(seen..).unwrap_or_default()
}

/// Whether the schema is still the one this build writes, inside a transaction.
pub(crate) fn check_version(statements: &dyn Prepared) -> Result<()> {
    let found = statements.with("PRAGMA user_version", |statement| {
        statement.query_row([], |row| row.get(0))
    })?;
    if found == known_version() {
        return Ok(());
    }
    let known = known_version();
    // The request is tried again, as long as this program runs: an operator must hear of it, once.
    if SCHEMA_TOLD.swap(found, Ordering::Relaxed) != found {
        tracing::error!(
            target: "duroxide::providers::sqlite",
            found,
            known,
            "another build changed the schema of the file; this program commits nothing until it is restarted with that build"
        );
    }
    Err(SqliteError::SchemaChanged { found, known })
}

/// The version that this build writes.
pub(crate) fn known_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The state as of one moment: another process may be half way through writing its parts.
fn snapshot_state(conn: &Connection, path: &Path) -> Result<State> {
    let tx = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    state(&tx, path)
}

fn state(conn: &Connection, path: &Path) -> Result<State> {
    let application: i64 = pragma(conn, path, "application_id")?;
    let version: i64 = pragma(conn, path, "user_version")?;
    if application == APPLICATION_ID {
        if version > known_version() {
            return Err(SqliteError::NewerSchema {
                path: path.to_owned(),
                found: version,
                known: known_version(),
            });
        }
        return Ok(State::Ours { version });
    }
    let tables: i64 = conn.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(State::Empty);
    }
    Err(foreign(path, owner(conn)?))
}

fn foreign(path: &Path, owner: String) -> SqliteError {
    SqliteError::ForeignDatabase {
        path: path.to_owned(),
        owner,
    }
}

fn pragma(conn: &Connection, path: &Path, name: &str) -> Result<i64> {
    conn.pragma_query_value(None, name, |row| row.get(0))
        .map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => SqliteError::NotADatabase {
                path: path.to_owned(),
            },
            _ => error.into(),
        })
}

/// The program that the database belongs to, for the error text.
fn owner(conn: &Connection) -> Result<String> {
    let published: i64 = conn.query_row(
        "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('orchestrator_queue', '_sqlx_migrations')",
        [],
        |row| row.get(0),
    )?;
    Ok(if published == 2 {
        "the published duroxide 0.1 line, which `duroxide import-published` brings over into a new file".to_owned()
    } else {
        "another program".to_owned()
    })
}
