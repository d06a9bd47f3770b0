//! Work on whole files, beside or without a running store: backup, vacuum, integrity, import. In: paths. Out: files and figures.
//! Every function here blocks; on an async thread use `spawn_blocking`.

mod backup;
mod integrity;
mod published;

pub use backup::backup;
pub use integrity::{Vacuumed, check_integrity, vacuum};
pub use published::{Imported, import_published};

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::connection::{busy, migrate};
use crate::error::{Result, SqliteError};

/// A connection to a store file that exists and has the schema of this build.
fn connect(path: &Path, mode: OpenFlags) -> Result<Connection> {
    let conn = open(path, mode)?;
    migrate::check(&conn, path)?;
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
    #[allow(unused_mut, reason = "some releases of the driver need it")]
    let mut conn =
        Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    conn.busy_handler(Some(busy::wait_for_lock))?;
    Ok(conn)
}

/// A file that does not exist yet, written under another name until it is whole.
struct NewFile {
    partial: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Refuses a path that exists. What an interrupted attempt left is removed.
    fn at(path: &Path) -> Result<Self> {
        if path.exists() {
            let why = "it exists, and is not overwritten".to_owned();
            let path = path.to_owned();
            return Err(SqliteError::CannotOpen { path, why });
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(cannot_open(&partial, &error))
            }
            _ => Ok(Self {
                partial,
                path: path.to_owned(),
            }),
        }
    }

    /// Gives the whole file its name, on disk.
    fn finish(self) -> Result<()> {
        let name = || -> std::io::Result<()> {
            std::fs::File::open(&self.partial)?.sync_all()?;
            std::fs::rename(&self.partial, &self.path)?;
            match self
                .path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
            {
                Some(folder) => std::fs::File::open(folder)?.sync_all(),
                None => std::fs::File::open(".")?.sync_all(),
            }
        };
        name().map_err(|error| cannot_open(&self.path, &error))
    }
}

fn cannot_open(path: &Path, error: &dyn std::error::Error) -> SqliteError {
    SqliteError::CannotOpen {
        path: path.to_owned(),
        why: error.to_string(),
    }
}
