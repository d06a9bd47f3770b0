//! A copy of a store while programs use it.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::OpenFlags;

use super::{NewFile, connect};
use crate::error::{Result, SqliteError};

/// How often the progress is told.
const TELL: Duration = Duration::from_millis(200);

/// Writes a copy of a store file, as of one moment, while programs go on using it. Blocks.
///
/// The copy holds every commit that was acknowledged before the call, and is compact: free pages are left out. It appears under
/// its name when it is whole and on disk. `progress` is told the bytes written so far and about how many there will be.
/// Writers are not held up; the write-ahead log grows meanwhile.
///
/// # Errors
///
/// If the file is not a store of this build, the target exists, or the disk fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (from, to) = (folder.path().join("app.db"), folder.path().join("copy.db"));
/// let store = duroxide_sqlite::SqliteProvider::new(&format!("sqlite:{}", from.display()), None).await?;
/// tokio::task::spawn_blocking(move || duroxide_sqlite::backup(&from, &to, |_, _| {})).await??;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
pub fn backup(from: &Path, to: &Path, mut progress: impl FnMut(u64, u64)) -> Result<u64> {
    let new = NewFile::at(to)?;
    let conn = connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    let total = u64::try_from(pages * number("page_size")?).unwrap_or(0);
    let target = new
        .partial
        .to_str()
        .ok_or_else(|| SqliteError::CannotOpen {
            path: to.to_owned(),
            why: "the path is not valid UTF-8".to_owned(),
        })?;
    let (done, is_done) = mpsc::channel();
    let copied = std::thread::scope(|scope| {
        // Reads in one snapshot, so that a busy writer cannot make it begin again.
        let copy = scope.spawn(move || {
            let copied = conn.execute("VACUUM INTO ?1", [target]);
            let _ = done.send(());
            copied
        });
        while let Err(mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(TELL) {
            let written = std::fs::metadata(&new.partial).map_or(0, |file| file.len());
            progress(written.min(total), total);
        }
        copy.join()
    });
    copied.map_err(|_| SqliteError::Panicked {
        detail: "the thread that copies".to_owned(),
    })??;
    let bytes = std::fs::metadata(&new.partial).map_or(0, |file| file.len());
    new.finish()?;
    progress(bytes, bytes);
    Ok(bytes)
}
