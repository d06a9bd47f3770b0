//! How far the watch over the log has come. Shared by the writer and the thread that watches.

use std::sync::atomic::{AtomicU8, Ordering};

/// How far the watch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watching {
    No,
    /// The writer asked for it, and the thread has not begun yet.
    Requested,
    /// The system notifies of every write from here on.
    Active,
    /// The system cannot watch the file.
    Unsupported,
}

/// Shared by the writer and the thread that watches.
#[derive(Debug, Default)]
pub(super) struct WatchState(AtomicU8);

impl WatchState {
    pub(super) fn set(&self, watching: Watching) {
        let code = match watching {
            Watching::No => 0,
            Watching::Requested => 1,
            Watching::Active => 2,
            Watching::Unsupported => 3,
        };
        self.0.store(code, Ordering::Release);
    }

    pub(super) fn get(&self) -> Watching {
        match self.0.load(Ordering::Acquire) {
            1 => Watching::Requested,
            2 => Watching::Active,
            3 => Watching::Unsupported,
            _ => Watching::No,
        }
    }
}
