//! What a claim read of an instance, kept until its commit, so that the commit need not read it again. Never trusted:
//! the commit is guarded by what is kept here, and reads if that no longer holds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lease::LeaseToken;

/// Leases of which something is kept at most.
const KEPT_MAX: usize = 4_096;

/// An instance as it was at the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// It had this row.
    Row(Vec<u8>),
    /// It had neither row nor history.
    Unborn,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    seen: HashMap<LeaseToken, (String, Seen)>,
    order: VecDeque<LeaseToken>,
}

impl Kept {
    pub(super) fn keep(&self, lease: &LeaseToken, instance: &str, seen: Seen) {
        let mut inner = self.lock();
        let seen = (instance.to_owned(), seen);
        if inner.seen.insert(lease.clone(), seen).is_none() {
            inner.order.push_back(lease.clone());
        }
        while inner.order.len() > KEPT_MAX {
            if let Some(oldest) = inner.order.pop_front() {
                inner.seen.remove(&oldest);
            }
        }
    }

    /// What is kept of a lease, if the lease is for this instance.
    pub(super) fn take(&self, lease: &LeaseToken, instance: &str) -> Option<Seen> {
        let mut inner = self.lock();
        let seen = inner.seen.remove(lease).filter(|(of, _)| of == instance);
        // The order is tidied from its front; what is left in the middle is bounded like everything else.
        while inner
            .order
            .front()
            .is_some_and(|first| !inner.seen.contains_key(first))
        {
            inner.order.pop_front();
        }
        seen.map(|(_, seen)| seen)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let kept = Kept::default();
        let lease = |n: usize| LeaseToken::new(format!("{n}"));
        for n in 0..KEPT_MAX + 10 {
            kept.keep(&lease(n), "i", Seen::Unborn);
        }
        assert_eq!(kept.take(&lease(0), "i"), None);
        assert_eq!(kept.take(&lease(KEPT_MAX), "i"), Some(Seen::Unborn));
        assert_eq!(kept.take(&lease(KEPT_MAX), "i"), None);
        assert_eq!(kept.take(&lease(KEPT_MAX + 1), "other"), None);
    }
}
