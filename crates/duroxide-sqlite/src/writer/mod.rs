//! The one thread that writes. In: messages, as many as have queued up. Out: one commit for all their jobs, then the
//! answers and notifications. It does not wait for jobs that might come: a lone job commits at once, a burst shares one
//! sync. Only for turns that it has handed out early does it wait, for a moment (`fill.rs`).
//!
//! While claims wait or instances are watched, the thread also checks whether another process has committed.

mod batch;
mod fill;
mod group;
mod outage;
mod source;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use self::batch::Batch;
use self::outage::Outage;
use crate::checkpoint::{Checkpointer, Emptied, Failures};
use crate::claims::{GiveBack, WaitingClaims};
use crate::connection::busy;
use crate::connection::statements::Statements;
use crate::counted::Counted;
use crate::damage::DamagedRows;
use crate::early::{CrashCaution, InFlight, Uncommitted};
use crate::error::{Result, SqliteError};
use crate::kill;
use crate::other_processes::ForeignCommits;
use crate::requests::{Inbox, Job, Took};
use crate::store_clock::StoreClock;
use crate::unswept::Unswept;
use crate::watch::Watches;
use crate::writer_memory::WriterMemory;
use crate::writer_tx::WriterState;

pub(crate) use group::Group;
#[cfg(test)]
pub(crate) use group::Ran;
pub(crate) use source::Source;

/// How many jobs share one commit at most; bounds what one failed commit takes with it.
const GROUP_MAX: usize = 256;
/// How long the writer polls for the next request before it sleeps: about as long as a short turn takes.
const LINGER: Duration = Duration::from_micros(100);

/// What reaches the writer.
pub(crate) enum WriterMessage {
    Job(Box<dyn Job>),
    /// A caller began to wait, or waits no longer, or another process may have committed: the writer looks again.
    LookAgain,
    /// Stands for a defect of the writer.
    #[cfg(test)]
    Panic,
    /// Copy the log into the database file and empty it.
    Checkpoint(oneshot::Sender<Result<Emptied>>),
}

impl GiveBack for Inbox<WriterMessage> {
    fn give_back(&self, job: Box<dyn Job>) {
        // After the store was closed, the lease runs out by itself.
        let _ = self.push(WriterMessage::Job(job));
    }
}

/// The thread's own state.
pub(crate) struct Writer {
    pub(crate) source: Source,
    pub(crate) inbox: Arc<Inbox<WriterMessage>>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) uncommitted: Arc<Uncommitted>,
    pub(crate) memory: WriterMemory,
    pub(crate) caution: CrashCaution,
    pub(crate) damaged: DamagedRows,
    pub(crate) unswept: Arc<Unswept>,
    pub(crate) failed_checkpoints: Failures,
    pub(crate) counted: Arc<Counted>,
    pub(crate) clock: Arc<StoreClock>,
    /// How long a claim waits for its next try at most.
    pub(crate) recheck: Duration,
}

/// Why the writer stops using a connection.
enum End {
    /// The store is closed.
    Closed,
    /// The disk failed: the connection must not be used again.
    Spoilt,
    /// A defect of this crate ended the work. The requests of its transaction are dropped, and their callers learn it.
    Panicked,
}

impl Writer {
    /// Works until the store is closed, then closes the connection. Nothing else ends the thread: while the database is
    /// out of reach the thread tries to open it again, and after a panic it begins anew.
    pub(crate) fn run(mut self) {
        let mut batch = Batch::default();
        let mut claims = WaitingClaims::new(self.recheck);
        let mut checkpointer = Checkpointer::new(
            self.source.database().cloned(),
            self.failed_checkpoints.clone(),
        );
        let mut outage = Outage::default();
        loop {
            match self.source.connect() {
                Ok(conn) => {
                    outage.is_over();
                    match self.work_with(&conn, &mut batch, &mut claims, &mut checkpointer) {
                        End::Closed => {
                            // Its connection must not outlive the writer's, which checkpoints the log as it closes.
                            drop(checkpointer);
                            return;
                        }
                        End::Spoilt => {
                            tracing::warn!(target: "duroxide::providers::sqlite", "the writer opens its connection again");
                        }
                        End::Panicked => {
                            tracing::error!(target: "duroxide::providers::sqlite", "the writer panicked and begins anew");
                        }
                    }
                    self.source.keep_private(conn);
                }
                Err(error) => {
                    let error = outage.goes_on(&error);
                    batch.jobs.extend(claims.take_overdue());
                    batch.fail(&error);
                }
            }
            // While claims wait, the thread tries to connect again after a pause; otherwise with the next request.
            let pause = outage.pause().filter(|_| !claims.is_empty());
            let wait = if outage.is_on() {
                pause
            } else {
                Some(Duration::ZERO)
            };
            if self.gather(wait, &mut batch, &mut claims) == Took::Closed {
                batch.jobs.extend(claims.take_all());
                batch.fail(&SqliteError::Closed);
                return;
            }
        }
    }

    fn work_with(
        &self,
        conn: &Connection,
        batch: &mut Batch,
        claims: &mut WaitingClaims,
        checkpointer: &mut Checkpointer,
    ) -> End {
        self.memory.connection_changed();
        let statements = Statements::new(conn);
        let work = || self.serve(&statements, batch, claims, checkpointer);
        // A panic leaves nothing half done: the group rolls back when it is dropped, and the rest are queues of
        // requests.
        let end = catch_unwind(AssertUnwindSafe(work)).unwrap_or(End::Panicked);
        self.uncommitted.set(false);
        end
    }

