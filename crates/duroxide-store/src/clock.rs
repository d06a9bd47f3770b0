//! Clocks for stores. A store owns one clock; tests hand in one that they move themselves.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use duroxide_core::clock::{Clock, ClockRef, SystemClock};

use crate::atomic::{Batch, Operation};
use crate::message::{Visible, later_ms};
use crate::wake::Wakeups;

/// A clock that stands still until it is moved. Clones share the time.
///
/// A store that was built with it looks again at what is due whenever the clock moves.
///
/// ```
/// use duroxide_core::clock::Clock;
/// use duroxide_store::ManualClock;
/// let clock = ManualClock::at(1_000);
/// clock.advance(std::time::Duration::from_secs(2));
/// assert_eq!(clock.now_ms(), 3_000);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    inner: Arc<ManualTime>,
}

#[derive(Default)]
struct ManualTime {
    now_ms: AtomicU64,
    stores: Mutex<Vec<Weak<Wakeups>>>,
}

impl ManualClock {
    /// A clock that shows this time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(now_ms: u64) -> Self {
        let clock = Self::default();
        clock.inner.now_ms.store(now_ms, Ordering::SeqCst);
        clock
    }

    /// A clock that shows the present and stays there.
    #[must_use]
    pub fn new() -> Self {
        Self::at(SystemClock.now_ms())
    }

    /// Moves the clock forward and lets waiting claims look again.
    pub fn advance(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.inner.now_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.wake_stores();
    }

    /// Sets the clock, also backwards, and lets waiting claims look again.
    pub fn set(&self, now_ms: u64) {
        self.inner.now_ms.store(now_ms, Ordering::SeqCst);
        self.wake_stores();
    }

    fn wake_stores(&self) {
        let mut stores = self
            .inner
            .stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        let awake: Vec<_> = stores.iter().filter_map(Weak::upgrade).collect();
        drop(stores);
        for store in awake {
            store.wake_all();
        }
    }

    fn attach(&self, wakeups: &Arc<Wakeups>) {
        let mut stores = self
            .inner
            .stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        stores.push(Arc::downgrade(wakeups));
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("now_ms", &self.now_ms())
            .finish_non_exhaustive()
    }
}

/// A clock that follows tokio's time: when tokio's time is paused and advances by itself, so does the store's.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    base_ms: u64,
    base: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `base_ms` now and moves on with tokio's time.
    #[must_use]
    pub fn starting_at(base_ms: u64) -> Self {
        Self {
            base_ms,
            base: tokio::time::Instant::now(),
        }
    }

    /// A clock that shows the present and moves on with tokio's time.
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(SystemClock.now_ms())
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.base_ms.saturating_add(elapsed)
    }
}

/// The time of a store. In: the clock it was given, which may be set back. Out: a time that never runs backwards and
/// goes on at its pace while the clock is behind, so that a lease ends after its length whatever is done to the clock.
///
/// Clones share the time. It knows whether the clock can wake the store when it is moved.
///
/// ```
/// use duroxide_store::{ManualClock, StoreClock};
/// let manual = ManualClock::at(10_000);
/// let clock = StoreClock::from(&manual);
/// assert_eq!(clock.now_ms(), 10_000);
/// manual.set(4_000);
/// assert_eq!(clock.now_ms(), 10_000);
/// manual.advance(std::time::Duration::from_millis(50));
/// assert_eq!((clock.now_ms(), clock.ahead_ms()), (10_050, 6_000));
/// ```
#[derive(Debug, Clone)]
pub struct StoreClock {
    clock: ClockRef,
    manual: Option<ManualClock>,
    pace: Pace,
    time: Arc<Mutex<Time>>,
}

/// How time goes on while the clock is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As the operating system counts it.
    System,
    /// As far as the clock moves forward: it is one of the user's own.
    Clock,
}

#[derive(Debug)]
struct Time {
    last_ms: u64,
    /// Set while the clock is behind.
    behind: Option<Anchor>,
}

/// From where time is counted while the clock is behind.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    store_ms: u64,
    clock_ms: u64,
    at: Instant,
}

impl StoreClock {
    fn new(clock: ClockRef, manual: Option<ManualClock>, pace: Pace) -> Self {
        let time = Time {
            last_ms: clock.now_ms(),
            behind: None,
        };
        Self {
            clock,
            manual,
            pace,
            time: Arc::new(Mutex::new(time)),
        }
    }

    /// Lets a manual clock wake these waiters whenever it moves; other clocks move by themselves.
    pub fn attach(&self, wakeups: &Arc<Wakeups>) {
        if let Some(manual) = &self.manual {
            manual.attach(wakeups);
        }
    }

