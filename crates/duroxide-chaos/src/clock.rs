//! The clock of a run, which may be set. In: an offset in a file of the run's folder. Out: the machine's time, moved by
//! it, for every process of the run alike.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use duroxide_core::clock::{Clock, ClockRef};

use crate::ledger::now_ms;

/// How soon a process notices that its clock was set.
const NOTICED_WITHIN: Duration = Duration::from_millis(5);

fn file_in(folder: &Path) -> PathBuf {
    folder.join("clock")
}

fn offset_in(folder: &Path) -> Option<i64> {
    let text = std::fs::read_to_string(file_in(folder)).ok()?;
    text.trim().parse().ok()
}

/// Whether the clock of a run can be set.
pub(crate) fn is_settable(folder: &Path) -> bool {
    offset_in(folder).is_some()
}

/// Moves the clock of a run, and returns by how much it is off the machine's since then.
pub(crate) fn step(folder: &Path, by_ms: i64) -> i64 {
    let offset_ms = offset_in(folder).unwrap_or(0) + by_ms;
    set(folder, offset_ms);
    offset_ms
}

/// Sets the clock of all processes of a run to so much more than the machine's. They must have begun with a clock that
/// can be set.
pub(crate) fn set(folder: &Path, offset_ms: i64) {
    // In one step: nobody reads half a number.
    let next = folder.join("clock.next");
    std::fs::write(&next, offset_ms.to_string()).expect("a file in the folder of the run");
    std::fs::rename(next, file_in(folder)).expect("a file in the folder of the run");
}

/// The clock of a run, if it can be set; otherwise its processes use the machine's.
pub(crate) fn of(folder: &Path) -> Option<ClockRef> {
    let clock = Arc::new(Settable {
        offset_ms: AtomicI64::new(offset_in(folder)?),
    });
    let (folder, followed) = (folder.to_owned(), Arc::downgrade(&clock));
    std::thread::spawn(move || {
        while let Some(clock) = followed.upgrade() {
            if let Some(offset_ms) = offset_in(&folder) {
                clock.offset_ms.store(offset_ms, Ordering::Relaxed);
            }
            drop(clock);
            std::thread::sleep(NOTICED_WITHIN);
        }
    });
    Some(clock)
}

#[derive(Debug)]
struct Settable {
    offset_ms: AtomicI64,
}

impl Clock for Settable {
    fn now_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.offset_ms.load(Ordering::Relaxed))
    }
}
