//! How long the write-ahead log may grow. In: who checkpoints, and from which length on. Out: limits in pages, and the
//! pragmas of a connection that writes.

use rusqlite::Connection;

use super::linked_sqlite::Checkpoints;
use crate::error::Result;

/// 4,000 pages are 16 MB: few enough to be replayed quickly after a crash, many enough that a page written by a
/// hundred commits is copied into the database once.
const BEGIN_AT: usize = 4_000;
/// From four times that on the log is made to begin anew.
const TOO_LONG: usize = 4;
/// What the writer copies itself at most, as a part of the length at which checkpoints begin: some milliseconds of
/// work.
const REMAINDER_DIVISOR: usize = 2;

/// What the log adds to each page.
const FRAME_HEADER_BYTES: i64 = 24;

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
        let pages = i64::try_from(self.kept()).unwrap_or(i64::MAX);
        let bytes = pages.saturating_mul(page_size + FRAME_HEADER_BYTES);
        conn.pragma_update_and_check(None, "journal_size_limit", bytes, |_| Ok(()))?;
        Ok(())
    }

    /// How many pages the file of the log keeps when the log begins anew. Commits go on while the thread catches up, so
    /// a log that begins anew in time is a little longer than `too_long`: cutting that off each time would cost
    /// milliseconds, and the next commits would have to ask for the space again.
    fn kept(self) -> usize {
        self.too_long().saturating_add(self.begin_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_log_that_begins_anew_in_time_keeps_its_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = Connection::open(folder.path().join("log.db")).expect("a database");
        conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
            .expect("a log");
        let policy = LogPolicy::new(Checkpoints::Beside, Some(8));
        policy.apply(&conn).expect("the pragmas");
        conn.execute_batch("CREATE TABLE t (data BLOB)")
            .expect("a table");
        let log = folder.path().join("log.db-wal");
        let length = || std::fs::metadata(&log).expect("the log").len();
        let fill = |pages: usize| {
            for _ in 0..pages {
                conn.execute("INSERT INTO t VALUES (zeroblob(100))", [])
                    .expect("a commit");
            }
        };
        let begin_anew = || {
            conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
                .expect("a checkpoint");
            fill(1);
        };

        fill(policy.too_long() + 2);
        let before = length();
        begin_anew();
        assert_eq!(length(), before, "the file was cut");

        fill(10 * policy.too_long());
        begin_anew();
        assert!(length() <= 2 * before, "a far too long file was kept");
    }
}
