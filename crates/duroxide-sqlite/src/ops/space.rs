//! Gives pages that nothing uses back to the file system, a few at a time. A file that was made without incremental
//! vacuum keeps them until it is written anew.

use duroxide_core::provider::GivenBack;

use crate::error::Result;
use crate::tx::{Tx, unsigned};

/// Free pages that stay: the next commits use them, and taking them from the file system again would cost more.
const KEPT_PAGES: u64 = 256;
/// `PRAGMA auto_vacuum` of a file that gives pages back when it is asked to.
const INCREMENTAL: u64 = 2;

/// One step: at most 128 pages, half a megabyte, which takes a few milliseconds.
pub(crate) fn give_back(tx: &Tx<'_>) -> Result<GivenBack> {
    let page_bytes = tx.one("PRAGMA page_size", [], |row| unsigned(row, 0))?;
    let mode = tx.one("PRAGMA auto_vacuum", [], |row| unsigned(row, 0))?;
    let before = free_pages(tx)?;
    if mode != INCREMENTAL || before <= KEPT_PAGES {
        return Ok(GivenBack {
            bytes: 0,
            free_bytes: before * page_bytes,
            is_done: true,
            in_steps: mode == INCREMENTAL,
        });
    }
    // A row for each page: without reading them all only one would go.
    tx.walk("PRAGMA incremental_vacuum(128)", [], |_| Ok(true))?;
    let after = free_pages(tx)?;
    Ok(GivenBack {
        bytes: before.saturating_sub(after) * page_bytes,
        free_bytes: after * page_bytes,
        is_done: after <= KEPT_PAGES || after >= before,
        in_steps: true,
    })
}

fn free_pages(tx: &Tx<'_>) -> Result<u64> {
    tx.one("PRAGMA freelist_count", [], |row| unsigned(row, 0))
}
