//! For how long the group hands nothing out early. In: refused or slow turns, and turns that were stored. Out: yes or
//! no.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause, and the longest one.
const FIRST: Duration = Duration::from_millis(50);
const MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct BackOff {
    until: Instant,
    /// The next pause.
    pause: Duration,
}

impl BackOff {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            until: now,
            pause: FIRST,
        }
    }

    /// The server refused an early turn, or one was in flight for too long: pauses, and for longer the next time.
    pub(super) fn pause(&mut self, now: Instant) {
        self.until = now + self.pause;
        self.pause = (self.pause * 2).min(MAX);
    }

    /// The server stored an early turn: the next pause is a little shorter.
    pub(super) fn ease(&mut self) {
        self.pause = (self.pause - self.pause / 16).max(FIRST);
    }

    pub(super) fn holds(&self, now: Instant) -> bool {
        now < self.until
    }
}
