//! Connections. In: a [`Place`] and a durability. Out: a configured connection to a database of ours, migrated if it
//! may be written. A file that is not ours is read just enough to recognise that, and never written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::busy::wait_for_lock;
use super::log_policy::LogPolicy;
use super::migrate;
use super::page_cache;
use super::url::Access;
use crate::error::{Result, SqliteError};
use crate::kill;
use crate::options::{Durability, SchemaUpgrade};

/// What one page takes in the file of the log: the page, of the size that SQLite gives new files, and its header.
const LOG_FRAME_BYTES: u64 = 4_096 + 24;

/// A file database, opened again whenever a connection had to be given up.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) durability: Durability,
    /// What to do with a schema of an older build.
    pub(crate) upgrade: SchemaUpgrade,
    /// How the log is kept short.
    pub(crate) log: LogPolicy,
    /// Which file it was when the store was opened; unknown while it is being opened.
    pub(crate) opened: Arc<OnceLock<FileIdentity>>,
}

/// How the last process that had the file open ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastShutdown {
    /// It closed the file, or there was none.
    Clean,
    /// It left its log behind, or is still running.
    Unclean,
}

/// Which file a path named at some moment; another file at the same path has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Database {
    /// Creates the file if it may and must be, checks that it is ours, and brings its schema up to date.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.create_if_missing()?;
        kill::point("file_made");
        let conn = self.connect(self.access)?;
        if self.access == Access::Create && self.is_empty() {
            give_back_in_steps(&conn)?;
        }
        match (self.access, self.upgrade) {
            (Access::ReadOnly, _) | (Access::Existing, SchemaUpgrade::Refuse) => {
                migrate::check(&conn, &self.path)
            }
            (Access::Create, SchemaUpgrade::Refuse) => migrate::run_if_empty(&conn, &self.path),
            (Access::Existing | Access::Create, SchemaUpgrade::OnOpen) => {
                migrate::run(&conn, &self.path)
            }
        }
    }

    /// The write-ahead log, which every commit of any process touches.
    pub(crate) fn log_path(&self) -> PathBuf {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        log.into()
    }

    /// How long the file of the log is, in pages; 0 if that cannot be found out.
    pub(crate) fn log_pages(&self) -> usize {
        usize::try_from(self.log_bytes() / LOG_FRAME_BYTES).unwrap_or(usize::MAX)
    }

    /// How long the file of the log is, in bytes; 0 if that cannot be found out.
    pub(crate) fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.log_path()).map_or(0, |log| log.len())
    }

    /// How the last process that had the file open ended. Ask before this one opens it: the last connection to close
    /// checkpoints the log and removes its file.
    pub(crate) fn last_shutdown(&self) -> LastShutdown {
        if self.log_path().exists() {
            LastShutdown::Unclean
        } else {
            LastShutdown::Clean
        }
    }

    /// The connection of the writer.
    pub(crate) fn open_writer(&self) -> Result<Connection> {
        let conn = self.connect(self.access)?;
        migrate::check(&conn, &self.path)?;
        if self.access != Access::ReadOnly {
            self.set_durability(&conn)?;
            self.log.apply(&conn)?;
        }
        page_cache::begin(&conn)?;
        // Savepoints keep their undo pages in memory instead of in a temporary file.
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(conn)
    }

    /// A connection that checkpoints.
    pub(crate) fn open_checkpointer(&self) -> Result<Connection> {
        let conn = self.connect(self.access)?;
        self.set_durability(&conn)?;
        self.log.apply(&conn)?;
        Ok(conn)
    }

    /// A connection that only reads.
    pub(crate) fn open_reader(&self) -> Result<Connection> {
        let conn = self.connect(Access::ReadOnly)?;
        conn.pragma_update(None, "query_only", true)?;
        conn.pragma_update(None, "cache_size", -4_000)?;
        Ok(conn)
    }

    /// Which file the path names right now.
    pub(crate) fn identity(&self) -> Result<FileIdentity> {
        let gone = |_| SqliteError::FileGone {
            path: self.path.clone(),
        };
        identity_of(&fs::metadata(&self.path).map_err(gone)?)
    }

    /// Whether the path still names the file that was opened.
    ///
    /// SQLite would go on with a file that has no name any more, and every acknowledged commit would be lost with the
    /// process; a new connection would be one to another file.
    pub(crate) fn check_identity(&self) -> Result<()> {
        match self.opened.get() {
            Some(opened) if self.identity()? != *opened => Err(SqliteError::FileGone {
                path: self.path.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether nothing was ever written to the file.
    fn is_empty(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() == 0)
    }

    fn create_if_missing(&self) -> Result<()> {
        if self.path.exists() {
            return Ok(());
        }
        if self.access != Access::Create {
            return Err(SqliteError::MissingFile {
                path: self.path.clone(),
            });
        }
        if let Some(folder) = self.path.parent().filter(|p| !p.as_os_str().is_empty())
            && !folder.is_dir()
        {
            return Err(SqliteError::MissingFolder {
                path: folder.to_owned(),
            });
        }
        create_private(&self.path).map_err(|error| SqliteError::CannotOpen {
            path: self.path.clone(),
            why: error.to_string(),
        })
    }

    fn connect(&self, access: Access) -> Result<Connection> {
        let mode = match access {
            Access::Create | Access::Existing => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        // Each connection belongs to one thread, so SQLite's own mutexes are not needed. The file was created
        // beforehand: a connection never makes an empty one in place of one that was removed.
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        #[allow(
            unused_mut,
            reason = "`busy_handler` takes `&mut self` in rusqlite 0.41 and `&self` in 0.37"
        )]
        let mut conn = Connection::open_with_flags(&self.path, flags).map_err(|error| {
            if self.path.exists() {
                SqliteError::CannotOpen {
                    path: self.path.clone(),
                    why: error.to_string(),
                }
            } else {
                SqliteError::FileGone {
                    path: self.path.clone(),
                }
            }
        })?;
        self.check_identity()?;
        keep_plans(&conn)?;
        conn.busy_handler(Some(wait_for_lock))?;
        Ok(conn)
    }

    fn set_durability(&self, conn: &Connection) -> Result<()> {
        let wal = switch_to_wal(conn)?;
        kill::point("log_made");
        self.expect("journal_mode", "wal", wal)?;
        let level = self.durability.synchronous_level();
        conn.pragma_update(None, "synchronous", level)?;
        // An illegal value would be turned into some legal one in silence; only reading it back shows that.
        let found: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        // On macOS an ordinary sync leaves the data in the cache of the disk. Elsewhere these do nothing.
        if self.durability == Durability::Full {
            conn.pragma_update(None, "fullfsync", true)?;
            conn.pragma_update(None, "checkpoint_fullfsync", true)?;
        }
        self.expect("synchronous", &level.to_string(), found.to_string())
    }

    fn expect(&self, setting: &'static str, wanted: &str, found: String) -> Result<()> {
        if found == wanted {
            return Ok(());
        }
        Err(SqliteError::DurabilityRefused {
            path: self.path.clone(),
            setting,
            found,
            wanted: wanted.to_owned(),
        })
    }
}

/// The path as it is used from here on: it must not follow the working directory, and not name the file through a link,
/// because SQLite puts its log beside the file that the link leads to.
pub(crate) fn located(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let target = match fs::read_link(&absolute) {
        // A link that leads nowhere yet: the file is created where it leads.
        Ok(target) if !absolute.exists() => absolute
            .parent()
            .map_or_else(|| target.clone(), |folder| folder.join(&target)),
        _ => absolute,
    };
    fs::canonicalize(&target).unwrap_or(target)
}

/// Makes a file that is still empty one that gives unused pages back when it is asked to; others stay as they are until
/// a vacuum writes them anew.
pub(crate) fn give_back_in_steps(conn: &Connection) -> Result<()> {
    Ok(conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?)
}

/// A private database in memory. It has one connection: reads and writes pass through the writer.
pub(crate) fn open_memory() -> Result<Connection> {
    let conn = Connection::open_in_memory()?;
    keep_plans(&conn)?;
    migrate::run(&conn, Path::new(":memory:"))?;
    Ok(conn)
}

/// Plans do not depend on the values bound to a statement. Otherwise SQLite prepares some of them again for every new
/// value, which costs more than running them.
fn keep_plans(conn: &Connection) -> Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Switching needs the file alone for a moment, and SQLite does not call the busy handler for it.
fn switch_to_wal(conn: &Connection) -> Result<String> {
    for attempt in 0.. {
        let switched = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match switched {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && wait_for_lock(attempt) => {}
            other => return Ok(other?),
        }
    }
    Err(SqliteError::Busy)
}

/// Creates the file. Never opens one that is there: closing it would drop the locks that another store of this process
/// has on it.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    match options.open(path) {
        Ok(_) => Ok(()),
        // Another process created it first, and that is fine.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems may fail here")]
fn identity_of(metadata: &fs::Metadata) -> Result<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    Ok(FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

#[cfg(not(unix))]
fn identity_of(_: &fs::Metadata) -> Result<FileIdentity> {
    Ok(FileIdentity {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::linked_sqlite::Checkpoints;

    #[test]
    fn a_log_left_behind_is_an_unclean_shutdown_even_if_it_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database {
            path: folder.path().join("a.db"),
            access: Access::Create,
            durability: Durability::Full,
            upgrade: SchemaUpgrade::OnOpen,
            log: LogPolicy::new(Checkpoints::Beside, None),
            opened: Arc::default(),
        };
        assert_eq!(
            database.last_shutdown(),
            LastShutdown::Clean,
            "there is no file"
        );
        database.prepare().unwrap();
        assert_eq!(
            database.last_shutdown(),
            LastShutdown::Clean,
            "it was closed"
        );
        // A process that dies in its very first transaction has written nothing.
        let open = database.open_writer().unwrap();
        open.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(fs::metadata(database.log_path()).unwrap().len(), 0);
        assert_eq!(database.last_shutdown(), LastShutdown::Unclean);
    }
}
