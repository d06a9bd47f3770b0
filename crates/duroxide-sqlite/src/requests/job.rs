//! A request on its way to a thread that owns a connection. In: a closure. Out: its answer, sent only after the
//! transaction it ran in has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::claims::waiting_claims::Wait;
use crate::error::SqliteError;
use crate::tx::{Result, Tx};

/// A request whose answer is held back until the transaction is committed.
pub(crate) trait Job: Send {
    /// Runs the request and keeps its answer. May be called again after the transaction was rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()>;

    /// Whether it looks at leases of turns or at claimed messages. Those of turns that are out are written first then.
    fn minds_leases(&self) -> bool {
        true
    }

    /// For a request that would rather wait than be answered with nothing.
    fn wait(&self) -> Option<Wait> {
        None
    }

    /// The transaction is committed: hand out the answer kept by [`run`](Self::run).
    fn answer(self: Box<Self>);

    /// The transaction never happened.
    fn fail(self: Box<Self>, error: SqliteError);
}

struct Request<F, T> {
    work: F,
    leases: Leases,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

/// What a request has to do with leases of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leases {
    /// It looks at them, or may do so.
    Minded,
    /// It passes them by, or knows of those that are not written.
    PassedBy,
}

/// Wraps a closure as a job; the receiver gets its answer.
pub(crate) fn job<F, T>(leases: Leases, work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>)
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let request = Request {
        work,
        leases,
        outcome: None,
        reply,
    };
    (Box::new(request), answer)
}

impl<F, T> Job for Request<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        // The caller went away before anything began: a write nobody waits for would surprise whoever looks next.
        if self.reply.is_closed() {
            return Ok(());
        }
        let outcome = guarded(|| (self.work)(tx));
        let verdict = verdict(&outcome);
        self.outcome = Some(outcome);
        verdict
    }

    fn minds_leases(&self) -> bool {
        self.leases == Leases::Minded
    }

    fn answer(self: Box<Self>) {
        // Nobody listens when the caller was dropped.
        let _ = self
            .reply
            .send(self.outcome.unwrap_or(Err(SqliteError::Closed)));
    }

    fn fail(self: Box<Self>, error: SqliteError) {
        let _ = self.reply.send(Err(error));
    }
}

/// Runs code that may call back into its caller's. A panic there must cost the caller its request, not everybody the
/// thread.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// What the transaction has to know about an outcome that is kept.
pub(crate) fn verdict<T>(outcome: &Result<T>) -> Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(error) => Err(error.clone()),
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> SqliteError {
    let detail = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned());
    SqliteError::Panicked { detail }
}
