//! The one thread that writes. In: jobs, as many as have queued up. Out: one commit for all of them, then their
//! answers and wake-ups. Never waits for more jobs to come: a lone job commits at once, a burst shares one sync.
//!
//! While somebody waits for work, the thread also looks every 50 ms whether another process has committed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use duroxide_core::clock::ClockRef;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::SqliteError;
use crate::group;
use crate::job::Job;
use crate::open::{Database, FileIdentity};
use crate::tx::{Result, stored_ms};
use crate::wake::Wake;

/// How many jobs share one commit at most; bounds what one failed commit takes with it.
const GROUP_MAX: usize = 256;
/// How soon a commit of another process is noticed.
const FOREIGN_LOOK: Duration = Duration::from_millis(50);

pub(crate) enum Message {
    Job(Box<dyn Job>),
    /// Somebody began to wait: look at other processes from now on.
    SomebodyWaits,
    /// Fold the log into the database file.
    Checkpoint(oneshot::Sender<Result<()>>),
}

/// Where the writer's connection comes from.
pub(crate) enum Source {
    Memory(Connection),
    File(FileSource),
}

/// A file whose connection is given up after a disk failure and opened again for the next group.
pub(crate) struct FileSource {
    database: Database,
    identity: FileIdentity,
    open: Option<Connection>,
}

impl FileSource {
    pub(crate) fn open(database: Database) -> Result<Self> {
        let open = Some(database.open_writer()?);
        let identity = database.identity()?;
        Ok(Self {
            database,
            identity,
            open,
        })
    }

    fn connection(&mut self) -> Result<&Connection> {
        // SQLite would go on writing to a file that has no name any more, and every acknowledged commit would be
        // lost with the process. One stat per group is the price of saying so instead.
        if self.database.identity()? != self.identity {
            return Err(SqliteError::FileGone {
                path: self.database.path.clone(),
            });
        }
        match &mut self.open {
            Some(conn) => Ok(conn),
            none => Ok(none.insert(self.database.open_writer()?)),
        }
    }
}

impl Source {
    fn connection(&mut self) -> Result<&Connection> {
        match self {
            Self::Memory(conn) => Ok(conn),
            Self::File(file) => file.connection(),
        }
    }

    fn give_up_if_spoilt(&mut self, error: &SqliteError) {
        match self {
            Self::Memory(_) => {}
            Self::File(file) if error.spoils_connection() => {
                tracing::warn!(target: "duroxide::providers::sqlite", %error, "the writer's connection is given up and will be opened again");
                file.open = None;
            }
            Self::File(_) => {}
        }
    }
}

pub(crate) struct Writer {
    pub(crate) source: Source,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) clock: ClockRef,
}

impl Writer {
    /// Works until every sender is gone, then closes the connection.
    pub(crate) fn run(mut self) {
        let mut foreign = ForeignCommits::default();
        let mut group = Vec::with_capacity(GROUP_MAX);
        while self.next_group(&mut group) {
            if !group.is_empty() {
                self.commit(&mut group);
            }
            if self.wake.anybody_waits() && foreign.is_time_to_look() {
                self.look(&mut foreign);
            }
        }
    }

    /// Fills `group` with what has queued up; leaves it empty when it is time to look around. `false` at the end.
    fn next_group(&mut self, group: &mut Vec<Box<dyn Job>>) -> bool {
        let first = if self.wake.anybody_waits() {
            match self.inbox.recv_timeout(FOREIGN_LOOK) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        } else {
            match self.inbox.recv() {
                Ok(message) => message,
                Err(_) => return false,
            }
        };
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Job(job) => group.push(job),
                Message::SomebodyWaits => {}
                Message::Checkpoint(reply) => {
                    // Between transactions by construction: the group has not begun.
                    let done = self.source.connection().and_then(checkpoint);
                    let _ = reply.send(done);
                }
            }
            if group.len() == GROUP_MAX {
                break;
            }
            next = self.inbox.try_recv().ok();
        }
        true
    }

    fn commit(&mut self, group: &mut Vec<Box<dyn Job>>) {
        let clock = &self.clock;
        let now = || stored_ms(clock.now_ms());
        let ended = match self.source.connection() {
            Ok(conn) => group::run(conn, group, now),
            Err(error) => Err(error),
        };
        match ended {
            Ok(effects) => {
                let now = now();
                for effects in &effects {
                    self.wake.announce(effects, now);
                }
                for job in group.drain(..) {
                    job.answer();
                }
            }
            Err(error) => {
                self.source.give_up_if_spoilt(&error);
                for job in group.drain(..) {
                    job.fail(error.clone());
                }
            }
        }
    }

    fn look(&mut self, foreign: &mut ForeignCommits) {
        let Source::File(file) = &mut self.source else {
            return; // nobody else can reach a database in memory
        };
        let Some(conn) = &file.open else {
            return; // opened again by the next job
        };
        if foreign.have_happened(conn) {
            self.wake.ring_all();
        }
    }
}

fn checkpoint(conn: &Connection) -> Result<()> {
    let blocked: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if blocked == 0 {
        Ok(())
    } else {
        Err(SqliteError::Busy)
    }
}

/// Notices commits of other connections: `data_version` changes for those, and for those only.
#[derive(Default)]
struct ForeignCommits {
    last_look: Option<Instant>,
    data_version: Option<i64>,
}

impl ForeignCommits {
    fn is_time_to_look(&mut self) -> bool {
        let now = Instant::now();
        let due = self
            .last_look
            .is_none_or(|last| now.duration_since(last) >= FOREIGN_LOOK);
        if due {
            self.last_look = Some(now);
        }
        due
    }

    fn have_happened(&mut self, conn: &Connection) -> bool {
        let version = conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        match version {
            Ok(version) => {
                // The first look has nothing to compare with, and somebody may have tried just before it.
                let known = self.data_version.replace(version);
                known.is_none_or(|known| known != version)
            }
            // A database that cannot be read now is reported to the next request; waking nobody is right until then.
            Err(error) => {
                tracing::debug!(target: "duroxide::providers::sqlite", %error, "could not look for commits of other processes");
                false
            }
        }
    }
}
