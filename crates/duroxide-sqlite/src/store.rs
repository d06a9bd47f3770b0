//! The running store: its threads, and the two ways in. In: closures over a [`Tx`]. Out: their answers. Knows no
//! table.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use duroxide_core::provider::ProviderError;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::checkpoint::{Emptied, Failures, LogPolicy};
use crate::claims::claim::{self, Overdue, Tried};
use crate::claims::waiting_claims::Queue;
use crate::connection::database::{self as open, Database};
use crate::connection::driver::{self, Checkpoints};
use crate::connection::exclusive::Sole;
use crate::connection::url::{self, Place};
use crate::early::in_flight::Uncommitted;
use crate::early::recent_instances::{Known, LastEnd};
use crate::error::SqliteError;
use crate::options::SqliteOptions;
use crate::readers;
use crate::requests::inbox::{Emptier, Inbox};
use crate::requests::job::{Job, Leases, job};
use crate::store_clock::{Pace, StoreClock};
use crate::tx::{Result, Tx};
use crate::watch::{Wake, Watch};
use crate::writer::{Message, Source, Writer};

/// How long a claim rests at most when it follows the system clock: bounds the harm of a clock that is set.
const RECHECK: Duration = Duration::from_secs(5);
/// The same with a clock of the user's own, which may jump at any moment.
const RECHECK_OWN_CLOCK: Duration = Duration::from_millis(50);

pub(crate) struct Store {
    to_writer: Arc<Inbox<Message>>,
    /// `None` for a database in memory: its reads pass through the writer.
    to_readers: Option<Arc<Inbox<Box<dyn Job>>>>,
    /// Until the store is closed.
    threads: Mutex<Threads>,
    wake: Arc<Wake>,
    uncommitted: Arc<Uncommitted>,
    failed_checkpoints: Failures,
    /// Where only one store at a time may have the file open; released after the threads have ended.
    sole: Option<Sole>,
    pub(crate) unknown_instance_grace: Duration,
}

