//! Watches the log for writes of other processes while this one is idle. In: a request to watch. Out: one notification.
//!
//! The operating system notifies, so that an idle program costs nothing. A busy program checks for itself, because the
//! system would notify it of its own writes too. Where the system cannot notify, the writer goes on checking for
//! itself.

use std::path::PathBuf;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use super::inotify::WatchThread;
use super::watch_state::{WatchState, Watching};
#[cfg(not(target_os = "linux"))]
use unsupported::WatchThread;

/// The watch over one log. Belongs to the writer thread.
pub(super) struct LogWatcher {
    state: Arc<WatchState>,
    thread: Option<WatchThread>,
}

impl LogWatcher {
    pub(super) fn new() -> Self {
        Self {
            state: Arc::default(),
            thread: None,
        }
    }

    pub(super) fn watching(&self) -> Watching {
        self.state.get()
    }

    /// Requests a watch over this file. The thread calls `notify` when the watch is active, and when a write has ended
    /// it.
    pub(super) fn request(&mut self, log: PathBuf, notify: impl Fn() + Send + 'static) {
        if self.watching() != Watching::No {
            return;
        }
        if self.thread.is_none() {
            self.thread = WatchThread::start(Arc::clone(&self.state), log, notify);
        }
        match &self.thread {
            Some(thread) => {
                self.state.set(Watching::Requested);
                thread.request();
            }
            None => self.state.set(Watching::Unsupported),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::WatchState;

    /// Never started: this system cannot watch a file.
    pub(super) struct WatchThread;

    impl WatchThread {
        pub(super) fn start(
            _state: Arc<WatchState>,
            _log: PathBuf,
            _notify: impl Fn() + Send + 'static,
        ) -> Option<Self> {
            None
        }

        pub(super) fn request(&self) {}
    }
}
