//! The running store: its threads, and the ways to them. In: closures over a transaction. Out: their answers. Knows no
//! table.
//!
//! Three ideas, one method each: [`write`](Store::write) runs a closure in the writer's next transaction,
//! [`read`](Store::read) on a snapshot, [`claim`](Store::claim) again and again until it finds something.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use duroxide_core::provider::StoreReadings;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::checkpoint::{Emptied, Failures};
use crate::claims::{self, ClaimReply, Deadline, GiveBack};
use crate::connection::database;
use crate::connection::exclusive::FileUse;
use crate::connection::linked_sqlite;
use crate::connection::log_policy::LogPolicy;
use crate::connection::url::{self, Access, Place};
use crate::connection::{Database, LastShutdown};
use crate::counted::Counted;
use crate::damage::DamagedRows;
use crate::early::{CrashCaution, Uncommitted};
use crate::error::{Result, SqliteError};
use crate::ops::claim_try::ClaimTry;
use crate::options::SqliteOptions;
use crate::readers;
use crate::requests::{ClaimQueue, CloseOnDrop, Inbox, LeaseView, ReadJob, read_job, write_job};
use crate::store_clock::{Pace, StoreClock};
use crate::tx::Tx;
use crate::unswept::Unswept;
use crate::watch::{Watch, Watches};
use crate::writer::{Source, Writer, WriterMessage};
use crate::writer_memory::WriterMemory;
use crate::writer_tx::WriterTx;

/// How long a claim waits for its next try at most when it follows the system clock: bounds the harm of a clock that is
/// set.
const RECHECK: Duration = Duration::from_secs(5);
/// The same with a clock of the user's own, which may jump at any moment.
const RECHECK_OWN_CLOCK: Duration = Duration::from_millis(50);

pub(crate) struct Store {
    writer: Arc<Inbox<WriterMessage>>,
    /// `None` for a database in memory: its reads pass through the writer.
    readers: Option<Arc<Inbox<Box<dyn ReadJob>>>>,
    /// Until the store is closed.
    threads: Mutex<Threads>,
    watches: Arc<Watches>,
    uncommitted: Arc<Uncommitted>,
    failed_checkpoints: Failures,
    counted: Arc<Counted>,
    pub(crate) unswept: Arc<Unswept>,
    /// `None` for a database in memory.
    database: Option<Database>,
    /// This lock decides who else may have the file open; `close` releases it after the threads have ended.
    file_use: Mutex<Option<FileUse>>,
    pub(crate) unknown_instance_grace: Duration,
}

#[derive(Default)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

/// What a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadView {
    /// What is committed.
    Committed,
    /// At least what the claim of any turn in flight saw, the open transaction included. For short reads: while a turn
    /// is in flight, the writer runs them (see `early`).
    OpenTransaction,
    /// The same, with the leases of turns in flight in the tables. The answer comes after they are committed.
    StoredLeases,
}

impl ReadView {
    /// What a read has to see of leases when it goes to the writer because a transaction with turns in flight is open;
    /// `None` if it goes to a reader all the same.
    fn in_open_transaction(self) -> Option<LeaseView> {
        match self {
            Self::Committed => None,
            Self::OpenTransaction => Some(LeaseView::NotNeeded),
            Self::StoredLeases => Some(LeaseView::Needed),
        }
    }
}

impl Store {
    /// Opens the database and starts the threads. Blocks.
    pub(crate) fn open(url: &str, options: &SqliteOptions) -> Result<Self> {
        let target = url::parse(url)?;
        match target.place {
            Place::Memory => {
                let source = Source::memory(database::open_memory()?);
                Self::start(source, None, LastShutdown::Clean, options)
            }
            Place::File { path, access } => {
                let by = linked_sqlite::checkpoints(options.tuning.writer_checkpoints_alone);
                let database = Database {
                    path: database::located(&path),
                    access,
                    durability: target.durability.unwrap_or(options.durability),
                    upgrade: options.upgrade,
                    log: LogPolicy::new(by, options.tuning.checkpoint_pages),
                    opened: Arc::default(),
                };
                let file_use = match access {
                    // It neither writes nor checkpoints, and may be unable to make a file.
                    Access::ReadOnly => None,
                    Access::Create | Access::Existing => {
                        Some(FileUse::acquire(&database.path, by)?)
                    }
                };
                let last_shutdown = database.last_shutdown();
                database.prepare()?;
                let source = Source::file(database.clone())?;
                let mut store = Self::start(source, Some(&database), last_shutdown, options)?;
                store.file_use = Mutex::new(file_use);
                Ok(store)
            }
        }
    }

