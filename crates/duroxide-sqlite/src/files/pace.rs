//! How fast a copy works. In: how long it has worked, how much it has copied, whether programs write to the store. Out:
//! how long to pause. A store that no program writes to is copied without a pause; beside one that is written to, the
//! copy works for a tenth of the time, unless it would take longer than it may.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long a gentle copy works before it looks whether it should pause.
const WORK: Duration = Duration::from_millis(2);
/// How long it pauses beside programs that write, as a multiple of the time it has worked.
const PAUSE_PER_WORK: u32 = 9;
/// A gentle copy takes a second for so many bytes, and one more; if it is late, it pauses less. As long as it takes,
/// the write-ahead log only grows.
const BYTES_PER_SECOND_MIN: u64 = 8 << 20;
const LEAD: Duration = Duration::from_secs(1);

/// How fast a store is copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackupPace {
    /// Works for a tenth of the time while programs write to the store, so that they are slowed down little; without a
    /// pause while none does. If it takes longer than a second for 8 MiB, it works for half of the time.
    #[default]
    Gentle,
    /// As fast as it can: for a file that no program uses, or that changes so fast that its write-ahead log must not
    /// grow for long.
    Fast,
}

/// Says when to pause.
pub(super) struct Pacer {
    pace: BackupPace,
    log: PathBuf,
    /// The log as it was seen last.
    seen: Option<(u64, Option<SystemTime>)>,
    began: Instant,
    since: Instant,
}

impl Pacer {
    pub(super) fn new(pace: BackupPace, store: &Path) -> Self {
        let mut log = store.as_os_str().to_owned();
        log.push("-wal");
        let mut pacer = Self {
            pace,
            log: log.into(),
            seen: None,
            began: Instant::now(),
            since: Instant::now(),
        };
        pacer.log_has_changed();
        pacer
    }

    /// Call between two portions of work, with the bytes that are copied.
    pub(super) fn pause(&mut self, copied: u64) {
        let worked = self.since.elapsed();
        if self.pace == BackupPace::Fast || worked < WORK {
            return;
        }
        let is_written_to = self.log_has_changed();
        let pause = pause_after(worked, is_written_to, copied, self.began.elapsed());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        self.since = Instant::now();
    }

    /// Whether a program has written to the store since the last look. As long as the copy reads, the log grows with
    /// every commit.
    fn log_has_changed(&mut self) -> bool {
        let log = std::fs::metadata(&self.log);
        let seen = log.ok().map(|log| (log.len(), log.modified().ok()));
        let has_changed = seen != self.seen;
        self.seen = seen;
        has_changed
    }
}

/// How long to pause after having worked for so long. A copy that is late still pauses for as long as it works.
fn pause_after(worked: Duration, is_written_to: bool, copied: u64, since: Duration) -> Duration {
    if !is_written_to {
        return Duration::ZERO;
    }
    let seconds = copied as f64 / BYTES_PER_SECOND_MIN as f64;
    let left = (LEAD + Duration::from_secs_f64(seconds)).saturating_sub(since);
    (worked * PAUSE_PER_WORK).min(left.max(worked))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_copy_pauses_only_beside_programs_that_write() {
        assert_eq!(pause_after(2 * MS, false, 1 << 20, SECOND), Duration::ZERO);
        assert_eq!(pause_after(2 * MS, true, 64 << 20, SECOND), 18 * MS);
    }

    #[test]
    fn a_copy_that_would_take_too_long_pauses_less() {
        // 64 MiB may take eight seconds, and one more.
        assert_eq!(
            pause_after(20 * MS, true, 64 << 20, 9 * SECOND - 50 * MS),
            50 * MS
        );
        assert_eq!(pause_after(20 * MS, true, 64 << 20, 20 * SECOND), 20 * MS);
    }

    #[test]
    fn a_log_that_grows_or_was_written_anew_has_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("app.db");
        let log = folder.path().join("app.db-wal");
        let mut pacer = Pacer::new(BackupPace::Gentle, &store);
        assert!(!pacer.log_has_changed(), "there is none");
        std::fs::write(&log, "one").expect("a log");
        assert!(pacer.log_has_changed());
        assert!(!pacer.log_has_changed());
        let file = std::fs::File::options().write(true).open(&log);
        let file = file.expect("the log");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        assert!(pacer.log_has_changed(), "as long as before, and written");
        std::fs::remove_file(&log).expect("remove the log");
        assert!(pacer.log_has_changed());
    }
}
