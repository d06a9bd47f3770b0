//! Notices commits of other processes. In: the log, and a connection. Out: whether somebody else has committed.
//!
//! While this process works it looks every 50 ms; once it has been at rest for a while it lets the system tell.

mod log_watcher;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::connection::statements::{Prepared, Statements};
use crate::other_processes::log_watcher::{Lookout, Post};

/// How soon a commit of another process is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing must have happened before the system is asked to tell.
const AT_REST: Duration = Duration::from_secs(1);

/// Notices commits of other connections: `data_version` changes for those, and for those only.
pub(crate) struct ForeignCommits {
    /// `None` for a database in memory, which nobody shares.
    log: Option<PathBuf>,
    lookout: Lookout,
    /// A look was made after the lookout began: nothing fell between the two.
    looked_since_manned: bool,
    last_look: Option<Instant>,
    /// When anybody, this process included, last committed something.
    last_commit: Instant,
    data_version: Option<i64>,
    /// The log at the last look, and at the last one that could ask SQLite about it.
    log_looked_at: Option<(u64, SystemTime)>,
    log_seen: Option<(u64, SystemTime)>,
}

impl ForeignCommits {
    pub(crate) fn new(log: Option<PathBuf>) -> Self {
        Self {
            log,
            lookout: Lookout::new(),
            looked_since_manned: false,
            last_look: None,
            last_commit: Instant::now(),
            data_version: None,
            log_looked_at: None,
            log_seen: None,
        }
    }

    /// This process committed something.
    pub(crate) fn note_own_commit(&mut self) {
        self.last_commit = Instant::now();
    }

    /// How long until the next look is due; `None` while none is needed.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.log.as_ref()?;
        (!self.is_told()).then_some(LOOK)
    }

    /// Whether somebody else has committed since the last look; looks only when it is time to. `tell` wakes whoever
    /// calls this.
    pub(crate) fn have_happened(
        &mut self,
        statements: &Statements<'_>,
        tell: impl Fn() + Send + 'static,
    ) -> bool {
        let Some(log) = self.log.clone() else {
            return false;
        };
        if !self.is_time_to_look() {
            return false;
        }
        self.looked_since_manned = self.lookout.post() == Post::Manned;
        let happened = self.log_moved(&log) && self.version_moved(statements);
        if happened {
            self.last_commit = Instant::now();
        } else if self.last_commit.elapsed() > AT_REST {
            self.lookout.order(log, tell);
        }
        happened
    }

    fn is_told(&self) -> bool {
        self.lookout.post() == Post::Manned && self.looked_since_manned
    }

    fn is_time_to_look(&mut self) -> bool {
        let now = Instant::now();
        let is_first_of_watch = self.lookout.post() == Post::Manned && !self.looked_since_manned;
        let due = is_first_of_watch
            || !self.is_told()
                && self
                    .last_look
                    .is_none_or(|last| now.duration_since(last) >= LOOK);
        if due {
            self.last_look = Some(now);
        }
        due
    }

    /// Whether the log changed since the last look: asking the file system is many times cheaper than asking SQLite.
    fn log_moved(&mut self, log: &Path) -> bool {
        // A change this young may be followed by another one with the same time stamp.
        const YOUNG: Duration = Duration::from_millis(100);
        let now = std::fs::metadata(log)
            .and_then(|m| Ok((m.len(), m.modified()?)))
            .ok();
        let young = now.is_some_and(|(_, at)| at.elapsed().is_ok_and(|age| age < YOUNG));
        let moved = young || now.is_none() || now != self.log_seen;
        self.log_looked_at = now;
        moved
    }

    fn version_moved(&mut self, statements: &Statements<'_>) -> bool {
        let statements: &dyn Prepared = statements;
        let version = statements.with("PRAGMA data_version", |statement| {
            statement.query_row([], |row| row.get(0))
        });
        match version {
            Ok(version) => {
                self.log_seen = self.log_looked_at;
                // The first look has nothing to compare with, and somebody may have tried just before it.
                let known = self.data_version.replace(version);
                known.is_none_or(|known| known != version)
            }
            // A database that cannot be read now is reported to the next request; waking nobody is right until then. The
            // log counts as not seen: the next look asks again.
            Err(error) => {
                tracing::debug!(%error, "could not look for commits of other processes");
                false
            }
        }
    }
}
