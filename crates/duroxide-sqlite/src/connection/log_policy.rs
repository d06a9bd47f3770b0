//! How long the write-ahead log may grow. In: who checkpoints, and from which length on. Out: limits in pages, and the
//! pragmas of a connection that writes.

use rusqlite::Connection;

use super::driver::Checkpoints;
use crate::error::Result;

/// 4,000 pages are 16 MB: few enough to be replayed quickly after a crash, many enough that a page written by a
/// hundred commits is copied into the database once.
const BEGIN_AT: usize = 4_000;
/// From four times that on the log is made to begin anew.
const TOO_LONG: usize = 4;
/// What the writer copies itself at most, as a part of the length at which checkpoints begin: some milliseconds of
/// work.
const REMAINDER_DIVISOR: usize = 2;

/// Settings of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPolicy {
    pub(crate) by: Checkpoints,
    /// Pages that are left to copy at which checkpoints begin.
    pub(crate) begin_at: usize,
}

impl LogPolicy {
    pub(crate) fn new(by: Checkpoints, begin_at: Option<usize>) -> Self {
        Self {
            by,
            begin_at: begin_at.unwrap_or(BEGIN_AT),
        }
    }

    /// The length at which the log has to begin anew.
    pub(crate) fn too_long(self) -> usize {
        self.begin_at.saturating_mul(TOO_LONG)
    }

    /// How many pages the writer copies itself at most.
    pub(crate) fn remainder(self) -> usize {
        (self.begin_at / REMAINDER_DIVISOR).max(1)
    }

    /// Sets up a connection that writes: whether SQLite checkpoints at its commits, and how long a file the log keeps
    /// when it begins anew.
    pub(crate) fn apply(self, conn: &Connection) -> Result<()> {
        let pages = match self.by {
            Checkpoints::Beside => 0,
            Checkpoints::WriterAlone => self.begin_at,
        };
        let pages = i64::try_from(pages).unwrap_or(i64::MAX);
        conn.pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()))?;
        let page_size: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(self.too_long()).unwrap_or(i64::MAX);
        let bytes = pages.saturating_mul(page_size);
        conn.pragma_update_and_check(None, "journal_size_limit", bytes, |_| Ok(()))?;
        Ok(())
    }
}
