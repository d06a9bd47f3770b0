//! The thread that waits for inotify to report a write to the log. In: requests to watch. Out: the state of the watch,
//! and notifications to the writer.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, write};

use super::watch_state::{WatchState, Watching};
use crate::requests::{Inbox, Took};

/// The thread, until it is dropped.
pub(super) struct WatchThread {
    requests: Arc<Inbox<()>>,
    /// Written to end a watch that is active.
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl WatchThread {
    pub(super) fn start(
        state: Arc<WatchState>,
        log: PathBuf,
        notify: impl Fn() + Send + 'static,
    ) -> Option<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
        let requests = Arc::new(Inbox::new());
        let thread = thread::Builder::new()
            .name("duroxide-watch".to_owned())
            .spawn({
                let (requests, stop) = (Arc::clone(&requests), Arc::clone(&stop));
                move || serve(&requests, &stop, &state, &log, notify)
            })
            .ok()?;
        Some(Self {
            requests,
            stop,
            thread: Some(thread),
        })
    }

    pub(super) fn request(&self) {
        // Closed only when the thread has ended; then the writer checks for itself.
        let _ = self.requests.push(());
    }
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        self.requests.close();
        let _ = write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(requests: &Inbox<()>, stop: &OwnedFd, state: &WatchState, log: &Path, notify: impl Fn()) {
    let mut taken = Vec::new();
    while requests.take(usize::MAX, None, &mut taken) == Took::Some {
        taken.clear();
        state.set(match watch(stop, state, log, &notify) {
            Ok(()) => Watching::No,
            Err(error) => {
                tracing::debug!(target: "duroxide::providers::sqlite", %error, "the log cannot be watched, the writer checks it instead");
                Watching::Unsupported
            }
        });
        notify();
    }
}

/// Returns when the log was written, or when the store is closed.
fn watch(stop: &OwnedFd, state: &WatchState, log: &Path, notify: impl Fn()) -> Result<(), Errno> {
    // One object per watch: no event of an earlier one is left in it.
    let events = inotify::init(CreateFlags::CLOEXEC)?;
    let changes = WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(&events, log, changes | WatchFlags::ONESHOT)?;
    state.set(Watching::Active);
    notify();
    let mut either = [
        PollFd::new(&events, PollFlags::IN),
        PollFd::new(stop, PollFlags::IN),
    ];
    loop {
        match poll(&mut either, None) {
            Err(Errno::INTR) => {}
            done => return done.map(drop),
        }
    }
}
