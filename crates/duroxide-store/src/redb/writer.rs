//! The one writer. A thread takes whatever has queued up, runs the jobs one by one inside one transaction, commits once
//! and answers all: a lone job commits at once, a burst shares one flush to disk.
//!
//! A job that is refused is refused before it wrote anything, so the others of its transaction go on. If one cannot be
//! done, the transaction is given up and the jobs run again one by one. If the file fails, every job gets the error,
//! and the file is opened again.
//!
//! Between its jobs it removes what deletions left in the file, a step at a time. A job that adds to what is being
//! removed waits here, and comes again after each step; the others go on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use ::redb::WriteTransaction;
use tokio::sync::oneshot;

use super::Durability;
use super::error::{Result, Trouble};
use super::file::File;
use super::tables::{CLOCK, Tables};
use super::{commit, discarded, discarded_groups, discarded_scopes};
use crate::atomic::Batch;
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::message::{Claim, Claimed, later_ms};
use crate::poll::Attempt;
use crate::wake::Wakeups;
use duroxide_core::kill;

type Reply<T> = oneshot::Sender<std::result::Result<T, StoreError>>;

/// Jobs that share one transaction at most.
const GROUP_MAX: usize = 512;
/// Longest time for which a relaxed commit stays in memory only.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// How far the time that the file has may be behind.
const STORE_TIME_EVERY_MS: u64 = 1_000;

/// Shortest and longest pause between two tries to open the file again.
const REOPEN_PAUSE: Duration = Duration::from_millis(20);
const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(2);

pub(super) enum Job {
    Commit(Batch, Reply<Vec<u64>>),
    Claim(Box<Claim>, Reply<Attempt<Vec<Claimed>>>),
    Compact(Reply<bool>),
    /// A reader found that the file failed.
    Reopen,
}

/// A job that ran, waiting for the transaction to be on disk.
enum Done {
    Counts(Vec<u64>),
    Claimed(Attempt<Vec<Claimed>>),
    Refused(StoreError),
    /// It waits until more of what was deleted is removed.
    Later,
}

/// How a group of jobs went.
enum Went {
    Wrote,
    Read,
    /// The file failed, or the code that writes it did.
    Broke,
}

/// Why a transaction came to nothing.
struct GivenUp {
    trouble: Trouble,
    /// Whether it failed in the last step, so that it is not known whether it is on disk.
    at_commit: bool,
}

impl From<Trouble> for GivenUp {
    fn from(trouble: Trouble) -> Self {
        Self {
            trouble,
            at_commit: false,
        }
    }
}

pub(super) struct Writer {
    pub(super) file: Arc<File>,
    pub(super) clock: StoreClock,
    pub(super) wakeups: Arc<Wakeups>,
    pub(super) durability: Durability,
    pub(super) quick_repair: bool,
    /// The time that the file keeps for the process that opens it next.
    pub(super) stored_ms: Cell<u64>,
    /// Whether what was deleted may still be in the file.
    pub(super) has_remains: Cell<bool>,
    /// Whether it is being removed.
    pub(super) sweeps: Cell<bool>,
    /// Rows that one step removes at most.
    pub(super) step: usize,
    /// Jobs that wait for it.
    pub(super) waiting: RefCell<Vec<Job>>,
}

