//! Threads that run the author's code. In: turns, and polls of activities. Out: their results. Code that blocks holds up
//! nobody else.
//!
//! A turn takes microseconds, so handing each to a thread of its own would cost more than running it. Instead a few
//! drainers empty one queue and go home. A drainer whose turn takes too long counts as stuck, and another one takes
//! over the queue; so well-behaved code shares a warm thread, and code that blocks has one to itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Drainers that work at once, besides stuck ones.
const FRESH_MAX: usize = 2;
/// A turn that takes longer than this has its drainer to itself.
const STUCK: Duration = Duration::from_millis(20);
/// A turn that takes longer than this is named in a warning.
const SLOW: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// When each drainer took its current turn.
    drainers: Vec<Arc<Mutex<Instant>>>,
}

/// Runs turns off the async threads.
pub(crate) struct TurnPool {
    queue: Arc<Mutex<Queue>>,
    tasks: TaskTracker,
    /// What is said about code that takes too long.
    complaint: &'static str,
}

impl TurnPool {
    /// A pool whose drainers belong to these tasks.
    pub(crate) fn new(tasks: TaskTracker, complaint: &'static str) -> Self {
        Self {
            queue: Arc::default(),
            tasks,
            complaint,
        }
    }

    /// Runs code; `None` if it was given up because everything is being torn down.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        code: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        self.push(Box::new(move || {
            // Whoever waited may be gone; then nobody wants the result.
            let _unwanted = done.send(code());
        }));
        tokio::pin!(result);
        let mut waited = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                result = &mut result => return result.ok(),
                () = tokio::time::sleep(STUCK) => {
                    waited += STUCK;
                    self.relieve();
                    if waited == SLOW {
                        tracing::warn!(target: "duroxide::runtime", "{}", self.complaint);
                    }
                }
            }
        }
    }

    fn push(&self, job: Job) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        self.staff(&mut queue);
    }

    /// Sends another drainer if the queue is stuck behind slow turns.
    fn relieve(&self) {
        let mut queue = lock(&self.queue);
        if !queue.jobs.is_empty() {
            self.staff(&mut queue);
        }
    }

    fn staff(&self, queue: &mut Queue) {
        let now = Instant::now();
        let fresh = queue
            .drainers
            .iter()
            .filter(|since| now.duration_since(*lock(since)) < STUCK)
            .count();
        if fresh < FRESH_MAX.min(fresh + queue.jobs.len()) {
            let since = Arc::new(Mutex::new(now));
            queue.drainers.push(Arc::clone(&since));
            let queue = Arc::clone(&self.queue);
            self.tasks.spawn_blocking(move || drain(&queue, &since));
        }
    }
}

/// Runs turns until none is left.
fn drain(queue: &Mutex<Queue>, since: &Arc<Mutex<Instant>>) {
    loop {
        let job = {
            let mut queue = lock(queue);
            match queue.jobs.pop_front() {
                Some(job) => job,
                None => {
                    queue.drainers.retain(|other| !Arc::ptr_eq(other, since));
                    return;
                }
            }
        };
        *lock(since) = Instant::now();
        job();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
