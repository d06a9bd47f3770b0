//! The right to be the only store on a file, where the linked SQLite needs that. In: a database. Out: a claim that lasts as
//! long as it is held, also if its process dies: the system ends it then.

use std::fs::{File, OpenOptions, TryLockError};

use crate::connection::database::Database;
use crate::error::SqliteError;
use crate::tx::Result;

/// Held by the one store that has the file open.
#[derive(Debug)]
pub(crate) struct Sole {
    _lock: File,
}

impl Sole {
    /// Claims the file for this store. The lock is on a file of its own, `FILE-sole`: SQLite's own locks must not be
    /// touched, and closing any handle of the database file would drop them.
    pub(crate) fn claim(database: &Database) -> Result<Self> {
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
