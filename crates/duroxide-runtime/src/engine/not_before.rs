//! Instances whose last turn failed on this node and is to be tried again after a while. In: how long. Out: how much of
//! that is left. The store lets such an instance rest; a message ends the rest, so that nothing overtakes what rests,
//! and the turn that then comes too early goes back to rest. Without this, a burst of messages would use up every
//! attempt at once.
//!
//! Other nodes do not know of it: each may try once before the time is over, and that attempt is its own.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::provider::Incarnation;
use lru::LruCache;
use tokio::time::Instant;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

/// When the next attempt of an instance may begin.
struct Next {
    incarnation: Option<Incarnation>,
    at: Instant,
}

/// Next attempts, by instance.
pub(crate) struct NotBefore {
    next: Mutex<LruCache<String, Next>>,
}

impl NotBefore {
    pub(crate) fn new() -> Self {
        Self {
            next: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// The next attempt of this life of the instance may begin after `pause`.
    pub(crate) fn set(&self, instance: &str, incarnation: Option<Incarnation>, pause: Duration) {
        let at = Instant::now() + pause;
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.put(instance.to_owned(), Next { incarnation, at });
    }

    /// How long an attempt has to wait; `None` if it may begin. What is over, or belongs to another life, is forgotten.
    pub(crate) fn left(
        &self,
        instance: &str,
        incarnation: Option<Incarnation>,
    ) -> Option<Duration> {
        let mut all = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return None;
        }
        let next = all.peek(instance)?;
        let left = next.at.saturating_duration_since(Instant::now());
        if next.incarnation != incarnation || left.is_zero() {
            all.pop(instance);
            return None;
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_waits_until_its_time_and_another_life_does_not() {
        let next = NotBefore::new();
        let (one, other) = (Incarnation::from_random(2), Incarnation::from_random(4));
        let pause = Duration::from_secs(5);
        next.set("i", Some(one), pause);
        assert_eq!(next.left("i", Some(one)), Some(pause));
        assert_eq!(next.left("j", Some(one)), None);
        tokio::time::advance(pause).await;
        assert_eq!(next.left("i", Some(one)), None);
        next.set("i", Some(one), pause);
        assert_eq!(next.left("i", Some(other)), None);
    }
}
