//! The time of a store. In: a clock that may be set back, and times that were stored under it. Out: a time that never
//! runs backwards, in this process or over a restart, and goes on at its pace while the clock is behind.
//!
//! What is to be claimed at once carries the time it was written at. If the clock is set back, everything that was
//! ready must stay ready, and a lease must end no later than its length from now.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use duroxide_core::clock::ClockRef;

use crate::tx::{Reading, duration_ms, stored_ms};

/// A clock that is behind by more than this is worth a warning.
const NOTEWORTHY_MS: i64 = 1_000;
/// By how much the stored time may be behind.
const STORE_EVERY_MS: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct StoreClock {
    clock: ClockRef,
    /// How time goes on while the clock is behind.
    pace: Pace,
    state: Mutex<State>,
    /// The time that was stored last.
    stored_at: AtomicI64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As the operating system counts it.
    System,
    /// As far as the clock moves forward: it is one of the user's own.
    Clock,
}

#[derive(Debug)]
struct State {
    last: i64,
    /// Set while the clock is behind.
    behind: Option<Anchor>,
}

/// From where time is counted while the clock is behind.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    store: i64,
    clock: i64,
    at: Instant,
}

impl StoreClock {
    pub(crate) fn new(clock: ClockRef, pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            clock,
            pace,
            state: Mutex::new(State {
                last: 0,
                behind: None,
            }),
            stored_at: AtomicI64::new(0),
        })
    }

    /// The time of the store, in milliseconds since the Unix epoch.
    pub(crate) fn now(&self) -> i64 {
        self.read().now
    }

    pub(crate) fn read(&self) -> Reading {
        let clock = stored_ms(self.clock.now_ms());
        // A number and an anchor: whole at every point where a panic could leave them.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if clock >= state.last {
            state.behind = None;
            state.last = clock;
            return Reading {
                now: clock,
                ahead: 0,
            };
        }
        let anchor = match state.behind {
            // Set back once more.
            Some(anchor) if self.pace == Pace::Clock && clock < anchor.clock => None,
            known => known,
        };
        let anchor = anchor.unwrap_or(Anchor {
            store: state.last,
            clock,
            at: Instant::now(),
        });
        let passed = match self.pace {
            Pace::System => duration_ms(anchor.at.elapsed()),
            Pace::Clock => clock.saturating_sub(anchor.clock),
        };
        state.behind = Some(anchor);
        state.last = state.last.max(anchor.store.saturating_add(passed));
        Reading {
            now: state.last,
            ahead: state.last.saturating_sub(clock),
        }
    }

    /// The time to store in this transaction, if the one that is stored is too old.
    pub(crate) fn time_to_store(&self) -> Option<i64> {
        let now = self.now();
        let stored_at = self.stored_at.load(Ordering::Relaxed);
        (now >= stored_at.saturating_add(STORE_EVERY_MS)).then_some(now)
    }

    /// The transaction that stores this time is committed.
    pub(crate) fn stored(&self, at: i64) {
        self.stored_at.fetch_max(at, Ordering::Relaxed);
    }

    /// A row has this time: the store's time is not earlier.
    pub(crate) fn raise_to(&self, stored: i64) {
        let clock = stored_ms(self.clock.now_ms());
        let now = self.now();
        if stored <= now {
            return;
        }
        if stored.saturating_sub(clock) > NOTEWORTHY_MS {
            tracing::warn!(target: "duroxide::providers::sqlite", behind_ms = stored.saturating_sub(clock), "the clock is behind times that were stored before; the store goes on from those");
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last = stored;
        state.behind = Some(Anchor {
            store: stored,
            clock,
            at: Instant::now(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use duroxide_core::clock::Clock;

    use super::*;

    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn clock(pace: Pace) -> (Arc<Hand>, Arc<StoreClock>) {
        let hand = Arc::new(Hand::default());
        let clock = StoreClock::new(hand.clone(), pace);
        (hand, clock)
    }

    #[test]
    fn a_clock_set_back_goes_on_from_where_it_was() {
        let (hand, clock) = clock(Pace::Clock);
        let mut seen = Vec::new();
        for reading in [1_000, 400, 450, 300, 310, 2_000] {
            hand.0.store(reading, Ordering::SeqCst);
            seen.push(clock.now());
        }
        assert_eq!(seen, [1_000, 1_000, 1_050, 1_050, 1_060, 2_000]);
    }

    #[test]
    fn times_stored_before_are_not_in_the_future() {
        let (hand, clock) = clock(Pace::Clock);
        hand.0.store(100, Ordering::SeqCst);
        clock.raise_to(5_000);
        assert_eq!(clock.now(), 5_000);
        hand.0.store(130, Ordering::SeqCst);
        let reading = Reading {
            now: 5_030,
            ahead: 4_900,
        };
        assert_eq!(clock.read(), reading);
        clock.raise_to(4_000);
        assert_eq!(clock.now(), 5_030);
    }

    #[test]
    fn the_system_counts_on_while_its_clock_is_behind() {
        let (hand, clock) = clock(Pace::System);
        hand.0.store(10_000, Ordering::SeqCst);
        assert_eq!(clock.now(), 10_000);
        hand.0.store(1, Ordering::SeqCst);
        let began = Instant::now();
        let first = clock.now();
        while clock.now() <= first {
            assert!(began.elapsed().as_secs() < 10, "time stands still");
        }
    }
}
