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

/// What the cache of a connection is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PageCache {
    #[default]
    Small,
    Large,
}

impl PageCache {
    /// The cache of a connection that was just opened.
    pub(crate) fn begin(conn: &Connection) -> Result<()> {
        Ok(conn.pragma_update(None, "cache_size", -SMALL)?)
    }

    /// Sets the cache for a log of this many pages. It becomes small again once the log has begun anew.
    pub(crate) fn fit(&mut self, conn: &Connection, log_pages: usize) -> Result<()> {
        match self {
            Self::Small if log_pages >= LONG => {
                conn.pragma_update(None, "cache_size", -LARGE)?;
                *self = Self::Large;
            }
            Self::Large if log_pages < LONG / 2 => {
                conn.pragma_update(None, "cache_size", -SMALL)?;
                conn.execute_batch("PRAGMA shrink_memory")?;
                *self = Self::Small;
            }
            Self::Small | Self::Large => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_large_while_the_log_is_long() {
        let conn = Connection::open_in_memory().unwrap();
        let size = || -> i64 {
            let read = conn.pragma_query_value(None, "cache_size", |row| row.get(0));
            read.unwrap()
        };
        PageCache::begin(&conn).unwrap();
        let mut cache = PageCache::default();
        for (log_pages, expected) in [
            (100, SMALL),
            (LONG, LARGE),
            (LONG * 20, LARGE),
            (LONG / 2, LARGE),
            (16_000, SMALL),
            (LONG - 1, SMALL),
        ] {
            cache.fit(&conn, log_pages).unwrap();
            assert_eq!(size(), -expected, "{log_pages} pages");
        }
    }
}
