//! The one thread that writes. In: jobs, as many as have queued up. Out: one commit for all of them, then their
//! answers and wake-ups. Never waits for jobs that might come: a lone job commits at once, a burst shares one sync.
//! Only for turns that it has handed out itself does it wait, a moment (`fill.rs`).
//!
//! While somebody waits for work, the thread also looks whether another process has committed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::checkpoint::{Checkpointer, Emptied, Failures};
use crate::claims::waiting_claims::Lobby;
use crate::connection::statements::Statements;
use crate::early::in_flight::{Ahead, Uncommitted};
use crate::early::recent_instances::Known;
use crate::error::SqliteError;
use crate::kill;
use crate::other_processes::ForeignCommits;
use crate::requests::inbox::{Inbox, Took};
use crate::requests::job::Job;
use crate::store_clock::StoreClock;
use crate::tx::{Aware, Result};
use crate::watch::Wake;
use crate::writer::group::Group;

mod fill;
pub(crate) mod group;
mod outage;
mod source;

use outage::Outage;

pub(crate) use source::Source;

/// How many jobs share one commit at most; bounds what one failed commit takes with it.
const GROUP_MAX: usize = 256;
/// How long the writer looks out for the next request before it sleeps: about as long as a short turn takes.
const LINGER: Duration = Duration::from_micros(100);

pub(crate) enum Message {
    Job(Box<dyn Job>),
    /// Look around: somebody began to wait, or no longer does.
    Nudge,
    /// Stands for a defect of the writer.
    #[cfg(test)]
    Panic,
    /// Copy the log into the database file and empty it.
    Checkpoint(oneshot::Sender<Result<Emptied>>),
}

/// What has queued up.
#[derive(Default)]
struct Batch {
    /// As they came; empty between two gatherings.
    messages: Vec<Message>,
    jobs: Vec<Box<dyn Job>>,
    checkpoints: Vec<oneshot::Sender<Result<Emptied>>>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.checkpoints.is_empty()
    }

    fn fail(&mut self, error: &SqliteError) {
        for job in self.jobs.drain(..) {
            job.fail(error.clone());
        }
        for reply in self.checkpoints.drain(..) {
            // Nobody listens when the caller was dropped.
            let _ = reply.send(Err(error.clone()));
        }
    }
}

pub(crate) struct Writer {
    pub(crate) source: Source,
    pub(crate) inbox: Arc<Inbox<Message>>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) uncommitted: Arc<Uncommitted>,
    pub(crate) known: Known,
    pub(crate) failed_checkpoints: Failures,
    pub(crate) clock: Arc<StoreClock>,
    /// How long a claim rests at most.
    pub(crate) recheck: Duration,
}

/// Why a connection is no longer served.
enum End {
    /// The store is dropped.
    Closed,
    /// The disk failed: the connection must not be used again.
    Spoilt,
    /// A defect of this crate ended the work; who waited for an answer hears so.
    Panicked,
}

