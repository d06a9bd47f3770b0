//! Where the writer gets its connection. In: a database. Out: a connection to it, and again one after the disk failed.
//! Never one to another file that took its name.

use std::path::PathBuf;

use rusqlite::Connection;

use crate::connection::Database;
use crate::connection::statements::Statements;
use crate::error::{Result, SqliteError};
use crate::tables;

/// The connection made at the start, then others to the same file.
pub(crate) struct Source {
    /// The connection made at the start, until it is used.
    first: Option<Connection>,
    /// `None` for a database in memory.
    file: Option<Database>,
}

impl Source {
    pub(crate) fn memory(conn: Connection) -> Self {
        Self {
            first: Some(conn),
            file: None,
        }
    }

    pub(crate) fn file(database: Database) -> Result<Self> {
        let conn = database.open_writer()?;
        let identity = database.identity()?;
        // Set once, here.
        let _ = database.opened.set(identity);
        Ok(Self {
            first: Some(conn),
            file: Some(database),
        })
    }

    /// The first connection, or a new one to the same file.
    pub(super) fn connect(&mut self) -> Result<Connection> {
        if let Some(conn) = self.first.take() {
            return Ok(conn);
        }
        self.check()?;
        match &self.file {
            Some(database) => database.open_writer(),
            None => Err(SqliteError::Closed),
        }
    }

    /// The latest time that was stored.
    pub(crate) fn latest_time(&self) -> Result<Option<i64>> {
        match &self.first {
            Some(conn) => {
                let statements = Statements::new(conn);
                match tables::latest_time(&statements) {
                    Err(SqliteError::Damaged { .. }) => {
                        tables::latest_time_but_of_queues(&statements)
                    }
                    latest => latest,
                }
            }
            None => Ok(None),
        }
    }

    /// Takes a connection back that no other can replace: a database in memory lives in its only one.
    pub(super) fn keep_private(&mut self, conn: Connection) {
        if self.file.is_none() {
            self.first = Some(conn);
        }
    }

    /// Whether the path still names the file that was opened. One stat per group is the price of knowing.
    pub(super) fn check(&self) -> Result<()> {
        match &self.file {
            Some(database) => database.check_identity(),
            None => Ok(()),
        }
    }

    /// The write-ahead log, which every commit of any process touches.
    pub(super) fn log(&self) -> Option<PathBuf> {
        self.database().map(Database::log_path)
    }

    pub(super) fn database(&self) -> Option<&Database> {
        self.file.as_ref()
    }

    pub(super) fn is_shared(&self) -> bool {
        self.file.is_some()
    }
}
