//! Work on whole files, beside or without a running store: backup, vacuum, integrity, upgrade, import. In: paths. Out:
//! files and figures. Every function here blocks; on an async thread use `spawn_blocking`.

mod backup;
mod integrity;
mod new_file;
mod pace;
mod published;
mod upgrade;
mod vacuum;

pub use backup::{backup, backup_at};
pub use integrity::check_integrity;
pub use new_file::unfinished_copies;
pub use pace::BackupPace;
pub use published::{Imported, import_published};
pub use upgrade::{Upgrade, planned_upgrade, upgrade};
pub use vacuum::{Vacuumed, vacuum};

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::connection::{busy, migrate};
use crate::error::{Result, SqliteError};

/// A connection to a store file that exists, whatever version its schema has: what an upgrade needs first is a copy.
fn connect(path: &Path, mode: OpenFlags) -> Result<Connection> {
    let conn = open(path, mode)?;
    migrate::version_of(&conn, path)?;
    Ok(conn)
}

/// A connection to a file that exists.
fn open(path: &Path, mode: OpenFlags) -> Result<Connection> {
    if !path.exists() {
        return Err(SqliteError::MissingFile {
            path: path.to_owned(),
        });
    }
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[allow(
        unused_mut,
        reason = "`busy_handler` takes `&mut self` in rusqlite 0.41 and `&self` in 0.37"
    )]
    let mut conn =
        Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    conn.busy_handler(Some(busy::wait_for_lock))?;
    Ok(conn)
}

fn cannot_open(path: &Path, error: &dyn std::error::Error) -> SqliteError {
    SqliteError::CannotOpen {
        path: path.to_owned(),
        why: error.to_string(),
    }
}