impl Writer {
    /// Works until the last sender of jobs is dropped, then flushes.
    pub(super) fn run(self, jobs: &Receiver<Job>) {
        let mut unflushed: Option<Instant> = None;
        loop {
            let patience = unflushed.map(|since| FLUSH_AFTER.saturating_sub(since.elapsed()));
            let first = match patience {
                _ if self.sweeps.get() => jobs.try_recv().map_err(|nothing| match nothing {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => jobs.recv_timeout(patience),
            };
            let mut went = Went::Read;
            match first {
                Ok(first) => {
                    let rest = jobs.try_iter().take(GROUP_MAX - 1);
                    let group: Vec<_> = std::iter::once(first).chain(rest).collect();
                    // A panic answers the jobs by dropping them; the next ones find the file opened again.
                    let working = AssertUnwindSafe(|| self.work(group));
                    went = std::panic::catch_unwind(working).unwrap_or(Went::Broke);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if unflushed.is_some() {
                        let _ = self.flush();
                    }
                    return;
                }
            }
            if self.sweeps.get() && !matches!(went, Went::Broke) {
                // A step follows every group of jobs, so that deletions come to their end under load as well.
                let sweeping = AssertUnwindSafe(|| self.sweep());
                match std::panic::catch_unwind(sweeping).unwrap_or(Went::Broke) {
                    Went::Read => {}
                    other => went = other,
                }
                let waiting = AssertUnwindSafe(|| self.work_on_waiting(&went));
                match std::panic::catch_unwind(waiting).unwrap_or(Went::Broke) {
                    Went::Read => {}
                    other => went = other,
                }
            }
            if matches!(went, Went::Wrote) && self.durability == Durability::Relaxed {
                unflushed = unflushed.or_else(|| Some(Instant::now()));
            }
            if unflushed.is_some_and(|since| since.elapsed() >= FLUSH_AFTER) {
                match self.flush() {
                    Ok(()) => unflushed = None,
                    Err(trouble) if trouble.needs_reopening() => went = Went::Broke,
                    // Tried again with the next flush.
                    Err(_) => unflushed = Some(Instant::now()),
                }
            }
            if matches!(went, Went::Broke) {
                if unflushed.take().is_some() {
                    tracing::error!(target: "duroxide::providers::redb", "relaxed commits of the last moment may be lost");
                }
                self.give_up_waiting();
                if !self.recover(jobs) {
                    return;
                }
            }
        }
    }

    fn flush(&self) -> Result<()> {
        let flush = || -> Result<()> {
            let mut txn = self.file.database()?.begin_write()?;
            txn.set_durability(::redb::Durability::Immediate)?;
            Ok(txn.commit()?)
        };
        flush().inspect_err(|trouble| {
            tracing::error!(target: "duroxide::providers::redb", ?trouble, "relaxed commits could not be flushed");
        })
    }

    /// Opens the file again, as often as it takes; jobs that come meanwhile get a retryable error. Returns
    /// whether a handle to the store is left.
    fn recover(&self, jobs: &Receiver<Job>) -> bool {
        let mut pause = REOPEN_PAUSE;
        loop {
            let opening = AssertUnwindSafe(|| self.file.reopen());
            match std::panic::catch_unwind(opening) {
                Ok(Ok(())) => break,
                Ok(Err(trouble)) => {
                    let error = trouble.into_store_error();
                    tracing::error!(target: "duroxide::providers::redb", %error, "the file cannot be opened again yet");
                }
                Err(_) => {}
            }
            let until = Instant::now() + pause;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match jobs.recv_timeout(left) {
                    Ok(job) => {
                        let away = "the file is being opened again after a failure".to_owned();
                        job.answer(Done::Refused(StoreError::Retryable(away)));
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return false,
                }
            }
            pause = (pause * 2).min(REOPEN_PAUSE_MAX);
        }
        tracing::warn!(target: "duroxide::providers::redb", "the file was opened again after a failure");
        self.wakeups.wake_all();
        true
    }

    /// Runs a group of jobs and answers them.
    fn work(&self, jobs: Vec<Job>) -> Went {
        let mut went = Went::Read;
        let (apart, jobs): (Vec<_>, Vec<_>) = jobs
            .into_iter()
            .partition(|job| matches!(job, Job::Compact(_) | Job::Reopen));
        if !jobs.is_empty() {
            went = self.work_together(jobs);
        }
        for job in apart {
            match job {
                Job::Compact(reply) => {
                    let compacted = self.compact();
                    drop(reply.send(compacted.map_err(Trouble::into_store_error)));
                }
                // The database may have been opened again since the reader saw it fail.
                _ if self.flush().is_err_and(|trouble| trouble.needs_reopening()) => {
                    went = Went::Broke;
                }
                _ => {}
            }
        }
        went
    }

    fn compact(&self) -> Result<bool> {
        let Some(mut db) = self.file.take() else {
            let away = "the file is being opened again".to_owned();
            return Err(StoreError::Retryable(away).into());
        };
        let compacted = db.compact();
        self.file.put_back(db);
        Ok(compacted?)
    }

    fn work_together(&self, jobs: Vec<Job>) -> Went {
        let mut wake = BTreeSet::new();
        match self.transact(&jobs, &mut wake) {
            Ok((done, written)) => {
                kill::point("before_answer");
                self.wake(&jobs, &done, &wake);
                for (job, done) in jobs.into_iter().zip(done) {
                    if matches!(done, Done::Later) {
                        self.sweeps.set(true);
                        self.waiting.borrow_mut().push(job);
                    } else {
                        job.answer(done);
                    }
                }
                if written { Went::Wrote } else { Went::Read }
            }
            Err(given_up) if given_up.trouble.needs_reopening() => {
                let unknown = given_up.at_commit;
                let text = given_up.trouble.into_store_error().to_string();
                for job in jobs {
                    let error = if unknown && matches!(job, Job::Commit(..)) {
                        StoreError::Unknown(text.clone())
                    } else {
                        StoreError::Retryable(text.clone())
                    };
                    job.answer(Done::Refused(error));
                }
                Went::Broke
            }
            Err(given_up) if jobs.len() == 1 => {
                let error = given_up.trouble.into_store_error();
                for job in jobs {
                    job.answer(Done::Refused(error.clone()));
                }
                Went::Read
            }
            Err(_) => self.work_apart(jobs),
        }
    }

    /// One of the jobs cannot be done; the others are.
    fn work_apart(&self, jobs: Vec<Job>) -> Went {
        let mut went = Went::Read;
        for job in jobs {
            if matches!(went, Went::Broke) {
                let text = "the file failed before it was this job's turn".to_owned();
                job.answer(Done::Refused(StoreError::Retryable(text)));
                continue;
            }
            match self.work_together(vec![job]) {
                Went::Read => {}
                other => went = other,
            }
        }
        went
    }

    fn begin(&self) -> Result<WriteTransaction> {
        let mut txn = self.file.database()?.begin_write()?;
        txn.set_durability(match self.durability {
            Durability::Full => ::redb::Durability::Immediate,
            Durability::Relaxed => ::redb::Durability::None,
        })?;
        txn.set_quick_repair(self.quick_repair);
        Ok(txn)
    }

    fn tables<'t>(&self, txn: &'t WriteTransaction) -> Tables<'t> {
        Tables {
            has_remains: self.has_remains.get(),
            step: self.step,
            ..Tables::of(txn)
        }
    }

