//! Who else may have the file open, where that matters. In: a path, and what its user does with it.
//! Out: a lock that lasts as long as it is held; if the process dies, the system releases it.
//!
//! A store whose SQLite cannot share the file has it alone; stores whose SQLite can share it with each other, and with
//! no other. Programs may link different releases, so both kinds take the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::connection::linked_sqlite::{self, Checkpoints};
use crate::error::{Result, SqliteError};
use crate::options::OtherPrograms;

/// How often the lock file is opened anew because another store removed it in between.
const TRIES: usize = 100;

/// Held by a store that has the file open.
#[derive(Debug)]
pub(crate) struct FileUse {
    lock: File,
    path: PathBuf,
}

impl FileUse {
    /// Locks the file for a store. The lock is on a file of its own, `FILE-sole`: SQLite's own locks must not be
    /// touched, and closing any handle of the database file would drop them.
    pub(crate) fn acquire(path: &Path, by: Checkpoints) -> Result<Self> {
        let locked = match by {
            Checkpoints::Beside => locked(path, Share::WithOthers)?,
            Checkpoints::WriterAlone => locked(path, Share::WithNone)?,
        };
        locked.ok_or_else(|| SqliteError::InUse {
            path: path.to_owned(),
            version: rusqlite::version().to_owned(),
        })
    }

    /// Locks the file for work on it as a whole, which checkpoints.
    pub(crate) fn for_files(path: &Path, others: OtherPrograms) -> Result<Self> {
        match others {
            OtherPrograms::Disturb => Self::acquire(path, linked_sqlite::checkpoints(false)),
            OtherPrograms::Refuse => {
                let alone = locked(path, Share::WithNone)?;
                alone.ok_or_else(|| SqliteError::Held {
                    path: path.to_owned(),
                })
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Share {
    WithOthers,
    WithNone,
}

/// The lock, or nothing if another holder is in its way.
fn locked(database: &Path, share: Share) -> Result<Option<FileUse>> {
    let cannot = |error: io::Error| match database.parent() {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => SqliteError::MissingFolder {
            path: folder.to_owned(),
        },
        _ => SqliteError::CannotOpen {
            path: database.to_owned(),
            why: error.to_string(),
        },
    };
    let mut path = database.to_owned().into_os_string();
    path.push("-sole");
    let path = PathBuf::from(path);
    for _ in 0..TRIES {
        let lock = open(&path).map_err(cannot)?;
        let locked = match share {
            Share::WithOthers => lock.try_lock_shared(),
            Share::WithNone => lock.try_lock(),
        };
        match locked {
            // The last process to close removes the file; a lock on a removed file excludes no process.
            Ok(()) if is_at(&path, &lock).map_err(cannot)? => {
                return Ok(Some(FileUse { lock, path }));
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
    }
    Err(SqliteError::Busy)
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

/// Whether this is the file at the path, where the operating system shows it.
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
