//! Giving back the space that a file does not use.

use std::path::Path;

use rusqlite::OpenFlags;

use super::open;
use crate::connection::exclusive::FileUse;
use crate::connection::{database, migrate};
use crate::error::Result;
use crate::options::OtherPrograms;

/// What a vacuum gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacuumed {
    /// The size of the file before, in bytes.
    pub bytes_before: u64,
    /// Its size after, in bytes.
    pub bytes_after: u64,
}

/// Writes the file anew without the pages it does not use. Blocks.
///
/// With [`OtherPrograms::Disturb`], commits of programs that use the file fail after a few seconds and are tried again,
/// and leases that cannot be renewed meanwhile run out: activities that run may run again.
///
/// # Errors
///
/// If the file is not a store of this build, another program has it open and must not be disturbed or cannot share it,
/// there is no room for a second copy, or the disk fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide_sqlite::{OtherPrograms, SqliteError, SqliteProvider, vacuum};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// let store = SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?;
/// let refused = vacuum(&path, OtherPrograms::Refuse);
/// assert!(matches!(refused, Err(SqliteError::Held { .. })));
/// store.close().await;
/// vacuum(&path, OtherPrograms::Refuse)?;
/// # Ok(())
/// # }
/// ```
pub fn vacuum(path: &Path, others: OtherPrograms) -> Result<Vacuumed> {
    let path = &database::located(path);
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    migrate::check(&conn, path)?;
    // Before the first checkpoint: a program with an old SQLite may lose commits beside one.
    let _held = FileUse::for_files(path, others)?;
    let size = || std::fs::metadata(path).map_or(0, |file| file.len());
    let checkpoint = || conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint()?;
    let bytes_before = size();
    // From here on it gives space back in steps.
    database::give_back_in_steps(&conn)?;
    conn.execute_batch("VACUUM")?;
    checkpoint()?;
    Ok(Vacuumed {
        bytes_before,
        bytes_after: size(),
    })
}
