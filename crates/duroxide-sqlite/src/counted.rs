//! What the writer counts, for gauges. In: one call after each commit. Out: totals since the store was opened. Never a
//! lock that the writer waits for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the writer has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    commits: AtomicU64,
    requests: AtomicU64,
    micros: AtomicU64,
    longest_micros: AtomicU64,
    busy_waits: AtomicU64,
}

/// The totals at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) commits: u64,
    pub(crate) requests: u64,
    pub(crate) time: Duration,
    /// Since the totals were read last.
    pub(crate) longest: Duration,
    pub(crate) busy_waits: u64,
}

impl Counted {
    /// A transaction with these requests was committed.
    pub(crate) fn commit(&self, requests: usize, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.longest_micros.fetch_max(micros, Ordering::Relaxed);
    }

    /// A thread waited this often for a lock.
    pub(crate) fn waited(&self, times: u64) {
        if times > 0 {
            self.busy_waits.fetch_add(times, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Totals {
        let longest = self.longest_micros.swap(0, Ordering::Relaxed);
        Totals {
            commits: self.commits.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            time: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
            longest: Duration::from_micros(longest),
            busy_waits: self.busy_waits.load(Ordering::Relaxed),
        }
    }
}