    fn start(
        source: Source,
        file: Option<&Database>,
        last_shutdown: LastShutdown,
        options: &SqliteOptions,
    ) -> Result<Self> {
        let clock = clock(&source, options)?;
        let watches = Arc::new(Watches::default());
        let uncommitted = Arc::new(Uncommitted::default());
        let inbox = Arc::new(Inbox::new());
        let failed_checkpoints = Failures::default();
        let counted = Arc::new(Counted::default());
        let unswept = Arc::new(Unswept::default());
        let writer = Writer {
            source,
            inbox: Arc::clone(&inbox),
            watches: Arc::clone(&watches),
            uncommitted: Arc::clone(&uncommitted),
            failed_checkpoints: failed_checkpoints.clone(),
            counted: Arc::clone(&counted),
            memory: WriterMemory::default(),
            caution: CrashCaution::new(last_shutdown, clock.now()),
            damaged: DamagedRows::default(),
            unswept: Arc::clone(&unswept),
            clock: Arc::clone(&clock),
            recheck: if options.follows_system_clock() {
                RECHECK
            } else {
                RECHECK_OWN_CLOCK
            },
        };
        let writer = thread::Builder::new()
            .name("duroxide-write".to_owned())
            .spawn(move || {
                let _close = CloseOnDrop(Arc::clone(&writer.inbox));
                writer.run();
            })
            .map_err(no_thread)?;
        let (to_readers, readers) = match file {
            Some(database) => {
                let started = readers::start(database, &clock);
                let readers = started.inspect_err(|_| inbox.close()).map_err(no_thread)?;
                (Some(readers.inbox), readers.threads)
            }
            None => (None, Vec::new()),
        };
        Ok(Self {
            writer: inbox,
            readers: to_readers,
            threads: Mutex::new(Threads {
                writer: Some(writer),
                readers,
            }),
            watches,
            uncommitted,
            failed_checkpoints,
            counted,
            unswept,
            database: file.cloned(),
            file_use: Mutex::new(None),
            unknown_instance_grace: options.unknown_instance_grace,
        })
    }

    /// Runs a request in the writer's next transaction; answers after the commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        leases: LeaseView,
        work: impl FnMut(&mut WriterTx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = write_job(leases, work);
        self.writer.push(WriterMessage::Job(job))?;
        answer
            .await
            .unwrap_or_else(|_| Err(unanswered(&self.writer)))
    }

