//! What a claim got, until its caller has it. In: the answer of the group. Out: turns or activities. What the caller
//! drops before that, with its call or by an error, is given back uncounted: no lease runs out for want of a caller.

use std::ops::{Deref, DerefMut};

use tokio::sync::{mpsc, oneshot};

use crate::calls::claim_turns::RawTurn;
use crate::calls::claim_work::RawWork;
use crate::error::{PgError, Result};
use crate::group::Request;

/// What can be claimed, and given back.
pub(crate) trait Claimable {
    fn given_back(self) -> Request;
}

impl Claimable for RawTurn {
    fn given_back(self) -> Request {
        Request::GiveBackTurn(self)
    }
}

impl Claimable for RawWork {
    fn given_back(self) -> Request {
        Request::GiveBackWork(self)
    }
}

/// Claimed, and not delivered yet.
pub(crate) struct Undelivered<T: Claimable> {
    found: Vec<T>,
    requests: mpsc::UnboundedSender<Request>,
}

impl<T: Claimable> Undelivered<T> {
    /// Waits for the answer to a claim.
    pub(crate) async fn of(
        answer: oneshot::Receiver<Result<Vec<T>>>,
        requests: &mpsc::UnboundedSender<Request>,
    ) -> Result<Self> {
        let mut awaited = Awaited {
            answer,
            requests: requests.clone(),
        };
        let found = (&mut awaited.answer).await.map_err(|_| PgError::Closed)??;
        let requests = requests.clone();
        Ok(Self { found, requests })
    }

    /// Gives some of it back.
    pub(crate) fn give_back(&mut self, which: impl FnMut(&mut T) -> bool) {
        let back: Vec<T> = self.found.extract_if(.., which).collect();
        give_back(&self.requests, back);
    }

    /// Takes some of it away that nobody holds any more.
    pub(crate) fn forget(&mut self, which: impl FnMut(&mut T) -> bool) {
        self.found.extract_if(.., which).for_each(drop);
    }

    /// The caller has it from here on.
    pub(crate) fn delivered(mut self) -> Vec<T> {
        std::mem::take(&mut self.found)
    }
}

impl<T: Claimable> Deref for Undelivered<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.found
    }
}

impl<T: Claimable> DerefMut for Undelivered<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.found
    }
}

impl<T: Claimable> Drop for Undelivered<T> {
    fn drop(&mut self) {
        give_back(&self.requests, std::mem::take(&mut self.found));
    }
}

/// An answer that has not come, or has come and was not looked at.
struct Awaited<T: Claimable> {
    answer: oneshot::Receiver<Result<Vec<T>>>,
    requests: mpsc::UnboundedSender<Request>,
}

impl<T: Claimable> Drop for Awaited<T> {
    fn drop(&mut self) {
        // What comes after this stays with the group, which gives it back itself.
        self.answer.close();
        if let Ok(Ok(found)) = self.answer.try_recv() {
            give_back(&self.requests, found);
        }
    }
}

fn give_back<T: Claimable>(requests: &mpsc::UnboundedSender<Request>, found: Vec<T>) {
    for one in found {
        // A failed send: the store is closing, and the lease runs out.
        let _ = requests.send(one.given_back());
    }
}