    /// Tries again what waits for something to be removed, after a step that went like this.
    fn work_on_waiting(&self, went: &Went) -> Went {
        if matches!(went, Went::Broke) {
            return Went::Read;
        }
        if !self.sweeps.get() && self.has_remains.get() {
            // Nothing more is removed for now.
            self.give_up_waiting();
        }
        match self.waiting.take() {
            jobs if jobs.is_empty() => Went::Read,
            jobs => self.work(jobs),
        }
    }

    fn give_up_waiting(&self) {
        for job in self.waiting.take() {
            job.answer(Done::Later);
        }
    }

    /// Removes some of what was deleted and is still in the file.
    fn sweep(&self) -> Went {
        let step = || -> Result<bool> {
            let txn = self.begin()?;
            let mut tables = self.tables(&txn);
            let found = discarded::sweep(&mut tables)?
                || discarded_scopes::sweep(&mut tables)?
                || discarded_groups::sweep(&mut tables)?;
            drop(tables);
            if found {
                txn.commit()?
            } else {
                txn.abort()?
            }
            Ok(found)
        };
        match step() {
            Ok(true) => Went::Wrote,
            Ok(false) => {
                self.sweeps.set(false);
                self.has_remains.set(false);
                Went::Read
            }
            Err(trouble) if trouble.needs_reopening() => Went::Broke,
            Err(trouble) => {
                // The next deletion, or the next opening, tries again.
                tracing::error!(target: "duroxide::providers::redb", ?trouble, "what was deleted could not be removed from the file");
                self.sweeps.set(false);
                Went::Read
            }
        }
    }

