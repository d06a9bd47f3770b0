//! Claims that wait: tries that are repeated when a commit, a due time or a lease that runs out may have changed the
//! answer.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::clock::StoreClock;
use crate::wake::Wakeups;

/// What one try to claim found.
#[derive(Debug)]
pub enum Attempt<T> {
    /// It claimed this.
    Found(T),
    /// Nothing; by the store's clock, something may become claimable at this time without a commit.
    Nothing {
        /// Milliseconds since the Unix epoch.
        due_ms: Option<u64>,
    },
}

impl Wakeups {
    /// Tries until something is found or `wait` has passed. Zero tries once.
    ///
    /// # Errors
    ///
    /// The first error of a try.
    pub async fn poll<T, E, F, R>(
        &self,
        clock: &StoreClock,
        queue: &str,
        wait: Duration,
        mut attempt: F,
    ) -> Result<Option<T>, E>
    where
        F: FnMut() -> R,
        R: Future<Output = Result<Attempt<T>, E>>,
    {
        if wait.is_zero() {
            return Ok(match attempt().await? {
                Attempt::Found(found) => Some(found),
                Attempt::Nothing { .. } => None,
            });
        }
        let notify = self.waiting(queue);
        let begun = Instant::now();
        loop {
            // Registered before the try, so that a commit between the try and the wait is not missed.
            let mut notified = std::pin::pin!(notify.notified());
            notified.as_mut().enable();
            let due_ms = match attempt().await? {
                Attempt::Found(found) => return Ok(Some(found)),
                Attempt::Nothing { due_ms } => due_ms,
            };
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let until_due = due_ms.map_or(left, |due| {
                Duration::from_millis(due.saturating_sub(clock.now_ms()).max(1))
            });
            // Running out of time is not a failure: either something is due or the caller's patience is over.
            let _ = timeout(left.min(until_due), notified).await;
        }
    }
}
