//! Places for work that runs at once. In: how many there are. Out: free ones, each with a number that logs name.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Engine;

/// Places for turns, each with a number that is named in logs.
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    numbers: Arc<Mutex<Vec<usize>>>,
}

/// A place for one turn or activity.
pub(crate) struct Slot {
    pub(crate) number: usize,
    numbers: Arc<Mutex<Vec<usize>>>,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(count)),
            numbers: Arc::new(Mutex::new((0..count).rev().collect())),
        }
    }

    /// Places that are free besides those already taken.
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// The next free place; `None` if the runtime stops first.
    pub(crate) async fn acquire(&self, engine: &Engine) -> Option<Slot> {
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => None,
            slot = self.wait() => Some(slot),
        }
    }

    /// The next free place.
    pub(crate) async fn wait(&self) -> Slot {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let number = self
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .expect("there are as many numbers as permits");
        Slot {
            number,
            numbers: Arc::clone(&self.numbers),
            _permit: permit,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.number);
    }
}
