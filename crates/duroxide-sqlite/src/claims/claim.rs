//! One claim on its way to the writer and back. In: how to claim, and how to give back. Out: what was claimed, or
//! nothing once the caller's deadline has passed. Until then the writer keeps the claim and tries it again whenever
//! there may be something for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use duroxide_core::provider::HandOut;
use duroxide_core::provider::rules::Refusal;
use tokio::sync::oneshot;

use crate::error::{Result, SqliteError};
use crate::ops::claim_try::ClaimTry;
use crate::requests::{
    Answer, CallerState, ClaimQueue, ClaimState, Job, LeaseView, catch_panic, verdict,
};
use crate::writer_tx::WriterTx;

/// Whether the deadline of a caller has passed. The caller sets it, the writer reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deadline(Arc<AtomicBool>);

impl Deadline {
    /// For a caller that does not wait.
    pub(crate) fn already_passed() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// The caller waits no longer.
    pub(crate) fn pass(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn has_passed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Where a claim sends the job that gives back what its caller does not take: the inbox of the writer.
pub(crate) trait GiveBack: Send + Sync {
    fn give_back(&self, job: Box<dyn Job>);
}

/// How one claimed thing is given back in a transaction.
type Undo<T> = Arc<dyn Fn(&mut WriterTx<'_>, &T) -> Result<()> + Send + Sync>;

struct Claim<F, T: Send + 'static> {
    queue: ClaimQueue,
    work: F,
    undo: Undo<T>,
    /// The last try.
    tried: Option<Result<ClaimTry<T>>>,
    deadline: Deadline,
    reply: oneshot::Sender<Result<ClaimReply<T>>>,
    writer: Arc<dyn GiveBack>,
}

/// Wraps a closure that claims. `undo` gives back, by a job of its own, what the caller was not there to take.
pub(crate) fn claim<F, T, U>(
    queue: ClaimQueue,
    deadline: Deadline,
    writer: Arc<dyn GiveBack>,
    work: F,
    undo: U,
) -> (Box<dyn Job>, oneshot::Receiver<Result<ClaimReply<T>>>)
where
    F: FnMut(&mut WriterTx<'_>) -> Result<ClaimTry<T>> + Send + 'static,
    T: Send + 'static,
    U: Fn(&mut WriterTx<'_>, &T) -> Result<()> + Send + Sync + 'static,
{
    let (reply, answer) = oneshot::channel();
    let claim = Claim {
        queue,
        work,
        undo: Arc::new(undo),
        tried: None,
        deadline,
        reply,
        writer,
    };
    (Box::new(claim), answer)
}

impl<F, T> Job for Claim<F, T>
where
    F: FnMut(&mut WriterTx<'_>) -> Result<ClaimTry<T>> + Send,
    T: Send + 'static,
{
    fn run(&mut self, tx: &mut WriterTx<'_>) -> Result<()> {
        // A lease for a caller that is gone would keep other callers from the work.
        if self.reply.is_closed() {
            self.tried = Some(Ok(ClaimTry::nothing()));
            return Ok(());
        }
        let tried = catch_panic(|| (self.work)(tx));
        let verdict = verdict(&tried);
        self.tried = Some(tried);
        verdict
    }

    fn lease_view(&self) -> LeaseView {
        // It passes over instances whose turns are in flight.
        LeaseView::NotNeeded
    }

    fn claim_state(&self) -> Option<ClaimState> {
        let (has_answer, leaves_more, hand_out, due) = match &self.tried {
            None => (false, false, HandOut::AfterCommit, None),
            Some(Ok(tried)) => (
                !tried.found.is_empty(),
                tried.leaves_more,
                tried.hand_out,
                tried.due,
            ),
            Some(Err(_)) => (true, false, HandOut::AfterCommit, None),
        };
        let caller = if self.reply.is_closed() {
            CallerState::Gone
        } else if self.deadline.has_passed() {
            CallerState::DeadlinePassed
        } else {
            CallerState::Waiting
        };
        Some(ClaimState {
            queue: self.queue,
            caller,
            has_answer,
            leaves_more,
            hand_out,
            due,
        })
    }
}

impl<F: Send, T: Send + 'static> Answer for Claim<F, T> {
    fn answer(self: Box<Self>) {
        let Self {
            tried,
            undo,
            writer,
            reply,
            ..
        } = *self;
        let tried = tried.unwrap_or(Err(SqliteError::Closed));
        // If the caller is gone, the reply is dropped here and gives back what was claimed.
        let _ = reply.send(tried.map(|tried| ClaimReply {
            found: tried.found,
            undo,
            writer,
        }));
    }

    fn fail(self: Box<Self>, error: SqliteError) {
        let _ = self.reply.send(Err(error));
    }
}

/// What was claimed, on its way to the caller. If it is dropped before the caller accepts it, it gives back what it
/// holds: the leases would keep other callers from the work until they run out.
pub(crate) struct ClaimReply<T: Send + 'static> {
    found: Vec<T>,
    undo: Undo<T>,
    writer: Arc<dyn GiveBack>,
}

impl<T: Send + 'static> ClaimReply<T> {
    /// What was claimed, which is given back as long as it is not accepted.
    pub(crate) fn found(&mut self) -> &mut [T] {
        &mut self.found
    }

    pub(crate) fn accept(self) -> Vec<T> {
        self.accept_if(|_| true)
    }

    /// Accepts some of it; the rest is given back.
    pub(crate) fn accept_if(mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let found = std::mem::take(&mut self.found).into_iter();
        let (wanted, unwanted) = found.partition(is_wanted);
        self.found = unwanted;
        wanted
    }
}

impl<T: Send + 'static> Drop for ClaimReply<T> {
    fn drop(&mut self) {
        if self.found.is_empty() {
            return;
        }
        self.writer.give_back(Box::new(Unclaim {
            unwanted: std::mem::take(&mut self.found),
            undo: Arc::clone(&self.undo),
        }));
    }
}

/// The job that gives back what was claimed for a caller that is gone.
struct Unclaim<T> {
    unwanted: Vec<T>,
    undo: Undo<T>,
}

impl<T: Send> Job for Unclaim<T> {
    fn run(&mut self, tx: &mut WriterTx<'_>) -> Result<()> {
        for one in &self.unwanted {
            match (self.undo)(tx, one) {
                // Its lease is lost already; the others are still to be given back.
                Ok(()) | Err(SqliteError::Contract(Refusal::InvalidToken)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<T: Send> Answer for Unclaim<T> {
    fn answer(self: Box<Self>) {}

    fn fail(self: Box<Self>, error: SqliteError) {
        tracing::debug!(target: "duroxide::providers::sqlite", %error, "an unwanted claim could not be given back, its lease will run out");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::connection::LastShutdown;
    use crate::connection::database;
    use crate::connection::statements::Statements;
    use crate::damage::DamagedRows;
    use crate::early::{CrashCaution, InFlight};
    use crate::watch::Watches;
    use crate::writer_memory::WriterMemory;
    use crate::writer_tx::WriterState;

    /// Keeps the jobs that a writer would get.
    #[derive(Default)]
    struct Returned(Mutex<Vec<Box<dyn Job>>>);

    impl GiveBack for Returned {
        fn give_back(&self, job: Box<dyn Job>) {
            self.0.lock().unwrap().push(job);
        }
    }

    #[test]
    fn a_reply_that_is_not_accepted_is_given_back_even_if_part_of_it_is_no_longer_held() {
        let conn = database::open_memory().unwrap();
        let statements = Statements::new(&conn);
        let state = WriterState {
            watches: &Watches::default(),
            in_flight: &InFlight::default(),
            memory: &WriterMemory::default(),
            caution: &CrashCaution::new(LastShutdown::Clean, 0),
            damaged: &DamagedRows::default(),
            unswept: &crate::unswept::Unswept::default(),
        };
        let mut tx = WriterTx::new(&statements, crate::tx::Reading { now: 0, ahead: 0 }, state);
        let returned = Arc::new(Returned::default());
        let given_back = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&given_back);
        let work = |_: &mut WriterTx<'_>| {
            Ok(ClaimTry {
                found: vec!["lost", "held"],
                ..ClaimTry::nothing()
            })
        };
        let undo = move |_: &mut WriterTx<'_>, found: &&'static str| {
            seen.lock().unwrap().push(*found);
            match *found {
                "lost" => Err(Refusal::InvalidToken.into()),
                _ => Ok(()),
            }
        };
        let writer = Arc::clone(&returned) as Arc<dyn GiveBack>;
        let (mut job, answer) = claim(ClaimQueue::Turns, Deadline::default(), writer, work, undo);
        job.run(&mut tx).unwrap();
        job.answer();
        // The caller drops its call while the reply is on its way.
        drop(answer);
        let mut job = returned.0.lock().unwrap().pop().expect("a job");
        job.run(&mut tx).unwrap();
        assert_eq!(*given_back.lock().unwrap(), ["lost", "held"]);
    }
}
