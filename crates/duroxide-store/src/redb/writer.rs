//! The one writer. A thread takes whatever has queued up, runs the jobs one by one inside one transaction, commits once
//! and answers all: a lone job commits at once, a burst shares one flush to disk.
//!
//! A job that is refused is refused before it wrote anything, so the others of its transaction go on. If the file fails
//! in the middle, the transaction is given up and the jobs run again one by one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ::redb::Database;
use tokio::sync::oneshot;

use super::Durability;
use super::commit;
use super::error::{Result, Trouble};
use super::tables::Tables;
use crate::atomic::Batch;
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::queue::{Claim, Claimed};
use crate::wake::{Attempt, Wakeups};

type Reply<T> = oneshot::Sender<std::result::Result<T, StoreError>>;

/// Jobs that share one transaction at most.
const GROUP_MAX: usize = 512;
/// Longest time for which a relaxed commit stays in memory only.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

pub(super) enum Job {
    Commit(Batch, Reply<Vec<u64>>),
    Claim(Claim, Reply<Attempt<Vec<Claimed>>>),
}

/// A job that ran, waiting for the transaction to be on disk.
enum Done {
    Counts(Vec<u64>),
    Claimed(Attempt<Vec<Claimed>>),
    Refused(StoreError),
}

pub(super) struct Writer {
    pub(super) db: Arc<Database>,
    pub(super) clock: StoreClock,
    pub(super) wakeups: Arc<Wakeups>,
    pub(super) durability: Durability,
}

impl Writer {
    /// Works until nobody can send jobs any more, then flushes.
    pub(super) fn run(self, jobs: &Receiver<Job>) {
        let mut unflushed: Option<Instant> = None;
        loop {
            let patience = unflushed.map(|since| FLUSH_AFTER.saturating_sub(since.elapsed()));
            let first = match patience {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => jobs.recv_timeout(patience),
            };
            match first {
                Ok(first) => {
                    let rest = jobs.try_iter().take(GROUP_MAX - 1);
                    let group = std::iter::once(first).chain(rest).collect();
                    if self.work(group) && self.durability == Durability::Relaxed {
                        unflushed = unflushed.or_else(|| Some(Instant::now()));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.flush_if(unflushed.is_some());
                    return;
                }
            }
            if unflushed.is_some_and(|since| since.elapsed() >= FLUSH_AFTER) {
                self.flush_if(true);
                unflushed = None;
            }
        }
    }

    fn flush_if(&self, needed: bool) {
        let flush = || -> Result<()> {
            let mut txn = self.db.begin_write()?;
            txn.set_durability(::redb::Durability::Immediate)?;
            Ok(txn.commit()?)
        };
        if needed && let Err(trouble) = flush() {
            let error = trouble.into_store_error();
            tracing::error!(target: "duroxide::providers::redb", %error, "relaxed commits could not be flushed");
        }
    }

    /// Runs a group of jobs and answers them; returns whether anything was written.
    fn work(&self, jobs: Vec<Job>) -> bool {
        let mut wake = BTreeSet::new();
        match self.transact(&jobs, &mut wake) {
            Ok((done, written)) => {
                self.wake(&jobs, &done, &wake);
                for (job, done) in jobs.into_iter().zip(done) {
                    job.answer(done);
                }
                written
            }
            Err(trouble) if jobs.len() == 1 => {
                let error = trouble.into_store_error();
                for job in jobs {
                    job.answer(Done::Refused(error.clone()));
                }
                false
            }
            Err(_) => {
                let mut written = false;
                for job in jobs {
                    written |= self.work(vec![job]);
                }
                written
            }
        }
    }

    fn transact(&self, jobs: &[Job], wake: &mut BTreeSet<String>) -> Result<(Vec<Done>, bool)> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(match self.durability {
            Durability::Full => ::redb::Durability::Immediate,
            Durability::Relaxed => ::redb::Durability::None,
        })?;
        let mut done = Vec::with_capacity(jobs.len());
        let mut written = false;
        {
            let mut tables = Tables::open(&txn)?;
            for job in jobs {
                match self.execute(&mut tables, job, wake) {
                    Ok((result, wrote)) => {
                        written |= wrote;
                        done.push(result);
                    }
                    Err(Trouble::Refused(error)) => done.push(Done::Refused(error)),
                    Err(broken) => return Err(broken),
                }
            }
        }
        if written {
            txn.commit()?;
        } else {
            txn.abort()?;
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
                Ok((Done::Counts(receipt.counts), !batch.operations.is_empty()))
            }
            // Whoever asked has gone; a lease would only stand in the way until it lapses.
            Job::Claim(_, reply) if reply.is_closed() => {
                let nothing = Attempt::Nothing { due_ms: None };
                Ok((Done::Claimed(nothing), false))
            }
            Job::Claim(claim, _) => {
                let (attempt, written) = commit::claim(tables, claim, now_ms)?;
                Ok((Done::Claimed(attempt), written))
            }
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
        match (self, done) {
            (Self::Commit(_, reply), Done::Counts(counts)) => drop(reply.send(Ok(counts))),
            (Self::Claim(_, reply), Done::Claimed(attempt)) => drop(reply.send(Ok(attempt))),
            (Self::Commit(_, reply), Done::Refused(error)) => drop(reply.send(Err(error))),
            (Self::Claim(_, reply), Done::Refused(error)) => drop(reply.send(Err(error))),
            (Self::Commit(..), Done::Claimed(_)) | (Self::Claim(..), Done::Counts(_)) => {
                unreachable!("a job is answered in kind")
            }
        }
    }
}