#[derive(Default)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl Store {
    /// Opens the database and starts the threads. Blocks.
    pub(crate) fn open(url: &str, options: &SqliteOptions) -> Result<Self> {
        let target = url::parse(url)?;
        match target.place {
            Place::Memory => {
                let source = Source::memory(open::open_memory()?);
                Self::start(source, None, LastEnd::Orderly, options)
            }
            Place::File { path, access } => {
                let by = driver::checkpoints(options.tuning.writer_checkpoints_alone);
                let database = Database {
                    path: open::located(&path),
                    access,
                    durability: target.durability.unwrap_or(options.durability),
                    log: LogPolicy::new(by, options.tuning.checkpoint_pages),
                    opened: Arc::default(),
                };
                let claim = match by {
                    Checkpoints::Beside => None,
                    Checkpoints::WriterAlone => Some(Sole::claim(&database)?),
                };
                let last_end = database.last_end();
                database.prepare()?;
                let source = Source::file(database.clone())?;
                let mut store = Self::start(source, Some(&database), last_end, options)?;
                store.sole = claim;
                Ok(store)
            }
        }
    }

    fn start(
        source: Source,
        file: Option<&Database>,
        last_end: LastEnd,
        options: &SqliteOptions,
    ) -> Result<Self> {
        let no_thread = |error: std::io::Error| SqliteError::Io {
            detail: format!("cannot start a thread: {error}"),
        };
        let pace = match options.follows_system_clock() {
            true => Pace::System,
            false => Pace::Clock,
        };
        let clock = StoreClock::new(Arc::clone(&options.clock), pace);
        if let Some(latest) = source.latest_stored()? {
            // Later than anything an earlier process wrote.
            clock.raise_to(latest.saturating_add(1));
        }
        let wake = Arc::new(Wake::default());
        let uncommitted = Arc::new(Uncommitted::default());
        let to_writer = Arc::new(Inbox::new());
        let failed_checkpoints = Failures::default();
        let writer = Writer {
            source,
            inbox: Arc::clone(&to_writer),
            wake: Arc::clone(&wake),
            uncommitted: Arc::clone(&uncommitted),
            failed_checkpoints: failed_checkpoints.clone(),
            known: Known::after(last_end, clock.now()),
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
                let _emptier = Emptier(Arc::clone(&writer.inbox));
                writer.run();
            })
            .map_err(no_thread)?;
        let (to_readers, readers) = match file {
            Some(database) => {
                let started = readers::start(database, &clock);
                let readers = started
                    .inspect_err(|_| to_writer.close())
                    .map_err(no_thread)?;
                (Some(readers.inbox), readers.threads)
            }
            None => (None, Vec::new()),
        };
        Ok(Self {
            to_writer,
            to_readers,
            threads: Mutex::new(Threads {
                writer: Some(writer),
                readers,
            }),
            wake,
            uncommitted,
            failed_checkpoints,
            sole: None,
            unknown_instance_grace: options.unknown_instance_grace,
        })
    }

    /// Runs a request in the writer's next transaction; answers after the commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        operation: &str,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, ProviderError> {
        self.write_step(work)
            .await
            .map_err(|error| error.into_provider_error(operation))
    }

    /// As [`write`](Self::write), for a request that passes leases of turns by: one of the steps of every orchestration.
    pub(crate) async fn step<T: Send + 'static>(
        &self,
        operation: &str,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, ProviderError> {
        self.to_writer(Leases::PassedBy, work)
            .await
            .map_err(|error| error.into_provider_error(operation))
    }

    /// As [`write`](Self::write), for callers that have more to do before the edge.
    pub(crate) async fn write_step<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.to_writer(Leases::Minded, work).await
    }

    async fn to_writer<T: Send + 'static>(
        &self,
        leases: Leases,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = job(leases, work);
        self.to_writer.push(Message::Job(job))?;
        answer
            .await
            .unwrap_or_else(|_| Err(unanswered(&self.to_writer)))
    }

    /// Runs a request that only reads, on one consistent snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &str,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, ProviderError> {
        self.read_step(work)
            .await
            .map_err(|error| error.into_provider_error(operation))
    }

    /// As [`read`](Self::read), for what a turn may ask while it runs: sees all that its claim saw. Only for short reads.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        operation: &str,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, ProviderError> {
        if self.uncommitted.any() {
            return self.step(operation, work).await;
        }
        self.read(operation, work).await
    }

    async fn read_step<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(readers) = &self.to_readers else {
            return self.write_step(work).await;
        };
        let (job, answer) = job(Leases::Minded, work);
        readers.push(job)?;
        answer.await.unwrap_or_else(|_| Err(unanswered(readers)))
    }

    /// Claims something, or waits for it until the deadline. `undo` gives back what was claimed for a caller that
    /// went away meanwhile.
    pub(crate) async fn claim<T: Send + 'static>(
        &self,
        queue: Queue,
        deadline: Option<Instant>,
        work: impl FnMut(&mut Tx<'_>) -> Result<Tried<T>> + Send + 'static,
        undo: impl Fn(&mut Tx<'_>, &T) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        let overdue = match deadline {
            Some(_) => Overdue::default(),
            None => Overdue::at_once(),
        };
        let (job, mut answer) = claim::claim(
            queue,
            overdue.clone(),
            Arc::clone(&self.to_writer),
            work,
            undo,
        );
        self.to_writer.push(Message::Job(job))?;
        let in_time = match deadline {
            Some(deadline) => timeout_at(deadline, &mut answer).await.ok(),
            None => None,
        };
        let answered = match in_time {
            Some(answered) => answered,
            None => {
                // The writer answers, it is not hung up on: it may be claiming at this moment.
                overdue.tell();
                self.to_writer.push(Message::Nudge)?;
                answer.await
            }
        };
        let answered = answered.unwrap_or_else(|_| Err(unanswered(&self.to_writer)));
        Ok(answered?.open())
    }

    /// Copies the write-ahead log into the database file and empties it. Nobody waits for it meanwhile: as long as others
    /// read the log or much of it is left, the writer is asked again after a pause. Gives up when nothing has moved for
    /// several seconds.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(20);
        const PATIENCE: Duration = Duration::from_secs(5);
        let mut least = usize::MAX;
        let mut give_up_at = Instant::now() + PATIENCE;
        loop {
            let (reply, answer) = oneshot::channel();
            self.to_writer.push(Message::Checkpoint(reply))?;
            let answered = answer.await;
            match answered.unwrap_or_else(|_| Err(unanswered(&self.to_writer)))? {
                Emptied::Completely => return Ok(()),
                Emptied::Not(left) if left < least => {
                    least = left;
                    give_up_at = Instant::now() + PATIENCE;
                }
                Emptied::Not(_) if Instant::now() >= give_up_at => return Err(SqliteError::Busy),
                Emptied::Not(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// How many checkpoints failed since the store was opened.
    pub(crate) fn failed_checkpoints(&self) -> u64 {
        self.failed_checkpoints.count()
    }

    /// Notices of changes of one instance.
    pub(crate) fn watch(&self, instance: &str) -> Watch {
        let watch = self.wake.watch(instance);
        // If the store is closed there is nothing left to notice.
        let _ = self.to_writer.push(Message::Nudge);
        watch
    }
}

impl Store {
    /// Takes no more requests, answers those that are queued, and ends the threads. Blocks.
    pub(crate) fn close(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // The last connection to close folds the log into the database file. Readers cannot, so they go first.
        if let Some(readers) = &self.to_readers {
            readers.close();
        }
        join(threads.readers);
        self.to_writer.close();
        join(threads.writer);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why a request was dropped without an answer.
fn unanswered<T>(inbox: &Inbox<T>) -> SqliteError {
    match inbox.is_closed() {
        true => SqliteError::Closed,
        false => SqliteError::Interrupted,
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!(target: "duroxide::providers::sqlite", "a thread of the SQLite store ended by a panic");
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("in_memory", &self.to_readers.is_none())
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
            let (job, answer) = job(Leases::Minded, |tx: &mut Tx<'_>| dead_letters::list(tx, 1));
            store.to_writer.push(Message::Panic).unwrap();
            store.to_writer.push(Message::Job(job)).unwrap();
            // Either taken together with the defect and lost with it, or served after it.
            let answered = answer
                .await
                .unwrap_or_else(|_| Err(unanswered(&store.to_writer)));
            assert!(
                matches!(answered, Ok(_) | Err(SqliteError::Interrupted)),
                "{answered:?}"
            );
            let next = store.write("next", |tx| dead_letters::list(tx, 1)).await;
            assert!(next.is_ok(), "{next:?}");
        }
    }

    #[tokio::test]
    async fn a_closed_store_says_so() {
        let store = store("sqlite::memory:");
        store.close();
        let answer = store.write("late", |tx| dead_letters::list(tx, 1)).await;
        assert!(!answer.unwrap_err().is_retryable());
        store.close();
    }
}
