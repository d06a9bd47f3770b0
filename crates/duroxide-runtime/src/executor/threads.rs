//! The threads that drainers run on. In: a drainer's work. Out: a thread that does it, a warm one if there is one.
//!
//! The engine has threads of its own. A program that fills its async runtime's blocking pool does not starve the
//! engine, and code that never returns keeps neither that pool nor the end of the program waiting. Where time is paused
//! the async runtime must know which threads work, because it moves time on when none does; there its blocking pool is
//! used.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

/// How long an idle thread waits for more before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Where drainers run.
#[derive(Clone)]
pub(super) enum Threads {
    /// In the blocking pool of the async runtime.
    Host(Handle),
    Own(Arc<Pool>),
}

impl Threads {
    /// Runs a job on a thread of its own, inside the context of the async runtime.
    pub(super) fn run(&self, host: &Handle, job: impl FnOnce() + Send + 'static) {
        match self {
            Self::Host(handle) => drop(handle.spawn_blocking(job)),
            Self::Own(pool) => {
                let host = host.clone();
                pool.run(Box::new(move || {
                    let _entered = host.enter();
                    job();
                }));
            }
        }
    }
}

/// Whether the clock of the current async runtime stands still, as in tests with virtual time. A running clock is
/// always between two looks at the system's clock.
pub(super) fn is_time_paused() -> bool {
    let before = std::time::Instant::now();
    let async_now = Instant::now().into_std();
    async_now < before || async_now > std::time::Instant::now()
}

/// Threads that wait for jobs.
#[derive(Default)]
pub(super) struct Pool {
    waiting: Mutex<Waiting>,
    ready: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    idle: usize,
}

impl Pool {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: &Arc<Self>, job: Job) {
        let mut waiting = self.waiting();
        waiting.jobs.push_back(job);
        if waiting.idle >= waiting.jobs.len() {
            drop(waiting);
            self.ready.notify_one();
            return;
        }
        drop(waiting);
        let pool = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("duroxide".to_owned())
            .spawn(move || pool.work());
        if let Err(error) = spawned {
            // A thread that is busy now takes the job when it is done.
            tracing::error!(target: "duroxide::runtime", %error, "the system gives no more threads");
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting();
        let mut idled = false;
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if idled {
                return None;
            }
            waiting.idle += 1;
            let (guard, timeout) = self
                .ready
                .wait_timeout(waiting, KEEP_ALIVE)
                .unwrap_or_else(PoisonError::into_inner);
            waiting = guard;
            waiting.idle -= 1;
            idled = timeout.timed_out();
        }
    }
}