    fn transact(
        &self,
        jobs: &[Job],
        wake: &mut BTreeSet<String>,
    ) -> std::result::Result<(Vec<Done>, bool), GivenUp> {
        let txn = self.begin()?;
        let mut done = Vec::with_capacity(jobs.len());
        let mut written = false;
        let now_ms = self.clock.now_ms();
        let stores_time = now_ms >= later_ms(self.stored_ms.get(), STORE_TIME_EVERY_MS);
        {
            let mut tables = self.tables(&txn);
            for job in jobs {
                match self.execute(&mut tables, job, wake) {
                    Ok((result, wrote)) => {
                        written |= wrote;
                        done.push(result);
                    }
                    Err(Trouble::Refused(error)) => done.push(Done::Refused(error)),
                    Err(Trouble::Later) => {
                        // A step towards what it waits for.
                        written = true;
                        done.push(Done::Later);
                    }
                    Err(broken) => return Err(broken.into()),
                }
            }
            if written && stores_time {
                let stored = tables.numbers.insert(CLOCK, now_ms);
                stored.map_err(Trouble::from)?;
            }
        }
        if written {
            kill::point("before_commit");
            txn.commit().map_err(|error| GivenUp {
                trouble: error.into(),
                at_commit: true,
            })?;
            kill::point("after_commit");
            if stores_time {
                self.stored_ms.set(now_ms);
            }
        } else {
            txn.abort().map_err(Trouble::from)?;
        }
        Ok((done, written))
    }

    fn execute(
        &self,
        tables: &mut Tables<'_>,
        job: &Job,
        wake: &mut BTreeSet<String>,
    ) -> Result<(Done, bool)> {
        let now_ms = self.clock.now_ms();
        match job {
            Job::Commit(batch, _) => {
                let receipt = commit::batch(tables, batch, now_ms)?;
                wake.extend(receipt.wake);
                if tables.has_listed {
                    self.has_remains.set(true);
                    self.sweeps.set(true);
                }
                Ok((Done::Counts(receipt.counts), !batch.operations.is_empty()))
            }
            // The caller has gone; a lease would only stand in the way until it runs out.
            Job::Claim(_, reply) if reply.is_closed() => {
                let nothing = Attempt::Nothing { due_ms: None };
                Ok((Done::Claimed(nothing), false))
            }
            Job::Claim(claim, _) => {
                let (attempt, written) = commit::claim(tables, claim, now_ms)?;
                Ok((Done::Claimed(attempt), written))
            }
            Job::Compact(_) | Job::Reopen => unreachable!("done apart from transactions"),
        }
    }

    fn wake(&self, jobs: &[Job], done: &[Done], queues: &BTreeSet<String>) {
        for queue in queues {
            self.wakeups.wake(queue);
        }
        for (job, done) in jobs.iter().zip(done) {
            if let (Job::Commit(batch, _), Done::Counts(_)) = (job, done) {
                for topic in &batch.topics {
                    self.wakeups.notify(topic);
                }
            }
        }
    }
}

impl Job {
    /// Answers; a caller that has gone does not need one.
    fn answer(self, done: Done) {
        let done = match done {
            Done::Later => Done::Refused(Trouble::Later.into_store_error()),
            done => done,
        };
        match (self, done) {
            (Self::Commit(_, reply), Done::Counts(counts)) => drop(reply.send(Ok(counts))),
            (Self::Claim(_, reply), Done::Claimed(attempt)) => drop(reply.send(Ok(attempt))),
            (Self::Commit(_, reply), Done::Refused(error)) => drop(reply.send(Err(error))),
            (Self::Claim(_, reply), Done::Refused(error)) => drop(reply.send(Err(error))),
            (Self::Compact(reply), Done::Refused(error)) => drop(reply.send(Err(error))),
            (Self::Reopen, _) => {}
            (Self::Commit(..) | Self::Claim(..) | Self::Compact(_), _) => {
                unreachable!("a job is answered in kind")
            }
        }
    }
}
