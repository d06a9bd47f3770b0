//! The page cache of the writer. In: how long the log is. Out: a small cache as a rule, a large one while the log is
//! long.
//!
//! Small, because whenever a tree was rebalanced the commit looks at every cached page, and pages that are not cached
//! here are in the memory of the operating system. Large, because a page that is not cached is looked for in the log
//! first, in one table for every 4,096 pages of it: while a connection reads for minutes, as a backup does, the log
//! grows to gigabytes, and looking costs a commit more than writing.

use rusqlite::Connection;

use crate::error::Result;

/// In KiB.
const SMALL: i64 = 2_000;
const LARGE: i64 = 64_000;
/// From how many pages on the log is long.
const LONG: usize = 64 * 1_024;

/// Gives a connection that was just opened its cache.
pub(crate) fn begin(conn: &Connection) -> Result<()> {
    Ok(conn.pragma_update(None, "cache_size", -SMALL)?)
}

/// Sets the cache for a log of this many pages. It becomes small again once the log has begun anew. The connection
/// itself says what it has: the writer may have opened it a moment ago, while the log is long.
pub(crate) fn fit(conn: &Connection, log_pages: usize) -> Result<()> {
    let size: i64 = conn.pragma_query_value(None, "cache_size", |row| row.get(0))?;
    let is_large = size == -LARGE;
    if !is_large && log_pages >= LONG {
        conn.pragma_update(None, "cache_size", -LARGE)?;
    }
    if is_large && log_pages < LONG / 2 {
        conn.pragma_update(None, "cache_size", -SMALL)?;
        conn.execute_batch("PRAGMA shrink_memory")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(conn: &Connection) -> i64 {
        let read = conn.pragma_query_value(None, "cache_size", |row| row.get(0));
        read.unwrap()
    }

    #[test]
    fn the_cache_is_large_while_the_log_is_long() {
        let conn = Connection::open_in_memory().unwrap();
        begin(&conn).unwrap();
        for (log_pages, expected) in [
            (100, SMALL),
            (LONG, LARGE),
            (LONG * 20, LARGE),
            (LONG / 2, LARGE),
            (16_000, SMALL),
            (LONG - 1, SMALL),
        ] {
            fit(&conn, log_pages).unwrap();
            assert_eq!(size(&conn), -expected, "{log_pages} pages");
        }
    }

    #[test]
    fn the_cache_of_a_connection_that_is_opened_again_is_large_too_while_the_log_is_long() {
        for _ in 0..2 {
            let conn = Connection::open_in_memory().unwrap();
            begin(&conn).unwrap();
            fit(&conn, LONG).unwrap();
            assert_eq!(size(&conn), -LARGE);
        }
    }
}
