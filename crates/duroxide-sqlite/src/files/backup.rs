//! A copy of a store while programs use it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::OpenFlags;

use super::connect;
use super::new_file::NewFile;
use crate::error::{Result, SqliteError};

/// How often the copy reports its progress.
const TELL: Duration = Duration::from_millis(200);

/// Writes a copy of a store file, as of one moment, while programs go on using it. Blocks.
///
/// The copy holds every commit that was acknowledged before the call, and is compact: free pages are left out. It appears under
/// its name when it is whole and on disk, readable by its owner alone; before that it is a draft beside it, which is removed if
/// the copy fails. `progress` gets the bytes written so far and about how many there will be, and may end the copy with
/// `ControlFlow::Break`. Writers are not held up; the write-ahead log grows meanwhile.
///
/// A file of an older or newer build is copied too: it is what an upgrade needs first.
///
/// # Errors
///
/// If the file is not a store, the target exists, `progress` ended the copy, or the disk fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (from, to) = (folder.path().join("app.db"), folder.path().join("copy.db"));
/// let store = duroxide_sqlite::SqliteProvider::new(&format!("sqlite:{}", from.display()), None).await?;
/// use std::ops::ControlFlow;
/// let copy = move || duroxide_sqlite::backup(&from, &to, |_, _| ControlFlow::Continue(()));
/// tokio::task::spawn_blocking(copy).await??;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
pub fn backup(
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    let new = NewFile::at(to)?;
    let conn = connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    let total = u64::try_from(pages * number("page_size")?).unwrap_or(0);
    if free_space(new.draft()).is_some_and(|free| free < total) {
        return Err(SqliteError::DiskFull);
    }
    let target = new
        .draft()
        .to_str()
        .ok_or_else(|| SqliteError::CannotOpen {
            path: to.to_owned(),
            why: "the path is not valid UTF-8".to_owned(),
        })?;
    if progress(0, total).is_break() {
        return Err(SqliteError::Stopped);
    }
    let stop = conn.get_interrupt_handle();
    let mut was_stopped = false;
    let (done, is_done) = mpsc::channel();
    let copied = std::thread::scope(|scope| {
        // Reads in one snapshot, so that a busy writer cannot make it begin again.
        let copy = scope.spawn(move || {
            let copied = conn.execute("VACUUM INTO ?1", [target]);
            let _ = done.send(());
            copied
        });
        while let Err(mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(TELL) {
            if was_stopped || progress(size(new.draft()).min(total), total).is_break() {
                // Again at each look: a statement that has not begun yet is not interrupted.
                stop.interrupt();
                was_stopped = true;
            }
        }
        copy.join()
    });
    let copied = copied.map_err(|_| SqliteError::Panicked {
        detail: "the thread that copies".to_owned(),
    })?;
    if was_stopped {
        return Err(SqliteError::Stopped);
    }
    copied?;
    let bytes = size(new.draft());
    new.finish()?;
    let _ = progress(bytes, bytes);
    Ok(bytes)
}

/// How much room there is where the path leads, if the system tells.
#[cfg(target_os = "linux")]
fn free_space(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    system.f_bavail.checked_mul(system.f_frsize)
}

#[cfg(not(target_os = "linux"))]
fn free_space(_: &Path) -> Option<u64> {
    None
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}
