//! The time of the store, as this node knows it. In: the node's own clock, and what the store says from time to time.
//! Out: the time that events are stamped with and timers are computed from. Nodes whose clocks differ agree on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use duroxide_core::clock::{Clock, ClockRef};
use duroxide_core::defect::Defect;
use duroxide_core::provider::{Provider, ProviderError};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How often the store is asked. Clocks drift by far less than a second in this time.
const INTERVAL: Duration = Duration::from_secs(60);
/// First pause after an answer that did not come, or that took too long to be exact; each pause is twice the one
/// before.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// A difference below this is not worth following, and an answer that takes no longer is exact.
const EXACT_MS: u64 = 20;
/// An answer that takes longer is not used.
const LONGEST_CALL: Duration = Duration::from_secs(5);

/// A node's clock, put right by the store's.
#[derive(Debug)]
pub(crate) struct StoreTime {
    own: ClockRef,
    offset_ms: AtomicI64,
    /// How far the offset may be wrong.
    error_ms: AtomicU64,
    /// Fires when the store has answered for the first time.
    known: CancellationToken,
}

impl StoreTime {
    pub(crate) fn new(own: ClockRef) -> Self {
        Self {
            own,
            offset_ms: AtomicI64::new(0),
            error_ms: AtomicU64::new(u64::MAX),
            known: CancellationToken::new(),
        }
    }

    /// Returns when the store has said what time it is.
    pub(crate) async fn is_known(&self) {
        self.known.cancelled().await;
    }

    /// Asks the store from time to time, until it cannot tell.
    pub(crate) async fn follow(self: Arc<Self>, store: Arc<dyn Provider>) {
        let mut pause = FIRST_RETRY;
        loop {
            match self.ask(store.as_ref()).await {
                Ok(true) if self.error_ms.load(Ordering::Relaxed) <= EXACT_MS => pause = INTERVAL,
                Ok(true) => {}
                Ok(false) => {
                    self.known.cancel();
                    return;
                }
                Err(error) => {
                    tracing::debug!(target: "duroxide::runtime", %error, "the store did not say what time it is");
                    pause = pause.min(LONGEST_CALL);
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(INTERVAL);
        }
    }

    /// Asks once; whether the store can tell.
    async fn ask(&self, store: &dyn Provider) -> Result<bool, ProviderError> {
        let before = self.own.now_ms();
        let asked = timeout(LONGEST_CALL, store.clock_ms());
        let no_answer = |_| Err(ProviderError::retryable("clock_ms", "no answer in time"));
        let Some(stored) = asked.await.unwrap_or_else(no_answer)? else {
            return Ok(false);
        };
        let took = self.own.now_ms().saturating_sub(before);
        let own = before.saturating_add(took / 2);
        let offset = stored.cast_signed().wrapping_sub(own.cast_signed());
        let offset = if offset.unsigned_abs() <= EXACT_MS.max(took) {
            0
        } else {
            offset
        };
        self.learn(offset, took / 2);
        self.known.cancel();
        Ok(true)
    }

    /// Takes an answer, unless it says nothing that is not known better.
    fn learn(&self, offset_ms: i64, error_ms: u64) {
        let old_error = self.error_ms.load(Ordering::Relaxed);
        let apart = offset_ms.abs_diff(self.offset_ms.load(Ordering::Relaxed));
        let is_worse = error_ms > old_error.max(EXACT_MS);
        if is_worse && apart <= error_ms.saturating_add(old_error) {
            return;
        }
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
        self.error_ms.store(error_ms, Ordering::Relaxed);
    }
}

impl Clock for StoreTime {
    fn now_ms(&self) -> u64 {
        let mut offset = self.offset_ms.load(Ordering::Relaxed);
        if Defect::NodeClockDecides.is_on() {
            offset = 0;
        }
        self.own.now_ms().saturating_add_signed(offset)
    }
}

#[cfg(test)]
mod tests {
    use duroxide_core::clock::SystemClock;

    use super::*;

    #[test]
    fn an_answer_that_took_long_does_not_replace_an_exact_one_unless_it_contradicts_it() {
        let time = StoreTime::new(Arc::new(SystemClock));
        time.learn(3_600_900, 2_000);
        time.learn(3_600_000, 5);
        assert_eq!(time.offset_ms.load(Ordering::Relaxed), 3_600_000);
        time.learn(3_601_000, 1_500);
        assert_eq!(time.offset_ms.load(Ordering::Relaxed), 3_600_000);
        time.learn(0, 1_500);
        assert_eq!(time.offset_ms.load(Ordering::Relaxed), 0);
    }
}
