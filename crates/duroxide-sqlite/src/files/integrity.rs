//! Whether a file is whole, and giving back the space it does not use.

use std::path::Path;

use rusqlite::OpenFlags;

use super::connect;
use crate::error::Result;

/// Reads the whole file and says what is wrong with it; nothing if it is whole. Blocks.
///
/// # Errors
///
/// If the file is not a store of this build, or the disk fails.
pub fn check_integrity(path: &Path) -> Result<Vec<String>> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut check = conn.prepare("PRAGMA integrity_check")?;
    let found = check.query_map([], |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// What a vacuum gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacuumed {
    /// The size of the file before, in bytes.
    pub bytes_before: u64,
    /// Its size after, in bytes.
    pub bytes_after: u64,
}

/// Writes the file anew without the pages it does not use. Blocks, and so do the commits of other programs meanwhile.
///
/// # Errors
///
/// If another program holds the file for several seconds, there is no room for a second copy, or the disk fails.
pub fn vacuum(path: &Path) -> Result<Vacuumed> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let size = || std::fs::metadata(path).map_or(0, |file| file.len());
    let checkpoint = || conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint()?;
    let bytes_before = size();
    conn.execute_batch("VACUUM")?;
    checkpoint()?;
    Ok(Vacuumed {
        bytes_before,
        bytes_after: size(),
    })
}
