//! Attempts that the store counted although only an outage made them fail. In: work whose outcome the store did not
//! take. Out: how many attempts to subtract before work is called poison.
//!
//! A claim given back in time is not counted by the store itself. This is for claims that could not be given back, and
//! for those whose answer never came: the store counts what it granted, and nobody here knows what that was.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");
/// For how long after the last claim without an answer such claims are taken into account.
const LOST_CLAIMS_COUNT_FOR: Duration = Duration::from_secs(15 * 60);

/// Excused attempts, by what was tried.
pub(crate) struct Excuses {
    attempts: Mutex<LruCache<String, u32>>,
    lost_claims: Mutex<LostClaims>,
    /// The largest number of attempts of anything; lost claims excuse no more than as many again.
    max_attempts: u32,
}

/// Claims without an answer.
#[derive(Default)]
struct LostClaims {
    count: u32,
    last: Option<Instant>,
}

impl Excuses {
    pub(crate) fn new(max_attempts: u32) -> Self {
        Self {
            attempts: Mutex::new(LruCache::new(REMEMBERED)),
            lost_claims: Mutex::default(),
            max_attempts,
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

    /// A claim failed, and the store may have granted leases all the same.
    pub(crate) fn add_lost_claim(&self) {
        let mut lost = self.lost_claims();
        lost.count = lost.recent().saturating_add(1);
        lost.last = Some(Instant::now());
    }

    fn lost_claims(&self) -> MutexGuard<'_, LostClaims> {
        let lost = self.lost_claims.lock();
        lost.unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempts that count.
    pub(crate) fn discount(&self, what: &str, attempt: u32) -> u32 {
        if attempt <= 1 {
            return attempt;
        }
        let mut excused = {
            let mut attempts = self.attempts();
            attempts.get(what).copied().unwrap_or(0)
        };
        if attempt > self.max_attempts {
            // Poison otherwise: any of the claims without an answer may have been for this.
            let lost = self.lost_claims().recent().min(self.max_attempts);
            excused = excused.saturating_add(lost);
        }
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

impl LostClaims {
    fn recent(&self) -> u32 {
        let is_recent = |last: Instant| last.elapsed() < LOST_CLAIMS_COUNT_FOR;
        if self.last.is_some_and(is_recent) {
            self.count
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_the_store_spoilt_do_not_count_until_something_gets_through() {
        let excuses = Excuses::new(10);
        assert_eq!(excuses.discount("i", 3), 3);
        excuses.add("i");
        excuses.add("i");
        assert_eq!(excuses.discount("i", 3), 1);
        assert_eq!(excuses.discount("other", 3), 3);
        excuses.remove("i");
        assert_eq!(excuses.discount("i", 3), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn claims_without_an_answer_excuse_as_many_attempts_again_at_most_and_not_for_ever() {
        let excuses = Excuses::new(10);
        assert_eq!(excuses.discount("i", 11), 11);
        excuses.add_lost_claim();
        assert_eq!(excuses.discount("i", 11), 10);
        assert_eq!(excuses.discount("i", 12), 11);
        for _ in 0..1_000 {
            excuses.add_lost_claim();
        }
        assert_eq!(excuses.discount("i", 20), 10);
        assert_eq!(excuses.discount("i", 21), 11);
        tokio::time::advance(LOST_CLAIMS_COUNT_FOR).await;
        assert_eq!(excuses.discount("i", 11), 11);
    }
}
