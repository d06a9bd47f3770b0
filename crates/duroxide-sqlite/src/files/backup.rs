//! A copy of a store while programs use it. Pages are copied as they are, as of one moment: that costs a small part of
//! what writing the rows anew would cost. The copy works for a part of the time only, and what it has written goes to
//! the disk in small portions, so that neither the processor nor the disk keeps the programs waiting for long.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::new_file::NewFile;
use super::pace::{BackupPace, Pacer};
use super::{cannot_open, connect};
use crate::connection::database;
use crate::error::{Result, SqliteError};

/// How often the copy reports its progress.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// How many pages are copied between two looks at the clock.
const STEP_PAGES: i32 = 64;
/// How much may wait to be written to the disk: a commit of a program may have to wait for all of it.
const PORTION_BYTES: u64 = 1 << 20;

/// Writes a copy of a store file, as of one moment, while programs go on using it. Blocks.
///
/// The copy holds every commit that was acknowledged before the call. It appears under its name when it is whole and on
/// disk, readable by its owner alone; before that it is a draft beside it, which is removed if the copy fails.
/// `progress` gets the bytes written so far and how many there will be, and may end the copy with `ControlFlow::Break`.
/// Writers are not held up; the write-ahead log grows meanwhile. Beside programs that write, the copy pauses for most
/// of the time: [`backup_at`] takes another pace.
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
    progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    backup_at(from, to, BackupPace::default(), progress)
}

/// Writes a copy as [`backup`] does, at this pace. Blocks.
///
/// # Errors
///
/// As [`backup`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (from, to) = (folder.path().join("app.db"), folder.path().join("copy.db"));
/// # drop(duroxide_sqlite::SqliteProvider::new(&format!("sqlite:{}", from.display()), None).await?);
/// use duroxide_sqlite::BackupPace;
/// use std::ops::ControlFlow;
/// let copy = move || duroxide_sqlite::backup_at(&from, &to, BackupPace::Fast, |_, _| ControlFlow::Continue(()));
/// tokio::task::spawn_blocking(copy).await??;
/// # Ok(())
/// # }
/// ```
pub fn backup_at(
    from: &Path,
    to: &Path,
    pace: BackupPace,
    mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    let new = NewFile::at(to)?;
    let source = connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // One snapshot for the whole copy: without it every commit of another process would make the copy begin again.
    source.execute_batch("BEGIN")?;
    let number = |pragma: &str| source.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let page_bytes = u64::try_from(number("page_size")?).unwrap_or(0);
    let total = page_bytes * u64::try_from(number("page_count")?).unwrap_or(0);
    if free_space(new.draft()).is_some_and(|free| free < total) {
        return Err(SqliteError::DiskFull);
    }
    if progress(0, total).is_break() {
        return Err(SqliteError::Stopped);
    }
    let disk = Disk::of(new.draft(), total).map_err(|error| cannot_open(to, &error))?;
    let mut target = Connection::open(new.draft())?;
    // No process reads the draft before it is whole, and the disk is synced here.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    let copying = Copying {
        copy: Backup::new(&source, &mut target)?,
        page_bytes,
        total,
    };
    copying.run(
        &disk,
        Pacer::new(pace, &database::located(from)),
        &mut progress,
    )?;
    drop(target);
    drop(disk);
    let bytes = size(new.draft());
    new.finish()?;
    let _ = progress(bytes, bytes);
    Ok(bytes)
}

struct Copying<'c> {
    copy: Backup<'c, 'c>,
    page_bytes: u64,
    total: u64,
}

impl Copying<'_> {
    fn run(
        self,
        disk: &Disk,
        mut pacer: Pacer,
        progress: &mut impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut reported, mut synced) = (Instant::now(), 0);
        loop {
            let step = self.copy.step(STEP_PAGES)?;
            if step == StepResult::Done {
                return Ok(());
            }
            let written = self.written();
            if written - synced >= PORTION_BYTES {
                disk.sync()?;
                synced = written;
            }
            if reported.elapsed() >= REPORT_EVERY {
                if progress(written, self.total).is_break() {
                    return Err(SqliteError::Stopped);
                }
                reported = Instant::now();
            }
            pacer.pause(written);
        }
    }

    fn written(&self) -> u64 {
        let pages = self.copy.progress();
        let done = pages.pagecount.saturating_sub(pages.remaining);
        u64::try_from(done).unwrap_or(0) * self.page_bytes
    }
}

/// The draft as the disk sees it. Open as long as SQLite has it open: closing it would drop SQLite's locks.
struct Disk(File);

impl Disk {
    /// Reserves the room: while blocks are being found for a growing file, the syncs of other files wait for it.
    fn of(draft: &Path, total: u64) -> std::io::Result<Self> {
        let file = File::options().write(true).open(draft)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            // A file system that cannot is only slower.
            let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, total.max(1));
        }
        Ok(Self(file))
    }

    fn sync(&self) -> Result<()> {
        self.0.sync_data().map_err(|error| SqliteError::Io {
            detail: error.to_string(),
        })
    }
}

/// How much room there is where the path leads, if the system shows it.
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
