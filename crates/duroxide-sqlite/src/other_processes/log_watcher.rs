//! Notices that another process writes to the log while this one is at rest. In: an order to watch. Out: one notice.
//!
//! The operating system tells it, so that a program at rest costs nothing; a busy one looks for itself, because its own
//! writes would be told too. Where the system cannot tell, the writer goes on looking for itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where the watch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Post {
    /// Nobody watches.
    Empty,
    /// Somebody is on the way.
    Ordered,
    /// Every write from here on will be told.
    Manned,
    /// The system cannot tell.
    Impossible,
}

#[derive(Debug, Default)]
struct State(AtomicU8);

impl State {
    fn set(&self, post: Post) {
        let code = match post {
            Post::Empty => 0,
            Post::Ordered => 1,
            Post::Manned => 2,
            Post::Impossible => 3,
        };
        self.0.store(code, Ordering::Release);
    }

    fn get(&self) -> Post {
        match self.0.load(Ordering::Acquire) {
            1 => Post::Ordered,
            2 => Post::Manned,
            3 => Post::Impossible,
            _ => Post::Empty,
        }
    }
}

/// The watch over one log. Belongs to the writer thread.
pub(crate) struct Lookout {
    state: Arc<State>,
    sentry: Option<sentry::Sentry>,
}

impl Lookout {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::default(),
            sentry: None,
        }
    }

    pub(crate) fn post(&self) -> Post {
        self.state.get()
    }

    /// Orders a watch over this file. `tell` is called when it has begun, and when it ended because something was
    /// written.
    pub(crate) fn order(&mut self, log: PathBuf, tell: impl Fn() + Send + 'static) {
        if self.post() != Post::Empty {
            return;
        }
        if self.sentry.is_none() {
            self.sentry = sentry::Sentry::start(Arc::clone(&self.state), log, tell);
        }
        match &self.sentry {
            Some(sentry) => {
                self.state.set(Post::Ordered);
                sentry.order();
            }
            None => self.state.set(Post::Impossible),
        }
    }
}

#[cfg(target_os = "linux")]
mod sentry {
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::{Errno, write};

    use super::{Post, State};
    use crate::requests::inbox::{Inbox, Took};

    /// The thread that waits for the system to tell.
    pub(super) struct Sentry {
        orders: Arc<Inbox<()>>,
        recall: Arc<OwnedFd>,
        thread: Option<JoinHandle<()>>,
    }

    impl Sentry {
        pub(super) fn start(
            state: Arc<State>,
            log: PathBuf,
            tell: impl Fn() + Send + 'static,
        ) -> Option<Self> {
            let recall = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
            let orders = Arc::new(Inbox::new());
            let thread = thread::Builder::new()
                .name("duroxide-look".to_owned())
                .spawn({
                    let (orders, recall) = (Arc::clone(&orders), Arc::clone(&recall));
                    move || serve(&orders, &recall, &state, &log, tell)
                })
                .ok()?;
            Some(Self {
                orders,
                recall,
                thread: Some(thread),
            })
        }

        pub(super) fn order(&self) {
            // Closed only when the thread is gone; then the writer looks for itself.
            let _ = self.orders.push(());
        }
    }

    impl Drop for Sentry {
        fn drop(&mut self) {
            self.orders.close();
            let _ = write(&*self.recall, &1_u64.to_ne_bytes());
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        }
    }

    fn serve(orders: &Inbox<()>, recall: &OwnedFd, state: &State, log: &Path, tell: impl Fn()) {
        let mut taken = Vec::new();
        while orders.take(usize::MAX, None, &mut taken) == Took::Some {
            taken.clear();
            state.set(match watch(recall, state, log, &tell) {
                Ok(()) => Post::Empty,
                Err(error) => {
                    tracing::debug!(target: "duroxide::providers::sqlite", %error, "the log cannot be watched, it is looked at instead");
                    Post::Impossible
                }
            });
            tell();
        }
    }

    /// Returns when something was written, or when recalled.
    fn watch(recall: &OwnedFd, state: &State, log: &Path, tell: impl Fn()) -> Result<(), Errno> {
        // One object per watch: nothing of an earlier one is left in it.
        let told = inotify::init(CreateFlags::CLOEXEC)?;
        let changes = WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        inotify::add_watch(&told, log, changes | WatchFlags::ONESHOT)?;
        state.set(Post::Manned);
        tell();
        let mut either = [
            PollFd::new(&told, PollFlags::IN),
            PollFd::new(recall, PollFlags::IN),
        ];
        loop {
            match poll(&mut either, None) {
                Err(Errno::INTR) => {}
                done => return done.map(drop),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod sentry {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::State;

    /// Never posted: this system cannot tell.
    pub(super) struct Sentry;

    impl Sentry {
        pub(super) fn start(
            _state: Arc<State>,
            _log: PathBuf,
            _tell: impl Fn() + Send + 'static,
        ) -> Option<Self> {
            None
        }

        pub(super) fn order(&self) {}
    }
}
