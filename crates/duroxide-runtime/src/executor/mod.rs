//! Where dispatchers, turns and activities are polled. In: futures. Out: their effects. Code that blocks holds up nobody
//! else, and a future that hands work to the next one does not leave its thread.
//!
//! An async runtime's own threads would do for code that behaves. The author's code may block, and then everything
//! that happens to share its thread would stand still: other instances, lease renewals, the author's own servers. Here
//! a few drainers empty one queue. A drainer whose task takes too long counts as stuck, and another one takes over;
//! so well-behaved code shares a warm thread, and code that blocks has one to itself.
//!
//! Drainers are blocking threads of the async runtime the engine was started in: its timers, sockets and tasks work
//! inside them as everywhere.

mod contained;
mod drainer;
mod queue;
mod supervisor;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_task::Runnable;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use contained::Contained;
use queue::Queue;
use supervisor::Supervisor;

/// Kinds of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Dispatchers and turns, which others wait for.
    Engine,
    /// Activities, which may take their time.
    Work,
}

/// Polls futures off the async threads.
#[derive(Clone)]
pub(crate) struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Tells a drainer that lingers about work, without a lock.
    waiting: queue::Waiting,
    supervisor: supervisor::Call,
    handle: Handle,
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl Executor {
    /// An executor on the current async runtime. What it polls counts as these tasks and ends when `abort` fires. Fires
    /// it itself when nothing will be polled any more, because the async runtime is gone.
    pub(crate) fn start(
        tasks: TaskTracker,
        keepers: &TaskTracker,
        abort: CancellationToken,
    ) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            waiting: queue::Waiting::default(),
            supervisor: supervisor::Call::default(),
            handle: Handle::current(),
            tasks,
            abort,
        });
        keepers.spawn(Supervisor::new(Arc::clone(&shared)).watch());
        Self { shared }
    }

    /// Polls a future until it ends or must. The author's log lines in it go where the caller's go, also to a subscriber that
    /// only this thread has.
    pub(crate) fn spawn(&self, lane: Lane, future: impl Future<Output = ()> + Send + 'static) {
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        if subscriber.is::<NoSubscriber>() {
            self.spawn_tracked(lane, future);
        } else {
            self.spawn_tracked(lane, future.with_subscriber(subscriber));
        }
    }

    fn spawn_tracked(&self, lane: Lane, future: impl Future<Output = ()> + Send + 'static) {
        let abort = self.shared.abort.clone();
        let future = Contained::new(future);
        let future = self.shared.tasks.track_future(async move {
            tokio::select! {
                biased;
                () = abort.cancelled() => {}
                () = future => {}
            }
        });
        let shared = Arc::clone(&self.shared);
        let (runnable, task) = async_task::Builder::new()
            .metadata(lane)
            .spawn(move |_| future, move |runnable| shared.push(runnable));
        task.detach();
        runnable.schedule();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, runnable: Runnable<Lane>) {
        let mut queue = self.queue();
        if queue.is_sealed() {
            drop(queue);
            // It runs the author's destructors.
            drop(runnable);
            return;
        }
        queue.push(runnable, Instant::now());
        if queue.is_closed() {
            return;
        }
        self.waiting.set(queue.len());
        let called = queue.needs_drainer();
        if called {
            self.send_drainer(&mut queue);
        }
        drop(queue);
        self.supervisor.note_activity();
    }

    fn send_drainer(self: &Arc<Self>, queue: &mut Queue) {
        let drainer = queue.enlist();
        let shared = Arc::clone(self);
        self.tasks
            .spawn_blocking_on(move || drainer::drain(&shared, &drainer), &self.handle);
    }

    /// Nothing is polled any more; every future is dropped. All of them wait for `abort`, so it brings them here. They
    /// are not dropped by what wakes them: whoever calls a waker may hold a lock that their destructors want.
    fn close(&self) {
        self.queue().close();
        self.abort.cancel();
        loop {
            let left = self.queue().take_left();
            if left.is_empty() {
                return;
            }
            drop(left);
        }
    }
}
