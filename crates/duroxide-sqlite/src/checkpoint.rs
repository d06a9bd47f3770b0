//! Checkpoints: copies the write-ahead log into the database file. In: how long the log is after some commits. Out: a
//! log that stays short. A thread of its own does the work; commits do not wait for it.
//!
//! A log can begin anew only when nothing in it is left to copy, which under steady load never happens by itself. When
//! the log has become too long and only a small remainder of it is left, the writer copies that with the write lock
//! held, so that no connection, of this process or another, adds to it meanwhile.
//!
//! With a SQLite that cannot be checkpointed beside a writer, SQLite does it at commits of the writer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::connection::busy;
use crate::connection::database::Database;
use crate::connection::linked_sqlite::Checkpoints;
use crate::connection::log_policy::LogPolicy;
use crate::connection::page_cache;
use crate::error::Result;
use crate::kill;
use crate::requests::{Inbox, Took};

/// How many commits pass between two looks at a log that is not too long.
const LOOK_EVERY: u32 = 16;
/// How long the writer waits for others that write, checkpoint or read before it leaves the remainder for later.
const LOCK_WAIT: Duration = Duration::from_millis(10);
/// How long the writer leaves it alone after it has waited in vain, as a multiple of that: a connection that reads for
/// long, as a backup does, costs it a twentieth of its time.
const LEFT_ALONE: u32 = 20;
/// How long the thread pauses after a checkpoint that made no progress, because a connection reads the log.
const NO_PROGRESS_PAUSE: Duration = Duration::from_millis(20);

/// Where the log stands, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) length: usize,
    copied: usize,
    is_blocked: bool,
}

impl Log {
    /// What is not copied yet.
    pub(crate) fn left(self) -> usize {
        self.length.saturating_sub(self.copied)
    }
}

/// How an attempt to empty the log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptied {
    Completely,
    /// So many pages are left: connections read them, or write more, or they are still being copied.
    Not(usize),
}

/// Decides when to checkpoint. Belongs to the writer thread.
pub(crate) struct Checkpointer {
    /// `None` for a database in memory, which has no log.
    database: Option<Database>,
    /// How many commits pass until the next look.
    next_look: u32,
    /// Until when the writer does not try to copy the remainder, because a connection reads it.
    left_alone_until: Option<Instant>,
    thread: Option<CheckpointThread>,
    failures: Failures,
}

/// Counts failed checkpoints, logs some of them, and knows when one succeeded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    failures: AtomicU64,
    succeeded: Mutex<Option<Instant>>,
}

impl Failures {
    pub(crate) fn count(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    /// How long ago a checkpoint succeeded; `None` if none did.
    pub(crate) fn age(&self) -> Option<Duration> {
        let succeeded = *self.succeeded();
        succeeded.map(|at| at.elapsed())
    }

    fn note_success(&self) {
        *self.succeeded() = Some(Instant::now());
    }

    fn succeeded(&self) -> MutexGuard<'_, Option<Instant>> {
        let succeeded = self.0.succeeded.lock();
        succeeded.unwrap_or_else(PoisonError::into_inner)
    }

    fn note<T>(&self, who: &str, done: Result<T>) -> Option<T> {
        done.inspect_err(|error| {
            let failures = self.0.failures.fetch_add(1, Ordering::Relaxed) + 1;
            // The log only grows meanwhile: a warning now and then is enough.
            if failures.is_power_of_two() {
                tracing::warn!(target: "duroxide::providers::sqlite", %error, failures, "{who} could not checkpoint, and tries again");
            }
        })
        .ok()
    }
}

impl Checkpointer {
    pub(crate) fn new(database: Option<Database>, failures: Failures) -> Self {
        Self {
            database,
            next_look: 0,
            left_alone_until: None,
            thread: None,
            failures,
        }
    }

    /// Call after each commit. Fails if the connection must not be used again.
    pub(crate) fn after_commit(&mut self, conn: &Connection) -> Result<()> {
        if self.next_look > 0 {
            self.next_look -= 1;
            return Ok(());
        }
        self.next_look = LOOK_EVERY;
        let done = match self.policy() {
            None => Ok(()),
            Some(policy) => match policy.by {
                Checkpoints::Beside => self.keep_short(conn, policy),
                Checkpoints::WriterAlone => self.check_automatic(conn, policy),
            },
        };
        let spoilt = done
            .as_ref()
            .err()
            .filter(|error| error.spoils_connection());
        let spoilt = spoilt.cloned();
        self.failures.note("the writer", done);
        spoilt.map_or(Ok(()), Err)
    }

    /// SQLite checkpoints at commits, and reports no failure of that. A log that has become too long shows it, and a
    /// checkpoint on demand has the reason.
    fn check_automatic(&mut self, conn: &Connection, policy: LogPolicy) -> Result<()> {
        let length = self.database.as_ref().map_or(0, Database::log_pages);
        if length > policy.too_long() {
            self.next_look = 0;
            kill::point("before_log_reset");
            busy::waiting_at_most(LOCK_WAIT, || run(conn, "PRAGMA wal_checkpoint(RESTART)"))?;
            self.failures.note_success();
            kill::point("after_log_reset");
        }
        Ok(())
    }

    fn keep_short(&mut self, conn: &Connection, policy: LogPolicy) -> Result<()> {
        let log = look(conn)?;
        page_cache::fit(conn, log.length)?;
        let is_too_long = log.length >= policy.too_long();
        if is_too_long {
            // The thread is never far behind; the moment when it has nearly caught up must not be missed.
            self.next_look = 0;
        }
        if is_too_long && log.left() <= policy.remainder() {
            self.copy_rest(conn)?;
        } else if is_too_long || log.left() >= policy.begin_at {
            self.request();
        }
        Ok(())
    }

