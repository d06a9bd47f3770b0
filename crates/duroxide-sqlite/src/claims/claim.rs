//! A claim on its way to the writer. In: how to claim, and how to give back. Out: what was found, or nothing once the
//! caller's patience is over. Until then the writer keeps it and tries again whenever there may be something.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::claims::waiting_claims::{Patience, Queue, Wait};
use crate::error::SqliteError;
use crate::requests::inbox::Inbox;
use crate::requests::job::{Job, guarded, verdict};
use crate::tx::{Result, Tx};
use crate::writer::Message;

/// What one try to claim something brought.
#[derive(Debug)]
pub(crate) struct Tried<T> {
    pub(crate) found: Vec<T>,
    /// Whether the claim took all it asked for, so that there may be more.
    pub(crate) leaves_more: bool,
    /// Whether what was found may be handed out at once.
    pub(crate) handover: Handover,
    /// If nothing was found: when something becomes claimable unless somebody writes.
    pub(crate) due: Option<i64>,
}

impl<T> Tried<T> {
    pub(crate) fn nothing() -> Self {
        Self {
            found: Vec::new(),
            leaves_more: false,
            handover: Handover::Committed,
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

struct Claim<F, T: Send + 'static> {
    queue: Queue,
    work: F,
    undo: Undo<T>,
    tried: Option<Result<Tried<T>>>,
    overdue: Overdue,
    reply: oneshot::Sender<Result<Parcel<T>>>,
    writer: Arc<Inbox<Message>>,
}

/// How a claim is given back.
type Undo<T> = Arc<dyn Fn(&mut Tx<'_>, &T) -> Result<()> + Send + Sync>;

/// Wraps a closure that claims, and one that gives back, by way of the writer, what nobody was there to take.
pub(crate) fn claim<F, T, U>(
    queue: Queue,
    overdue: Overdue,
    writer: Arc<Inbox<Message>>,
    work: F,
    undo: U,
) -> (Box<dyn Job>, oneshot::Receiver<Result<Parcel<T>>>)
where
    F: FnMut(&mut Tx<'_>) -> Result<Tried<T>> + Send + 'static,
    T: Send + 'static,
    U: Fn(&mut Tx<'_>, &T) -> Result<()> + Send + Sync + 'static,
{
    let (reply, answer) = oneshot::channel();
    let claim = Claim {
        queue,
        work,
        undo: Arc::new(undo),
        tried: None,
        overdue,
        reply,
        writer,
    };
    (Box::new(claim), answer)
}

impl<F, T> Job for Claim<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Result<Tried<T>> + Send,
    T: Send + 'static,
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

    fn minds_leases(&self) -> bool {
        // Passes over instances whose turns are out.
        false
    }

    fn wait(&self) -> Option<Wait> {
        let (is_served, leaves_more, handover, due) = match &self.tried {
            None => (false, false, Handover::Committed, None),
            Some(Ok(tried)) => (
                !tried.found.is_empty(),
                tried.leaves_more,
                tried.handover,
                tried.due,
            ),
            Some(Err(_)) => (true, false, Handover::Committed, None),
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
            is_served,
            leaves_more,
            handover,
            due,
        })
    }

    fn answer(self: Box<Self>) {
        let Self {
            tried,
            undo,
            writer,
            reply,
            ..
        } = *self;
        let tried = tried.unwrap_or(Err(SqliteError::Closed));
        // If nobody is left to take it, the parcel finds its own way back.
        let _ = reply.send(tried.map(|tried| Parcel {
            found: tried.found,
            undo,
            writer,
        }));
    }

    fn fail(self: Box<Self>, error: SqliteError) {
        let _ = self.reply.send(Err(error));
    }
}

/// What was claimed, on its way to the caller. Dropped before it is opened, by a caller that went away, it is given
/// back: its lease would keep others waiting until it runs out.
pub(crate) struct Parcel<T: Send + 'static> {
    found: Vec<T>,
    undo: Undo<T>,
    writer: Arc<Inbox<Message>>,
}

impl<T: Send + 'static> Parcel<T> {
    pub(crate) fn open(mut self) -> Vec<T> {
        std::mem::take(&mut self.found)
    }
}

impl<T: Send + 'static> Drop for Parcel<T> {
    fn drop(&mut self) {
        if self.found.is_empty() {
            return;
        }
        let back = GiveBack {
            unclaimed: std::mem::take(&mut self.found),
            undo: Arc::clone(&self.undo),
        };
        // A store that is closed already lets the lease run out.
        let _ = self.writer.push(Message::Job(Box::new(back)));
    }
}

/// Gives back what was claimed for a caller that went away.
struct GiveBack<T> {
    unclaimed: Vec<T>,
    undo: Undo<T>,
}

impl<T: Send> Job for GiveBack<T> {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        for found in &self.unclaimed {
            match (self.undo)(tx, found) {
                // It is no longer held, and the others are to be given back all the same.
                Ok(()) | Err(SqliteError::InvalidToken) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn answer(self: Box<Self>) {}

    fn fail(self: Box<Self>, error: SqliteError) {
        tracing::debug!(target: "duroxide::providers::sqlite", %error, "an unwanted claim could not be given back, its lease will run out");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::connection::database as open;
    use crate::connection::statements::Statements;

    #[test]
    fn a_claim_nobody_opened_is_given_back_also_if_part_of_it_is_no_longer_held() {
        let conn = open::open_memory().unwrap();
        let statements = Statements::new(&conn);
        let mut tx = Tx::new(&statements, 0);
        let writer = Arc::new(Inbox::new());
        let given_back = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&given_back);
        let work = |_: &mut Tx<'_>| {
            Ok(Tried {
                found: vec!["lost", "held"],
                ..Tried::nothing()
            })
        };
        let undo = move |_: &mut Tx<'_>, found: &&'static str| {
            seen.lock().unwrap().push(*found);
            match *found {
                "lost" => Err(SqliteError::InvalidToken),
                _ => Ok(()),
            }
        };
        let (mut job, answer) = claim(
            Queue::Turns,
            Overdue::default(),
            Arc::clone(&writer),
            work,
            undo,
        );
        job.run(&mut tx).unwrap();
        job.answer();
        // The caller goes away with the answer in its hands.
        drop(answer);
        let mut messages = Vec::new();
        writer.take(9, Some(std::time::Duration::ZERO), &mut messages);
        let Some(Message::Job(mut back)) = messages.pop() else {
            panic!("the parcel finds its way back");
        };
        back.run(&mut tx).unwrap();
        assert_eq!(*given_back.lock().unwrap(), ["lost", "held"]);
    }
}
