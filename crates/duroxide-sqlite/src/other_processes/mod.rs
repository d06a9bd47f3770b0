//! Commits of other processes. In: the log, and the writer's connection. Out: whether another connection has committed.
//!
//! While this process works, the writer compares the file's change counter every 50 ms. Once it has been idle for a
//! while, it asks the operating system to notify it of writes to the log instead (`log_watcher.rs`).

#[cfg(target_os = "linux")]
mod inotify;
mod log_watcher;
mod watch_state;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use self::log_watcher::LogWatcher;
use self::watch_state::Watching;
use crate::connection::statements::{Prepared, Statements};

/// How soon a commit of another process is noticed.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// How long this process must have been idle before the system is asked to notify it.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Notices commits of other connections: `data_version` changes for those, and for those only.
pub(crate) struct ForeignCommits {
    /// `None` for a database in memory, which has no other connection.
    log: Option<PathBuf>,
    watcher: LogWatcher,
    /// Whether a check was made after the watcher became active: no commit falls between the two.
    checked_since_active: bool,
    last_check: Option<Instant>,
    /// When any process, this one included, last committed something.
    last_commit: Instant,
    data_version: Option<i64>,
    /// The log at the last check, and at the last one that could ask SQLite about it.
    log_checked: Option<(u64, SystemTime)>,
    log_seen: Option<(u64, SystemTime)>,
}

impl ForeignCommits {
    pub(crate) fn new(log: Option<PathBuf>) -> Self {
        Self {
            log,
            watcher: LogWatcher::new(),
            checked_since_active: false,
            last_check: None,
            last_commit: Instant::now(),
            data_version: None,
            log_checked: None,
            log_seen: None,
        }
    }

    /// This process committed something.
    pub(crate) fn note_own_commit(&mut self) {
        self.last_commit = Instant::now();
    }

    /// How long until the next check; `None` while none is needed.
    pub(crate) fn next_check(&self) -> Option<Duration> {
        self.log.as_ref()?;
        (!self.is_notified()).then_some(CHECK_EVERY)
    }

    /// Whether another connection has committed since the last check. Checks only when one is due. `notify` wakes the
    /// thread that calls this.
    pub(crate) fn check(
        &mut self,
        statements: &Statements<'_>,
        notify: impl Fn() + Send + 'static,
    ) -> bool {
        let Some(log) = self.log.clone() else {
            return false;
        };
        if !self.is_due() {
            return false;
        }
        self.checked_since_active = self.watcher.watching() == Watching::Active;
        let happened = self.log_moved(&log) && self.version_moved(statements);
        if happened {
            self.last_commit = Instant::now();
        } else if self.last_commit.elapsed() > IDLE_AFTER {
            self.watcher.request(log, notify);
        }
        happened
    }

    /// Whether the system notifies this process of every commit.
    fn is_notified(&self) -> bool {
        self.watcher.watching() == Watching::Active && self.checked_since_active
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_first_since_active =
            self.watcher.watching() == Watching::Active && !self.checked_since_active;
        let due = is_first_since_active
            || !self.is_notified()
                && self
                    .last_check
                    .is_none_or(|last| now.duration_since(last) >= CHECK_EVERY);
        if due {
            self.last_check = Some(now);
        }
        due
    }

    /// Whether the log changed since the last check: asking the file system is many times cheaper than asking SQLite.
    fn log_moved(&mut self, log: &Path) -> bool {
        // A change this young may be followed by another one with the same time stamp.
        const YOUNG: Duration = Duration::from_millis(100);
        let now = std::fs::metadata(log)
            .and_then(|m| Ok((m.len(), m.modified()?)))
            .ok();
        let young = now.is_some_and(|(_, at)| at.elapsed().is_ok_and(|age| age < YOUNG));
        let moved = young || now.is_none() || now != self.log_seen;
        self.log_checked = now;
        moved
    }

    fn version_moved(&mut self, statements: &Statements<'_>) -> bool {
        let statements: &dyn Prepared = statements;
        let version = statements.with("PRAGMA data_version", |statement| {
            statement.query_row([], |row| row.get(0))
        });
        match version {
            Ok(version) => {
                self.log_seen = self.log_checked;
                // The first check has nothing to compare with, and a commit may have come just before it.
                let known = self.data_version.replace(version);
                known.is_none_or(|known| known != version)
            }
            // The next request gets the error of a database that cannot be read. The log counts as not seen, so that
            // the next check asks SQLite again.
            Err(error) => {
                tracing::debug!(%error, "could not look for commits of other processes");
                false
            }
        }
    }
}
