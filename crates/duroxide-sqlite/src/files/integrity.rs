//! Whether a file is whole.

use std::path::Path;

use rusqlite::OpenFlags;

use super::connect;
use crate::error::Result;

/// Reads the whole file and says what is wrong with it; nothing if it is whole. Blocks.
///
/// # Errors
///
/// If the file is not a store, or the disk fails.
pub fn check_integrity(path: &Path) -> Result<Vec<String>> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut check = conn.prepare("PRAGMA integrity_check")?;
    let found = check.query_map([], |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}
