//! Clocks for stores. A store owns one clock; tests hand in one that they move themselves.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use duroxide_core::clock::{Clock, ClockRef, SystemClock};

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

/// The clock a store was given. Knows whether the clock can wake the store when it is moved.
#[derive(Debug, Clone)]
pub struct StoreClock {
    clock: ClockRef,
    manual: Option<ManualClock>,
}

impl StoreClock {
    /// Lets a manual clock wake these waiters whenever it moves; other clocks move by themselves.
    pub fn attach(&self, wakeups: &Arc<Wakeups>) {
        if let Some(manual) = &self.manual {
            manual.attach(wakeups);
        }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::from(SystemClock)
    }
}

impl From<ClockRef> for StoreClock {
    fn from(clock: ClockRef) -> Self {
        Self {
            clock,
            manual: None,
        }
    }
}

impl From<ManualClock> for StoreClock {
    fn from(clock: ManualClock) -> Self {
        Self {
            clock: Arc::new(clock.clone()),
            manual: Some(clock),
        }
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
        Self::from(Arc::new(clock) as ClockRef)
    }
}
