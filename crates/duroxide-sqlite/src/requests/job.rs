//! A request on its way to a thread that owns a connection. In: a closure. Out: its answer, sent only after the
//! transaction it ran in has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use duroxide_core::provider::HandOut;
use tokio::sync::oneshot;

use crate::error::{Result, SqliteError};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// A request that keeps its answer until its transaction has ended.
pub(crate) trait Answer: Send {
    /// Sends the answer that the request kept when it ran.
    fn answer(self: Box<Self>);

    /// Sends this error instead: the transaction was rolled back, or never began.
    fn fail(self: Box<Self>, error: SqliteError);
}

/// A request for the writer.
pub(crate) trait Job: Answer {
    /// Runs the request and keeps its answer. The writer may call it again after it rolled the transaction back.
    fn run(&mut self, tx: &mut WriterTx<'_>) -> Result<()>;

    /// Whether the leases of turns in flight, and all messages, must be in the tables before it runs.
    fn lease_view(&self) -> LeaseView {
        LeaseView::Needed
    }

    /// For a claim, which may wait for something to claim: where it stands. `None` for any other request.
    fn claim_state(&self) -> Option<ClaimState> {
        None
    }
}

/// A request for a reader.
pub(crate) trait ReadJob: Answer {
    /// Runs the request and keeps its answer.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()>;
}

/// What a request has to see of the leases of turns, and of the messages for instances. The leases of turns in flight,
/// and messages that were enqueued in the same transaction, are written only if a request needs them (see `early`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseView {
    /// It reads or changes them, or may do so.
    Needed,
    /// It does not read them, or it asks `InFlight` and `Unwritten` about those that are not written.
    NotNeeded,
}

/// The two queues that can be claimed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimQueue {
    Turns,
    Work,
}

/// Whether the caller of a claim still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerState {
    /// It waits for something to claim.
    Waiting,
    /// Its deadline has passed: it takes any answer.
    DeadlinePassed,
    /// It dropped its call.
    Gone,
}

/// Where a claim stands after its last try, or before the first one.
#[derive(Debug)]
pub(crate) struct ClaimState {
    pub(crate) queue: ClaimQueue,
    pub(crate) caller: CallerState,
    /// Whether it has something for its caller: what it claimed, or an error.
    pub(crate) has_answer: bool,
    /// Whether its last try left something in the queue.
    pub(crate) leaves_more: bool,
    /// Whether the writer answers it before or after the commit.
    pub(crate) hand_out: HandOut,
    /// When something becomes claimable, as its last try found out.
    pub(crate) due: Option<i64>,
}

struct Request<F, T> {
    work: F,
    lease_view: LeaseView,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Request<F, T> {
    fn new(lease_view: LeaseView, work: F) -> (Self, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        let request = Self {
            work,
            lease_view,
            outcome: None,
            reply,
        };
        (request, answer)
    }

    /// Runs the closure and keeps its outcome. A request whose caller has dropped its call does nothing.
    fn keep(&mut self, run: impl FnOnce(&mut F) -> Result<T>) -> Result<()> {
        if self.reply.is_closed() {
            return Ok(());
        }
        let outcome = catch_panic(|| run(&mut self.work));
        let verdict = verdict(&outcome);
        self.outcome = Some(outcome);
        verdict
    }
}

/// Wraps a closure as a job for the writer; the receiver gets its answer.
pub(crate) fn write_job<F, T>(
    lease_view: LeaseView,
    work: F,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>)
where
    F: FnMut(&mut WriterTx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    let (request, answer) = Request::new(lease_view, work);
    (Box::new(request), answer)
}

/// Wraps a closure as a job for a reader; the receiver gets its answer.
pub(crate) fn read_job<F, T>(work: F) -> (Box<dyn ReadJob>, oneshot::Receiver<Result<T>>)
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    let (request, answer) = Request::new(LeaseView::NotNeeded, work);
    (Box::new(request), answer)
}

impl<F: Send, T: Send> Answer for Request<F, T> {
    fn answer(self: Box<Self>) {
        // Fails only if the caller dropped its call.
        let _ = self
            .reply
            .send(self.outcome.unwrap_or(Err(SqliteError::Closed)));
    }

    fn fail(self: Box<Self>, error: SqliteError) {
        let _ = self.reply.send(Err(error));
    }
}

impl<F, T> Job for Request<F, T>
where
    F: FnMut(&mut WriterTx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut WriterTx<'_>) -> Result<()> {
        self.keep(|work| work(tx))
    }

    fn lease_view(&self) -> LeaseView {
        self.lease_view
    }
}

impl<F, T> ReadJob for Request<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        self.keep(|work| work(tx))
    }
}

/// Runs code that may call back into the caller's own code. A panic in it fails this request, and not the thread.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
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