    /// Runs a request that only reads, on one consistent snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        view: ReadView,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if let Some(leases) = view.in_open_transaction()
            && self.uncommitted.any()
        {
            return self.write(leases, move |tx| work(tx)).await;
        }
        let Some(readers) = &self.readers else {
            return self.write(LeaseView::Needed, move |tx| work(tx)).await;
        };
        let (job, answer) = read_job(work);
        readers.push(job)?;
        answer.await.unwrap_or_else(|_| Err(unanswered(readers)))
    }

    /// Claims something, or waits for it until the deadline. If the caller drops this call, or what it returns without
    /// accepting it, `undo` gives back what the writer has claimed for it.
    pub(crate) async fn claim<T: Send + 'static>(
        &self,
        queue: ClaimQueue,
        wait_until: Option<Instant>,
        work: impl FnMut(&mut WriterTx<'_>) -> Result<ClaimTry<T>> + Send + 'static,
        undo: impl Fn(&mut WriterTx<'_>, &T) -> Result<()> + Send + Sync + 'static,
    ) -> Result<ClaimReply<T>> {
        let deadline = match wait_until {
            Some(_) => Deadline::default(),
            None => Deadline::already_passed(),
        };
        let writer = Arc::clone(&self.writer) as Arc<dyn GiveBack>;
        let (job, mut answer) = claims::claim(queue, deadline.clone(), writer, work, undo);
        self.writer.push(WriterMessage::Job(job))?;
        let in_time = match wait_until {
            Some(at) => timeout_at(at, &mut answer).await.ok(),
            None => None,
        };
        let answered = match in_time {
            Some(answered) => answered,
            None => {
                // The writer still answers: it may be claiming at this moment.
                deadline.pass();
                self.writer.push(WriterMessage::LookAgain)?;
                answer.await
            }
        };
        answered.unwrap_or_else(|_| Err(unanswered(&self.writer)))
    }

    /// Copies the write-ahead log into the database file and empties it. Commits and reads go on meanwhile: as long as
    /// other connections read the log or much of it is left, this asks the writer again after a pause. Gives up when
    /// nothing has moved for several seconds.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        const CHECKPOINT_RETRY_PAUSE: Duration = Duration::from_millis(20);
        const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
        let mut least = usize::MAX;
        let mut give_up_at = Instant::now() + GIVE_UP_AFTER;
        loop {
            let (reply, answer) = oneshot::channel();
            self.writer.push(WriterMessage::Checkpoint(reply))?;
            let answered = answer.await;
            match answered.unwrap_or_else(|_| Err(unanswered(&self.writer)))? {
                Emptied::Completely => return Ok(()),
                Emptied::Not(left) if left < least => {
                    least = left;
                    give_up_at = Instant::now() + GIVE_UP_AFTER;
                }
                Emptied::Not(_) if Instant::now() >= give_up_at => return Err(SqliteError::Busy),
                Emptied::Not(_) => {}
            }
            tokio::time::sleep(CHECKPOINT_RETRY_PAUSE).await;
        }
    }

    /// How many checkpoints failed since the store was opened.
    pub(crate) fn failed_checkpoints(&self) -> u64 {
        self.failed_checkpoints.count()
    }

    /// What is known without reading the database.
    pub(crate) fn readings(&self) -> StoreReadings {
        let totals = self.counted.read();
        let mut readings = StoreReadings::default();
        readings.commits = Some(totals.commits);
        readings.commit_requests = Some(totals.requests);
        readings.commit_time = Some(totals.time);
        readings.commit_time_max = Some(totals.longest);
        readings.busy_waits = Some(totals.busy_waits);
        readings.writer_queue = Some(self.writer.len() as u64);
        readings.checkpoint_failures = Some(self.failed_checkpoints.count());
        readings.checkpoint_age = self.failed_checkpoints.age();
        readings.log_bytes = self.database.as_ref().map(Database::log_bytes);
        readings
    }

    /// Watches one instance.
    pub(crate) fn watch(&self, instance: &str) -> Watch {
        let watch = self.watches.watch(instance);
        // If the store is closed, there is nothing left to notice.
        let _ = self.writer.push(WriterMessage::LookAgain);
        watch
    }

    /// Takes no more requests, answers those that are queued, and ends the threads. Blocks.
    pub(crate) fn close(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // The last connection to close checkpoints the log. A reader cannot, so readers end first.
        if let Some(readers) = &self.readers {
            readers.close();
        }
        join(threads.readers);
        self.writer.close();
        join(threads.writer);
        let mut file_use = self.file_use.lock().unwrap_or_else(PoisonError::into_inner);
        drop(file_use.take());
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// The clock of the store, later than any time that an earlier process has stored.
fn clock(source: &Source, options: &SqliteOptions) -> Result<Arc<StoreClock>> {
    let pace = if options.follows_system_clock() {
        Pace::System
    } else {
        Pace::Clock
    };
    let clock = StoreClock::new(Arc::clone(&options.clock), pace);
    if let Some(latest) = source.latest_time()? {
        clock.raise_to(latest.saturating_add(1));
    }
    Ok(clock)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_thread(error: std::io::Error) -> SqliteError {
    SqliteError::Io {
        detail: format!("cannot start a thread: {error}"),
    }
}

/// Why a request was dropped without an answer.
fn unanswered<T>(inbox: &Inbox<T>) -> SqliteError {
    if inbox.is_closed() {
        SqliteError::Closed
    } else {
        SqliteError::Interrupted
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!(target: "duroxide::providers::sqlite", "a thread of the SQLite store panicked");
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("in_memory", &self.readers.is_none())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::dead_letters;

    fn store(url: &str) -> Store {
        Store::open(url, &SqliteOptions::default()).unwrap()
    }

    #[tokio::test]
    async fn a_writer_that_panics_begins_anew_and_the_store_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("a.db").display());
        for url in ["sqlite::memory:", &file] {
            let store = store(url);
            let (job, answer) = write_job(LeaseView::Needed, |tx: &mut WriterTx<'_>| {
                dead_letters::list(tx, 1)
            });
            store.writer.push(WriterMessage::Panic).unwrap();
            store.writer.push(WriterMessage::Job(job)).unwrap();
            // Either taken together with the defect and lost with it, or served after it.
            let answered = answer
                .await
                .unwrap_or_else(|_| Err(unanswered(&store.writer)));
            assert!(
                matches!(answered, Ok(_) | Err(SqliteError::Interrupted)),
                "{answered:?}"
            );
            let next = store
                .write(LeaseView::Needed, |tx| dead_letters::list(tx, 1))
                .await;
            assert!(next.is_ok(), "{next:?}");
        }
    }

    #[tokio::test]
    async fn a_closed_store_says_so() {
        let store = store("sqlite::memory:");
        store.close();
        let answer = store
            .write(LeaseView::Needed, |tx| dead_letters::list(tx, 1))
            .await;
        assert_eq!(answer, Err(SqliteError::Closed));
        store.close();
    }
}
