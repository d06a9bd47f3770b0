//! A store in one file, in pure Rust, safe against crashes. In: claims, batches, queries. Out: answers, once they are
//! as durable as promised. One process at a time has the file open.

mod answer;
mod backlog;
mod commit;
mod dead_messages;
mod discarded;
mod discarded_groups;
mod discarded_scopes;
mod error;
mod file;
mod group;
mod grouped;
#[cfg(test)]
mod in_memory;
mod lazy_table;
mod messages;
mod options;
mod provider;
mod role;
mod single;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use ::redb::ReadableDatabase;
use async_trait::async_trait;
use tokio::sync::oneshot;

use self::error::{Result, Trouble};
use self::file::File;
use self::single::AT_ONCE;
use self::tables::Views;
use self::writer::{Job, Writer};
use crate::atomic::{Answer, AtomicOps, Batch, Query};
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::message::{Claim, Claimed, Delivery};
use crate::poll::Attempt;
use crate::queue::MessageQueue;
use crate::wake::{TopicWatch, Wakeups};

pub use self::options::{DEFAULT_CACHE_BYTES, Durability, RedbOptions, Tuning};
pub use self::provider::RedbProvider;

/// A store in one file. Clones share it; the file is closed with the last one.
#[derive(Clone)]
pub struct RedbStore {
    inner: Arc<Inner>,
}

struct Inner {
    file: Arc<File>,
    clock: StoreClock,
    wakeups: Arc<Wakeups>,
    writer: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
}

impl RedbStore {
    /// Opens the file, or makes it. Blocks while a file that was not closed well is checked; on an async thread use
    /// [`open_async`](Self::open_async).
    ///
    /// After a failure of the disk the store opens the file again by itself, with growing pauses, and answers with
    /// [`StoreError::Retryable`] meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Retryable`] if another process has it open or the disk fails, [`StoreError::Corrupt`] if it is
    /// damaged, [`StoreError::Permanent`] if another version wrote it.
    pub fn open(path: impl AsRef<Path>) -> std::result::Result<Self, StoreError> {
        Self::open_with(path, RedbOptions::default())
    }

    /// Opens the file, or makes it, with options.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`StoreError::Permanent`] for options that cannot work.
    pub fn open_with(
        path: impl AsRef<Path>,
        options: RedbOptions,
    ) -> std::result::Result<Self, StoreError> {
        options.check()?;
        let opening = || {
            let file = File::at(path.as_ref(), options.cache_bytes);
            Self::over(file.map_err(Trouble::into_store_error)?, options)
        };
        // redb panics where damaged bytes lead it out of bounds.
        catch_unwind(AssertUnwindSafe(opening))
            .unwrap_or_else(|_| Err(StoreError::Corrupt("the file is damaged".to_owned())))
    }

