//! A claim on its way to the writer. In: how to claim, and how to give back. Out: what was found, or nothing once the
//! caller's patience is over. Until then the writer keeps it and tries again whenever there may be something.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::error::SqliteError;
use crate::job::{Job, guarded, verdict};
use crate::lobby::{Patience, Queue, Wait};
use crate::tx::{Result, Tx};

/// What one try to claim something brought.
#[derive(Debug)]
pub(crate) struct Tried<T> {
    pub(crate) found: Vec<T>,
    /// Whether the claim took all it asked for, so that there may be more.
    pub(crate) leaves_more: bool,
    /// If nothing was found: when something becomes claimable unless somebody writes.
    pub(crate) due: Option<i64>,
}

impl<T> Tried<T> {
    pub(crate) fn nothing() -> Self {
        Self {
            found: Vec::new(),
            leaves_more: false,
            due: None,
        }
    }
}

/// Told by the caller when its patience is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overdue(Arc<AtomicBool>);

impl Overdue {
    /// For a caller that has no patience at all.
    pub(crate) fn at_once() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn tell(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_told(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// When a claim is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handover {
    /// After the commit.
    Committed,
    /// Ahead of it: if the commit fails, the claim was never made.
    Ahead,
}

struct Claim<F, T, U> {
    queue: Queue,
    handover: Handover,
    work: F,
    undo: U,
    tried: Option<Result<Tried<T>>>,
    overdue: Overdue,
    reply: oneshot::Sender<Result<Tried<T>>>,
}

/// Wraps a closure that claims, and one that gives back what nobody was there to take.
pub(crate) fn claim<F, T, U>(
    queue: Queue,
    handover: Handover,
    overdue: Overdue,
    work: F,
    undo: U,
) -> (Box<dyn Job>, oneshot::Receiver<Result<Tried<T>>>)
where
    F: FnMut(&mut Tx<'_>) -> Result<Tried<T>> + Send + 'static,
    T: Send + 'static,
    U: Fn(&mut Tx<'_>, &T) -> Result<()> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let claim = Claim {
        queue,
        handover,
        work,
        undo,
        tried: None,
        overdue,
        reply,
    };
    (Box::new(claim), answer)
}

impl<F, T, U> Job for Claim<F, T, U>
where
    F: FnMut(&mut Tx<'_>) -> Result<Tried<T>> + Send,
    T: Send + 'static,
    U: Fn(&mut Tx<'_>, &T) -> Result<()> + Send + 'static,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        // A lease taken for nobody would keep others waiting.
        if self.reply.is_closed() {
            self.tried = Some(Ok(Tried::nothing()));
            return Ok(());
        }
        let tried = guarded(|| (self.work)(tx));
        let verdict = verdict(&tried);
        self.tried = Some(tried);
        verdict
    }

    fn wait(&self) -> Option<Wait> {
        let (found, leaves_more, due) = match &self.tried {
            None => (false, false, None),
            Some(Ok(tried)) => (!tried.found.is_empty(), tried.leaves_more, tried.due),
            Some(Err(_)) => (true, false, None),
        };
        let patience = if self.reply.is_closed() {
            Patience::Gone
        } else if self.overdue.is_told() {
            Patience::Over
        } else {
            Patience::Lasts
        };
        Some(Wait {
            queue: self.queue,
            patience,
            is_served: found,
            leaves_more,
            is_ahead: self.handover == Handover::Ahead,
            due,
        })
    }

    fn answer(self: Box<Self>) -> Option<Box<dyn Job>> {
        let tried = self.tried.unwrap_or(Err(SqliteError::Closed));
        let unclaimed = self.reply.send(tried).err()?.ok()?.found;
        if unclaimed.is_empty() {
            return None;
        }
        Some(Box::new(GiveBack {
            unclaimed,
            undo: self.undo,
        }))
    }

    fn fail(self: Box<Self>, error: SqliteError) {
        let _ = self.reply.send(Err(error));
    }
}

/// Gives back what was claimed for a caller that went away.
struct GiveBack<T, U> {
    unclaimed: Vec<T>,
    undo: U,
}

impl<T, U> Job for GiveBack<T, U>
where
    T: Send,
    U: Fn(&mut Tx<'_>, &T) -> Result<()> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        self.unclaimed
            .iter()
            .try_for_each(|found| (self.undo)(tx, found))
    }

    fn answer(self: Box<Self>) -> Option<Box<dyn Job>> {
        None
    }

    fn fail(self: Box<Self>, error: SqliteError) {
        tracing::debug!(target: "duroxide::providers::sqlite", %error, "an unwanted claim could not be given back, its lease will run out");
    }
}
