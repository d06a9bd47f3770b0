//! Where time enters. In: nothing. Out: milliseconds since the Unix epoch, to code that was handed a [`Clock`].
//!
//! Replay never asks a clock. Stores own one each, so that leases and due times are computed and compared in one
//! place; tests hand in a clock of their own.

use std::fmt;
use std::sync::Arc;

/// A source of wall-clock time, handed in where time is needed.
///
/// ```
/// use duroxide_core::clock::{Clock, SystemClock};
/// assert!(SystemClock.now_ms() > 1_700_000_000_000);
/// ```
pub trait Clock: fmt::Debug + Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// A shared [`Clock`].
pub type ClockRef = Arc<dyn Clock>;

/// The operating system's clock: what a program outside tests uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one door through which wall-clock time enters"
        )]
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            })
    }
}