    fn serve(
        &self,
        statements: &Statements<'_>,
        batch: &mut Batch,
        claims: &mut WaitingClaims,
        checkpointer: &mut Checkpointer,
    ) -> End {
        let mut foreign = ForeignCommits::new(self.source.log());
        let mut took = Took::Some;
        loop {
            if !batch.is_empty() || claims.any_due(Instant::now()) {
                // A claim that is tried again alone usually writes nothing.
                if !batch.is_empty() {
                    foreign.note_own_commit();
                }
                if let Err(error) = self.commit(statements, batch, claims, checkpointer) {
                    let spoilt = error.spoils_connection();
                    // Waiting claims fail too: the writer would try them, and fail, again and again.
                    batch.jobs.extend(claims.take_all());
                    batch.fail(&error);
                    if spoilt && self.source.is_shared() {
                        return End::Spoilt;
                    }
                }
                let kept_short = checkpointer.after_commit(statements.connection());
                if kept_short.is_err() && self.source.is_shared() {
                    return End::Spoilt;
                }
            }
            if self.must_check_others(claims) {
                self.check_others(statements, &mut foreign, claims);
            }
            let wait = self.longest_wait(batch, claims, &foreign);
            if took == Took::Some && wait != Some(Duration::ZERO) {
                // One request rarely comes alone.
                self.inbox.linger(LINGER);
            }
            took = self.gather(wait, batch, claims);
            if took == Took::Closed && batch.is_empty() {
                return End::Closed;
            }
        }
    }

    /// Whether anything here depends on commits of other processes.
    fn must_check_others(&self, claims: &WaitingClaims) -> bool {
        !claims.is_empty() || !self.watches.is_empty()
    }

    /// Adds what has queued up to the batch and to the waiting claims. Waits for it, but no longer than given.
    fn gather(
        &self,
        wait: Option<Duration>,
        batch: &mut Batch,
        claims: &mut WaitingClaims,
    ) -> Took {
        let took = self.inbox.take(GROUP_MAX, wait, &mut batch.messages);
        let now = Instant::now();
        for message in batch.messages.drain(..) {
            match message {
                WriterMessage::Job(job) => match job.claim_state() {
                    None => batch.jobs.push(job),
                    Some(state) => claims.add(job, &state, now),
                },
                WriterMessage::LookAgain => {}
                #[cfg(test)]
                WriterMessage::Panic => panic!("asked for"),
                WriterMessage::Checkpoint(reply) => batch.checkpoints.push(reply),
            }
        }
        took
    }

    /// How long the thread may sleep if nothing comes; `None` for ever.
    fn longest_wait(
        &self,
        batch: &Batch,
        claims: &WaitingClaims,
        foreign: &ForeignCommits,
    ) -> Option<Duration> {
        let now = Instant::now();
        if !batch.is_empty() || claims.any_due(now) {
            return Some(Duration::ZERO);
        }
        let check = foreign
            .next_check()
            .filter(|_| self.must_check_others(claims));
        let due = claims
            .next_due()
            .map(|at| at.saturating_duration_since(now));
        check.into_iter().chain(due).min()
    }

    /// Runs the jobs as one group and commits it, answers them, then does the checkpoints. On an error it has answered
    /// nothing but early claims, whose leases are void.
    fn commit(
        &self,
        statements: &Statements<'_>,
        batch: &mut Batch,
        claims: &mut WaitingClaims,
        checkpointer: &mut Checkpointer,
    ) -> Result<()> {
        self.source.check()?;
        let in_flight = InFlight::default();
        let state = WriterState {
            watches: &self.watches,
            in_flight: &in_flight,
            memory: &self.memory,
            caution: &self.caution,
            damaged: &self.damaged,
            unswept: &self.unswept,
        };
        let began = Instant::now();
        let mut group = Group::begin(statements, &self.clock, state)?;
        let committed = self
            .fill(&mut group, batch, claims, &in_flight)
            .and_then(|()| group.commit());
        let (jobs, mut effects) = group.into_parts();
        self.uncommitted.set(false);
        if let Err(error) = committed {
            self.caution.distrust(in_flight.forget());
            self.memory.forget_all();
            batch.jobs.extend(jobs);
            return Err(error);
        }
        kill::point("before_answer");
        let (now, now_ms) = (Instant::now(), self.now_ms());
        self.counted.commit(jobs.len(), now - began);
        self.counted.waited(busy::take_waits());
        for effects in &effects {
            self.watches.remember(effects);
        }
        // Callers before watches: a caller may count what it did before a watcher reads it.
        for job in jobs {
            let answered = match job.claim_state() {
                None => Some(job),
                Some(state) => claims.keep_unless_answered(job, &state, now, now_ms),
            };
            if let Some(job) = answered {
                job.answer();
            }
        }
        for effects in &mut effects {
            self.watches.notify(effects);
        }
        for reply in batch.checkpoints.drain(..) {
            let _ = reply.send(checkpointer.empty(statements.connection()));
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.clock.now()
    }

    /// After a commit of another process, every claim is due and every watch is notified.
    fn check_others(
        &self,
        statements: &Statements<'_>,
        foreign: &mut ForeignCommits,
        claims: &mut WaitingClaims,
    ) {
        let inbox = Arc::clone(&self.inbox);
        // If the store is closed, there is nothing left to notice.
        let notify = move || drop(inbox.push(WriterMessage::LookAgain));
        if foreign.check(statements, notify) {
            claims.queues_changed();
            self.watches.everything_changed();
        }
    }
}
