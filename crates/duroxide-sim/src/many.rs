//! Many seeds. In: a range of seeds, how many threads. Out: the reports of those that failed, and totals.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::Plan;
use crate::world::{self, Report};

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Totals {
    pub seeds: u64,
    pub faults: u64,
    pub crashes: u64,
    pub polls: u64,
    pub length_ms: u64,
    /// Seeds with violations, lowest first.
    pub failed: Vec<Report>,
    /// All hashes folded into one, whatever the threads did.
    pub hash: u64,
}

/// Runs seeds on several threads, each run on one of them. Stops early once this many have failed.
#[must_use]
pub fn run(seeds: Range<u64>, threads: usize, failures_max: usize) -> Totals {
    let next = AtomicU64::new(seeds.start);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = world::run(&Plan::draw(seed), false);
                    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                    totals.add(report);
                    if totals.failed.len() >= failures_max {
                        return;
                    }
                }
            });
        }
    });
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.failed.sort_by_key(|report| report.seed);
    totals
}

impl Totals {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.faults += report.faults;
        self.crashes += report.crashes;
        self.polls += report.polls;
        self.length_ms += report.length_ms;
        self.hash = self
            .hash
            .wrapping_add(report.hash.rotate_left((report.seed % 63) as u32));
        if !report.violations.is_empty() {
            self.failed.push(report);
        }
    }
}