    /// Copies what is left with the write lock held, unless that was in vain a moment ago.
    fn copy_rest(&mut self, conn: &Connection) -> Result<()> {
        let now = Instant::now();
        if self.left_alone_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        kill::point("before_log_reset");
        let log = busy::waiting_at_most(LOCK_WAIT, || run(conn, "PRAGMA wal_checkpoint(FULL)"))?;
        let later = || Instant::now() + LOCK_WAIT * LEFT_ALONE;
        self.left_alone_until = log.is_blocked.then(later);
        if !log.is_blocked {
            self.failures.note_success();
        }
        kill::point("after_log_reset");
        Ok(())
    }

    /// Copies all of the log and empties its file, if that takes no longer than a moment. Otherwise the thread goes on
    /// with it.
    pub(crate) fn empty(&mut self, conn: &Connection) -> Result<Emptied> {
        let Some(policy) = self.policy() else {
            return Ok(Emptied::Completely);
        };
        if policy.by == Checkpoints::Beside {
            let log = look(conn)?;
            if log.left() > policy.remainder() {
                self.request();
                return Ok(Emptied::Not(log.left()));
            }
        }
        let log = busy::waiting_at_most(Duration::ZERO, || {
            run(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
        })?;
        Ok(if log.is_blocked {
            Emptied::Not(log.left())
        } else {
            self.failures.note_success();
            Emptied::Completely
        })
    }

    fn policy(&self) -> Option<LogPolicy> {
        self.database.as_ref().map(|database| database.log)
    }

    /// Asks the thread for a checkpoint; starts the thread with the first request.
    fn request(&mut self) {
        let Some(database) = &self.database else {
            return;
        };
        if self.thread.is_none() {
            self.thread = CheckpointThread::start(database.clone(), self.failures.clone());
        }
        if let Some(thread) = &self.thread {
            // Closed only when the thread has ended.
            let _ = thread.inbox.push(());
        }
    }
}

/// The thread that checkpoints, until it is dropped.
struct CheckpointThread {
    inbox: Arc<Inbox<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointThread {
    fn start(database: Database, failures: Failures) -> Option<Self> {
        let inbox = Arc::new(Inbox::new());
        let requests = Arc::clone(&inbox);
        let thread = thread::Builder::new()
            .name("duroxide-checkpoint".to_owned())
            .spawn(move || checkpoint_on_demand(&database, &requests, &failures));
        match thread {
            Ok(thread) => Some(Self {
                inbox,
                thread: Some(thread),
            }),
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::sqlite", %error, "the checkpoint thread could not be started");
                None
            }
        }
    }
}

impl Drop for CheckpointThread {
    fn drop(&mut self) {
        self.inbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(target: "duroxide::providers::sqlite", "the checkpoint thread panicked");
        }
    }
}

fn checkpoint_on_demand(database: &Database, requests: &Inbox<()>, failures: &Failures) {
    let mut conn: Option<Connection> = None;
    let mut taken = Vec::new();
    let mut left = 0;
    // Requests that queued up meanwhile are one.
    while requests.take(usize::MAX, None, &mut taken) == Took::Some {
        taken.clear();
        kill::point("before_checkpoint");
        let done = match conn.take() {
            Some(conn) => Ok(conn),
            None => database.open_checkpointer(),
        }
        // Copies what it can without making another connection wait.
        .and_then(|open| Ok((run(&open, "PRAGMA wal_checkpoint(PASSIVE)")?, open)));
        kill::point("after_checkpoint");
        let before = std::mem::replace(&mut left, usize::MAX);
        // After a failure the next request opens the connection again.
        conn = failures
            .note("the checkpoint thread", done)
            .map(|(log, open)| {
                left = log.left();
                failures.note_success();
                open
            });
        if left > 0 && left >= before {
            thread::sleep(NO_PROGRESS_PAUSE);
        }
    }
}

/// How long the log is, and how much of it is copied.
fn look(conn: &Connection) -> Result<Log> {
    run(conn, "PRAGMA wal_checkpoint(NOOP)")
}

fn run(conn: &Connection, pragma: &str) -> Result<Log> {
    let log = conn.query_row(pragma, [], |row| {
        let pages = |column| row.get::<_, i64>(column);
        Ok(Log {
            is_blocked: pages(0)? != 0,
            length: usize::try_from(pages(1)?).unwrap_or(0),
            copied: usize::try_from(pages(2)?).unwrap_or(0),
        })
    })?;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_read_for_long_is_left_alone_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("app.db")).unwrap();
        let (writer, reader) = (open(), open());
        writer.busy_timeout(Duration::ZERO).unwrap();
        let first = "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)";
        writer.execute_batch(first).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        let seen: i64 = reader
            .query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(seen, 1);
        writer.execute("INSERT INTO t VALUES (2)", []).unwrap();

        let mut checkpointer = Checkpointer::new(None, Failures::default());
        checkpointer.copy_rest(&writer).unwrap();
        let until = checkpointer.left_alone_until;
        assert!(until.is_some(), "the reader is in the way");
        // However slow the machine is: the while is not over.
        let until = until.map(|until| until + Duration::from_secs(3_600));
        checkpointer.left_alone_until = until;
        checkpointer.copy_rest(&writer).unwrap();
        assert_eq!(checkpointer.left_alone_until, until, "it was tried again");
        reader.execute_batch("COMMIT").unwrap();
        checkpointer.left_alone_until = Some(Instant::now());
        checkpointer.copy_rest(&writer).unwrap();
        assert_eq!(checkpointer.left_alone_until, None);
    }
}
