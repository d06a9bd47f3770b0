//! What an activity says about its progress. In: details, as often as the activity likes. Out: one write with the renewal of
//! its lease, and no more writes than one in each interval. Never: a write per call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Leases;

/// Details of one call that the store does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// The first attempt of the call, by its scheduling event.
    pub(crate) call: u64,
    pub(crate) details: String,
}

/// What was said last and is not stored; later details replace earlier ones.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    last: Mutex<Option<Said>>,
    /// Whether the keeper knows that there is something.
    is_planned: AtomicBool,
}

impl Unsaved {
    fn last(&self) -> std::sync::MutexGuard<'_, Option<Said>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the keeper has to be told.
    fn replace(&self, said: Said) -> bool {
        *self.last() = Some(said);
        !self.is_planned.swap(true, Ordering::AcqRel)
    }

    pub(super) fn take(&self) -> Option<Said> {
        // First: what is said from now on is news again.
        self.is_planned.store(false, Ordering::Release);
        self.last().take()
    }

    /// Takes details back that could not be stored, unless the activity has said more since.
    pub(super) fn put_back(&self, said: Said) {
        self.last().get_or_insert(said);
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.last().is_some()
    }
}

/// How an activity reaches the keeper of its lease.
#[derive(Debug, Clone)]
pub(crate) struct Voice {
    pub(super) leases: Arc<Leases>,
    pub(super) lease: u64,
    pub(super) call: u64,
    pub(super) unsaved: Arc<Unsaved>,
}

impl Voice {
    /// Says something. Once the lease has ended nobody listens.
    pub(crate) fn say(&self, details: String) {
        let call = self.call;
        if self.unsaved.replace(Said { call, details }) {
            self.leases.hear(self.lease);
        }
    }
}
