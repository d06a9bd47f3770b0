//! Attempts that the store counted although only an outage made them fail. In: work whose outcome the store did not
//! take. Out: how many attempts to subtract before work is called poison.
//!
//! A claim given back in time is not counted by the store itself. This is for claims that could not be given back.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

/// Excused attempts, by what was tried.
pub(crate) struct Excuses {
    attempts: Mutex<LruCache<String, u32>>,
}

impl Excuses {
    pub(crate) fn new() -> Self {
        Self {
            attempts: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    fn attempts(&self) -> MutexGuard<'_, LruCache<String, u32>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more attempt was the store's fault.
    pub(crate) fn add(&self, what: &str) {
        let mut attempts = self.attempts();
        let excused = attempts.get_or_insert_mut(what.to_owned(), || 0);
        *excused = excused.saturating_add(1);
    }

    /// The attempts that count.
    pub(crate) fn discount(&self, what: &str, attempt: u32) -> u32 {
        let mut attempts = self.attempts();
        if attempts.is_empty() {
            return attempt;
        }
        let excused = attempts.get(what).copied().unwrap_or(0);
        attempt.saturating_sub(excused).max(1)
    }

    /// It got through.
    pub(crate) fn remove(&self, what: &str) {
        let mut attempts = self.attempts();
        if !attempts.is_empty() {
            attempts.pop(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_the_store_spoilt_do_not_count_until_something_gets_through() {
        let excuses = Excuses::new();
        assert_eq!(excuses.discount("i", 3), 3);
        excuses.add("i");
        excuses.add("i");
        assert_eq!(excuses.discount("i", 3), 1);
        assert_eq!(excuses.discount("other", 3), 3);
        excuses.remove("i");
        assert_eq!(excuses.discount("i", 3), 3);
    }
}
