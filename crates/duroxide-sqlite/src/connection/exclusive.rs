//! Who else may have the file open, where a linked SQLite needs that. In: a database, and what this store's SQLite allows.
//! Out: a lock that lasts as long as it is held; if the process dies, the system releases it.
//!
//! A store whose SQLite cannot share the file has it alone; stores whose SQLite can share it with each other, and with no
//! other. Programs may link different releases, so both kinds take the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::connection::database::Database;
use crate::connection::driver::Checkpoints;
use crate::error::{Result, SqliteError};

/// How often the lock file is opened anew because another store removed it in between.
const TRIES: usize = 100;

/// Held by a store that has the file open.
#[derive(Debug)]
pub(crate) struct FileUse {
    lock: File,
    path: PathBuf,
}

impl FileUse {
    /// Locks the file for this store. The lock is on a file of its own, `FILE-sole`: SQLite's own locks must not be
    /// touched, and closing any handle of the database file would drop them.
    pub(crate) fn acquire(database: &Database, by: Checkpoints) -> Result<Self> {
        let cannot = |error: io::Error| match database.path.parent() {
            Some(folder) if error.kind() == io::ErrorKind::NotFound => SqliteError::MissingFolder {
                path: folder.to_owned(),
            },
            _ => SqliteError::CannotOpen {
                path: database.path.clone(),
                why: error.to_string(),
            },
        };
        let mut path = database.path.clone().into_os_string();
        path.push("-sole");
        let path = PathBuf::from(path);
        for _ in 0..TRIES {
            let lock = open(&path).map_err(cannot)?;
            let locked = match by {
                Checkpoints::Beside => lock.try_lock_shared(),
                Checkpoints::WriterAlone => lock.try_lock(),
            };
            match locked {
                // Whoever closes last removes the file; a lock on a removed one excludes nobody.
                Ok(()) if is_at(&path, &lock).map_err(cannot)? => return Ok(Self { lock, path }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(SqliteError::InUse {
                        path: database.path.clone(),
                        version: rusqlite::version().to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
        }
        Err(SqliteError::Busy)
    }
}

impl Drop for FileUse {
    fn drop(&mut self) {
        // The last one removes the file. If that fails, an empty file stays and does no harm.
        if self.lock.try_lock().is_ok() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Whether this is the file at the path, where the operating system tells.
#[cfg(unix)]
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_at(path: &Path, _: &File) -> io::Result<bool> {
    path.try_exists()
}