    /// Opens the file like [`open_with`](Self::open_with), on a thread that may block.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub async fn open_async(
        path: impl AsRef<Path>,
        options: RedbOptions,
    ) -> std::result::Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let opened = tokio::task::spawn_blocking(move || Self::open_with(path, options)).await;
        opened.map_err(|error| StoreError::Retryable(error.to_string()))?
    }

    fn over(file: File, options: RedbOptions) -> std::result::Result<Self, StoreError> {
        let stored_ms = file.database().and_then(|db| file::time_of(&db));
        let stored_ms = stored_ms.map_err(Trouble::into_store_error)?;
        options.clock.raise_to(stored_ms);
        let file = Arc::new(file);
        let wakeups = Arc::<Wakeups>::default();
        options.clock.attach(&wakeups);
        let writer = Writer {
            file: Arc::clone(&file),
            clock: options.clock.clone(),
            wakeups: Arc::clone(&wakeups),
            durability: options.durability,
            quick_repair: options.quick_repair,
            stored_ms: Cell::new(stored_ms),
            // The process before may have ended in the middle of it.
            has_remains: Cell::new(true),
            sweeps: Cell::new(true),
            step: options.tuning.step.max(1),
            waiting: RefCell::default(),
        };
        let (jobs, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&inbox))
            .map_err(|error| StoreError::Retryable(error.to_string()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                file,
                clock: options.clock,
                wakeups,
                writer: Mutex::new(Some((jobs, thread))),
            }),
        })
    }

    /// Gives unused space of the file back to the file system. The store answers nothing else meanwhile: for a
    /// maintenance window. Returns whether anything was given back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Retryable`] if the disk fails.
    pub async fn compact(&self) -> std::result::Result<bool, StoreError> {
        self.submit(Job::Compact).await
    }

    async fn submit<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<std::result::Result<T, StoreError>>) -> Job,
    ) -> std::result::Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = job(reply);
        let writes = matches!(job, Job::Commit(..));
        self.inner.send(job)?;
        // The writer panicked with the job in its hands: before its commit or after it; which is not known.
        answer.await.map_err(|_| {
            if writes {
                StoreError::Unknown(STOPPED.to_owned())
            } else {
                stopped()
            }
        })?
    }
}

const STOPPED: &str = "the store's writer has stopped";

fn stopped() -> StoreError {
    StoreError::Retryable(STOPPED.to_owned())
}

impl Inner {
    fn send(&self, job: Job) -> std::result::Result<(), StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (jobs, _) = writer.as_ref().ok_or_else(stopped)?;
        jobs.send(job).map_err(|_| stopped())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let writer = self
            .writer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((jobs, thread)) = writer.take() {
            drop(jobs);
            // The writer finishes what was sent; a panic of it was already answered with errors.
            let _ = thread.join();
        }
        self.file.close();
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl AtomicOps for RedbStore {
    fn now_ms(&self) -> u64 {
        self.inner.clock.now_ms()
    }

    fn clock_ms(&self) -> u64 {
        self.inner.clock.clock_ms()
    }

    async fn commit(&self, mut batch: Batch) -> std::result::Result<Vec<u64>, StoreError> {
        self.inner.clock.adjust(&mut batch);
        self.submit(|reply| Job::Commit(batch, reply)).await
    }

    async fn query(&self, queries: Vec<Query>) -> std::result::Result<Vec<Answer>, StoreError> {
        let file = Arc::clone(&self.inner.file);
        let now_ms = self.now_ms();
        let read = move || -> Result<Vec<Answer>> {
            let db = file.database()?;
            let views = Views::open(&db.begin_read()?)?;
            let answers = queries
                .iter()
                .map(|query| answer::run(&views, query, now_ms));
            answers.collect()
        };
        let answers = tokio::task::spawn_blocking(read).await;
        let answers = answers.map_err(|error| StoreError::Retryable(error.to_string()))?;
        if answers.as_ref().is_err_and(Trouble::needs_reopening) {
            // The writer may be idle: wake it.
            self.inner.send(Job::Reopen)?;
        }
        answers.map_err(Trouble::into_store_error)
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        Some(self.inner.wakeups.watch(topic))
    }
}

#[async_trait]
impl MessageQueue for RedbStore {
    async fn claim(&self, claim: Claim) -> std::result::Result<Vec<Claimed>, StoreError> {
        let ask = &claim;
        let attempt = || async {
            loop {
                let claim = |reply| Job::Claim(Box::new(ask.clone()), reply);
                match self.submit(claim).await? {
                    // It removed what was deleted and in its way, as much as one transaction may.
                    Attempt::Nothing { due_ms: AT_ONCE }
                        if ask.queue.delivery == Delivery::Single => {}
                    attempt => return Ok::<_, StoreError>(attempt),
                }
            }
        };
        let found = self
            .inner
            .wakeups
            .poll(&self.inner.clock, &ask.queue.name, ask.wait, attempt)
            .await?;
        Ok(found.unwrap_or_default())
    }
}