    /// Milliseconds since the Unix epoch; never less than before.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.read().0
    }

    /// What the clock shows that the store was given.
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// By how much the store's time is ahead of the clock it was given: 0 unless that was set back. A time that another
    /// process else computed with the clock is this much later in the store's time.
    #[must_use]
    pub fn ahead_ms(&self) -> u64 {
        let (now_ms, clock_ms) = self.read();
        now_ms.saturating_sub(clock_ms)
    }

    /// Puts the times at which messages of a batch become visible, decided by the clock, into the store's time.
    pub fn adjust(&self, batch: &mut Batch) {
        let decided = batch.operations.iter_mut().filter_map(|operation| {
            let Operation::Enqueue { message, .. } = operation else {
                return None;
            };
            match &mut message.visible {
                Visible::At(at_ms) => Some(at_ms),
                Visible::Now | Visible::AfterMs(_) => None,
            }
        });
        for at_ms in decided {
            *at_ms = later_ms(*at_ms, self.ahead_ms());
        }
    }

    /// A process stored this time: it is not earlier than that.
    pub fn raise_to(&self, stored_ms: u64) {
        let (now_ms, clock_ms) = self.read();
        if stored_ms <= now_ms {
            return;
        }
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        time.last_ms = stored_ms;
        time.behind = Some(Anchor {
            store_ms: stored_ms,
            clock_ms,
            at: Instant::now(),
        });
    }

    /// The store's time, and what the clock shows.
    fn read(&self) -> (u64, u64) {
        let clock_ms = self.clock.now_ms();
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        if clock_ms >= time.last_ms {
            time.behind = None;
            time.last_ms = clock_ms;
            return (clock_ms, clock_ms);
        }
        let anchor = match time.behind {
            // Set back once more.
            Some(anchor) if self.pace == Pace::Clock && clock_ms < anchor.clock_ms => None,
            known => known,
        };
        let anchor = anchor.unwrap_or_else(|| Anchor {
            store_ms: time.last_ms,
            clock_ms,
            at: Instant::now(),
        });
        let passed_ms = match self.pace {
            Pace::System => u64::try_from(anchor.at.elapsed().as_millis()).unwrap_or(u64::MAX),
            Pace::Clock => clock_ms.saturating_sub(anchor.clock_ms),
        };
        time.behind = Some(anchor);
        time.last_ms = time.last_ms.max(later_ms(anchor.store_ms, passed_ms));
        (time.last_ms, clock_ms)
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::from(SystemClock)
    }
}

impl From<ClockRef> for StoreClock {
    fn from(clock: ClockRef) -> Self {
        Self::new(clock, None, Pace::Clock)
    }
}

impl From<ManualClock> for StoreClock {
    fn from(clock: ManualClock) -> Self {
        Self::new(Arc::new(clock.clone()), Some(clock), Pace::Clock)
    }
}

impl From<&ManualClock> for StoreClock {
    fn from(clock: &ManualClock) -> Self {
        Self::from(clock.clone())
    }
}

impl From<Arc<ManualClock>> for StoreClock {
    fn from(clock: Arc<ManualClock>) -> Self {
        Self::from(ManualClock::clone(&clock))
    }
}

impl From<TokioClock> for StoreClock {
    fn from(clock: TokioClock) -> Self {
        Self::from(Arc::new(clock) as ClockRef)
    }
}

impl From<SystemClock> for StoreClock {
    fn from(clock: SystemClock) -> Self {
        Self::new(Arc::new(clock), None, Pace::System)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_goes_on_from_where_it_was() {
        let manual = ManualClock::at(0);
        let clock = StoreClock::from(&manual);
        let readings = [1_000, 400, 450, 300, 310, 2_000];
        let seen = readings.map(|reading| {
            manual.set(reading);
            clock.now_ms()
        });
        assert_eq!(seen, [1_000, 1_000, 1_050, 1_050, 1_060, 2_000]);
    }

    #[test]
    fn times_stored_before_are_not_in_the_future() {
        let manual = ManualClock::at(100);
        let clock = StoreClock::from(&manual);
        clock.raise_to(5_000);
        manual.set(130);
        assert_eq!((clock.now_ms(), clock.ahead_ms()), (5_030, 4_900));
        clock.raise_to(4_000);
        assert_eq!(clock.now_ms(), 5_030);
    }

    #[test]
    fn the_system_counts_on_while_its_clock_is_behind() {
        let clock = StoreClock::from(SystemClock);
        let ahead = SystemClock.now_ms() + 3_600_000;
        clock.raise_to(ahead);
        let began = Instant::now();
        while clock.now_ms() <= ahead {
            assert!(began.elapsed().as_secs() < 10, "time stands still");
        }
    }
}