impl Writer {
    /// Works until the store is dropped, then closes the connection. Nothing else ends the thread: while the database
    /// is out of reach it is tried again, and work that panicked is begun anew.
    pub(crate) fn run(mut self) {
        let mut batch = Batch::default();
        let mut lobby = Lobby::new(self.recheck);
        let mut checkpointer = Checkpointer::new(
            self.source.database().cloned(),
            self.failed_checkpoints.clone(),
        );
        let mut outage = Outage::default();
        loop {
            match self.source.connect() {
                Ok(conn) => {
                    outage.is_over();
                    match self.work_with(&conn, &mut batch, &mut lobby, &mut checkpointer) {
                        End::Closed => {
                            // Its connection must not outlive the writer's, which empties the log at the end.
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
                    batch.jobs.extend(lobby.give_up());
                    batch.fail(&error);
                }
            }
            // While somebody waits, the connection is tried again now and then; else by the next request.
            let pause = outage.pause().filter(|_| !lobby.is_empty());
            let wait = if outage.is_on() {
                pause
            } else {
                Some(Duration::ZERO)
            };
            if self.gather(wait, &mut batch, &mut lobby) == Took::Closed {
                batch.jobs.extend(lobby.dismiss());
                batch.fail(&SqliteError::Closed);
                return;
            }
        }
    }

    fn work_with(
        &self,
        conn: &Connection,
        batch: &mut Batch,
        lobby: &mut Lobby,
        checkpointer: &mut Checkpointer,
    ) -> End {
        self.known.begin_anew();
        let statements = Statements::new(conn);
        let work = || self.serve(&statements, batch, lobby, checkpointer);
        // What the work leaves half done is undone: an open group by its drop, the rest is queues of requests.
        let end = catch_unwind(AssertUnwindSafe(work)).unwrap_or(End::Panicked);
        self.uncommitted.say(false);
        end
    }

    fn serve(
        &self,
        statements: &Statements<'_>,
        batch: &mut Batch,
        lobby: &mut Lobby,
        checkpointer: &mut Checkpointer,
    ) -> End {
        let mut foreign = ForeignCommits::new(self.source.log());
        let mut took = Took::Some;
        loop {
            if !batch.is_empty() || lobby.is_anybody_called(Instant::now()) {
                // A claim alone that is tried again usually writes nothing.
                if !batch.is_empty() {
                    foreign.note_own_commit();
                }
                if let Err(error) = self.work_off(statements, batch, lobby, checkpointer) {
                    let spoilt = error.spoils_connection();
                    // Claims that wait hear of it too: they would be tried, and fail, again and again.
                    batch.jobs.extend(lobby.dismiss());
                    batch.fail(&error);
                    if spoilt && self.source.is_shared() {
                        return End::Spoilt;
                    }
                }
                checkpointer.after_commit(statements.connection());
            }
            if self.anybody_waits(lobby) {
                self.look(statements, &mut foreign, lobby);
            }
            let rest = self.rest(batch, lobby, &foreign);
            if took == Took::Some && rest != Some(Duration::ZERO) {
                // One request rarely comes alone.
                self.inbox.linger(LINGER);
            }
            took = self.gather(rest, batch, lobby);
            if took == Took::Closed && batch.is_empty() {
                return End::Closed;
            }
        }
    }

    fn anybody_waits(&self, lobby: &Lobby) -> bool {
        !lobby.is_empty() || self.wake.anybody_waits()
    }

    /// Adds what has queued up; adds nothing when it is time to look around.
    fn gather(&self, wait: Option<Duration>, batch: &mut Batch, lobby: &mut Lobby) -> Took {
        let took = self.inbox.take(GROUP_MAX, wait, &mut batch.messages);
        let now = Instant::now();
        for message in batch.messages.drain(..) {
            match message {
                Message::Job(job) => match job.wait() {
                    None => batch.jobs.push(job),
                    Some(wait) => lobby.admit(job, &wait, now),
                },
                Message::Nudge => {}
                #[cfg(test)]
                Message::Panic => panic!("asked for"),
                Message::Checkpoint(reply) => batch.checkpoints.push(reply),
            }
        }
        took
    }

    /// How long there is nothing to do if nothing comes.
    fn rest(&self, batch: &Batch, lobby: &Lobby, foreign: &ForeignCommits) -> Option<Duration> {
        let now = Instant::now();
        if !batch.is_empty() || lobby.is_anybody_called(now) {
            return Some(Duration::ZERO);
        }
        let look = foreign.next_look().filter(|_| self.anybody_waits(lobby));
        let call = lobby
            .next_call()
            .map(|at| at.saturating_duration_since(now));
        look.into_iter().chain(call).min()
    }

    /// Commits the jobs as one group, then does the checkpoints. On an error nothing was answered yet but claims taken
    /// ahead, which are void then.
    fn work_off(
        &self,
        statements: &Statements<'_>,
        batch: &mut Batch,
        lobby: &mut Lobby,
        checkpointer: &mut Checkpointer,
    ) -> Result<()> {
        self.source.check()?;
        let ahead = Ahead::default();
        let aware = Aware {
            wake: &self.wake,
            ahead: &ahead,
            known: &self.known,
        };
        let mut group = Group::begin(statements, &self.clock, aware)?;
        let committed = self
            .fill(&mut group, batch, lobby, &ahead)
            .and_then(|()| group.commit());
        let (jobs, mut effects) = group.into_parts();
        self.uncommitted.say(false);
        if let Err(error) = committed {
            self.known.doubt(ahead.forget());
            self.known.forget_all();
            batch.jobs.extend(jobs);
            return Err(error);
        }
        kill::point("before_answer");
        let (now, now_ms) = (Instant::now(), self.now_ms());
        for effects in &effects {
            self.wake.remember(effects);
        }
        // Who asked hears first: it may count what it did before somebody who was waiting for it looks.
        for job in jobs {
            let answered = match job.wait() {
                None => Some(job),
                Some(wait) => lobby.settle(job, &wait, now, now_ms),
            };
            if let Some(job) = answered {
                job.answer();
            }
        }
        for effects in &mut effects {
            self.wake.announce(effects);
        }
        for reply in batch.checkpoints.drain(..) {
            let _ = reply.send(checkpointer.empty(statements.connection()));
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.clock.now()
    }

    fn look(&self, statements: &Statements<'_>, foreign: &mut ForeignCommits, lobby: &mut Lobby) {
        let inbox = Arc::clone(&self.inbox);
        // If the store is closed there is nothing left to notice.
        let nudge = move || drop(inbox.push(Message::Nudge));
        if foreign.have_happened(statements, nudge) {
            lobby.ring_all();
            self.wake.ring_all();
        }
    }
}
