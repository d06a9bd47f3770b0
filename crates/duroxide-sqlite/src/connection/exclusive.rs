//! Exclusive use of a file by one store, where the linked SQLite needs that. In: a database. Out: a lock that lasts as
//! long as it is held; if the process dies, the system releases it.

use std::fs::{File, OpenOptions, TryLockError};

use crate::connection::database::Database;
use crate::error::{Result, SqliteError};

/// Held by the one store that has the file open.
#[derive(Debug)]
pub(crate) struct ExclusiveUse {
    _lock: File,
}

impl ExclusiveUse {
    /// Locks the file for this store. The lock is on a file of its own, `FILE-sole`: SQLite's own locks must not be
    /// touched, and closing any handle of the database file would drop them.
    pub(crate) fn acquire(database: &Database) -> Result<Self> {
        let cannot = |error: std::io::Error| SqliteError::CannotOpen {
            path: database.path.clone(),
            why: error.to_string(),
        };
        let mut name = database.path.clone().into_os_string();
        name.push("-sole");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(name)
            .map_err(cannot)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(SqliteError::InUse {
                path: database.path.clone(),
                version: rusqlite::version().to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }
}
