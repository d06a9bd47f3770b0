//! Where dispatchers, turns and activities are polled. In: futures. Out: their effects. Code that blocks holds up no
//! other code, and a future that hands work to the next one does not leave its thread.
//!
//! An async runtime's own threads would do for code that behaves. The author's code may block, and then everything
//! that happens to share its thread would stand still: other instances, lease renewals, the author's own servers. Here
//! a few drainers empty one queue. A drainer whose task takes too long counts as stuck, and another one takes over;
//! so well-behaved code shares a warm thread, and code that blocks has one to itself.
//!
//! A simulation polls everything itself and hands in its own [`Poller`] (`given.rs`): then there are no drainers, no
//! thread that keeps time, and no drainer to look after.
//!
//! Drainers are threads of the engine (`threads.rs`) inside the context of the async runtime the engine was started in:
//! its timers, sockets and tasks work in them as everywhere. Activities are polled with the async runtime's cooperative
//! budget, so that one whose futures are always ready is still notified of its cancellation.

mod contained;
mod drainer;
mod given;
mod queue;
mod subscriber;
mod supervisor;
mod task;
#[cfg(test)]
mod tests;
mod threads;
mod timekeeper;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_task::Runnable;
use duroxide_core::provider::Incarnation;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use contained::Contained;
use given::Given;
pub use given::Poller;
use queue::Queue;
use supervisor::Supervisor;
pub(crate) use task::{Forfeit, Task, TaskKind};
use threads::Threads;
use timekeeper::Timekeeper;

/// Polls futures off the async threads, or lets a [`Poller`] that was handed in poll them.
#[derive(Clone)]
pub(crate) enum Executor {
    Own(Arc<Shared>),
    Given(Given),
}

pub(crate) struct Shared {
    queue: Mutex<Queue>,
    /// Notifies a lingering drainer of work, without a lock.
    waiting: queue::Waiting,
    supervisor: supervisor::Call,
    /// The async runtime the engine was started in.
    host: Handle,
    threads: Threads,
    timekeeper: Arc<Timekeeper>,
    is_closing: AtomicBool,
    tasks: TaskTracker,
    abort: CancellationToken,
    /// The subscriber to set around each poll, if the threads lack it.
    subscriber: Option<Dispatch>,
}

impl Executor {
    /// Whether time passes by steps only, as in tests with a paused clock.
    pub(crate) fn is_in_virtual_time(&self) -> bool {
        match self {
            Self::Own(shared) => matches!(shared.threads, Threads::Host(_)),
            Self::Given(_) => false,
        }
    }

    /// An executor on the current async runtime. What it polls counts as these tasks and ends when `abort` fires. Fires
    /// it itself when nothing will be polled any more, because the async runtime is gone.
    pub(crate) fn start(
        tasks: TaskTracker,
        keepers: &TaskTracker,
        abort: CancellationToken,
        poller: Option<Arc<dyn Poller>>,
    ) -> Self {
        if let Some(poller) = poller {
            return Self::Given(Given::new(poller, tasks, abort));
        }
        let host = Handle::current();
        let own = if threads::is_time_paused() {
            None
        } else {
            timekeeper()
        };
        let threads = match own {
            Some(_) => Threads::Own(Arc::default()),
            None => Threads::Host(host.clone()),
        };
        let timekeeper = own.unwrap_or_else(|| Arc::new(Timekeeper::on_host(host.clone())));
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            waiting: queue::Waiting::default(),
            supervisor: supervisor::Call::default(),
            host,
            threads,
            timekeeper,
            is_closing: AtomicBool::new(false),
            tasks,
            abort,
            subscriber: subscriber::of_this_thread(),
        });
        // What it says about code that does not return goes where the starting thread's log lines go.
        let supervisor = Supervisor::new(Arc::clone(&shared))
            .watch()
            .with_current_subscriber();
        keepers.spawn_on(supervisor, shared.timekeeper.handle());
        keepers.spawn(supervisor::HostSentinel::new(Arc::clone(&shared), keepers.clone()).watch());
        Self::Own(shared)
    }

    /// What is being polled now, and has been for a while.
    pub(crate) fn stuck(&self) -> Vec<String> {
        match self {
            Self::Own(shared) => shared.queue().stuck(),
            Self::Given(_) => Vec::new(),
        }
    }

    /// Whether a poll of such a task has been going on for this long.
    pub(crate) fn is_stuck_at(
        &self,
        kind: &str,
        subject: &str,
        incarnation: Option<Incarnation>,
        limit: Duration,
    ) -> bool {
        match self {
            Self::Own(shared) => shared
                .queue()
                .is_stuck_at(kind, subject, incarnation, limit),
            Self::Given(_) => false,
        }
    }

    /// Runs something on a thread that may block, in time or not: destructors of authors' values.
    pub(crate) fn run_aside(&self, what: impl FnOnce() + Send + 'static) {
        match self {
            Self::Own(shared) => {
                let counted = shared.tasks.token();
                shared.threads.run(&shared.host, move || {
                    what();
                    drop(counted);
                });
            }
            Self::Given(_) => what(),
        }
    }

    /// Where what must keep time runs, whatever becomes of the program's async threads.
    pub(crate) fn timekeeper(&self) -> &Handle {
        match self {
            Self::Own(shared) => shared.timekeeper.handle(),
            Self::Given(given) => given.host(),
        }
    }

    /// The async runtime the engine was started in.
    pub(crate) fn host(&self) -> &Handle {
        match self {
            Self::Own(shared) => &shared.host,
            Self::Given(given) => given.host(),
        }
    }

    /// Runs a task of the engine, where time is kept whatever becomes of the program's async threads.
    pub(crate) fn spawn_keeper(
        &self,
        keepers: &TaskTracker,
        keeper: impl Future<Output = ()> + Send + 'static,
    ) {
        match self {
            Self::Own(shared) => drop(keepers.spawn_on(keeper, shared.timekeeper.handle())),
            Self::Given(given) => given.spawn_tracked("a keeper", keepers, keeper),
        }
    }

    /// Runs a task of the engine on the async runtime it was started in.
    pub(crate) fn spawn_on_host(
        &self,
        tasks: &TaskTracker,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        match self {
            Self::Own(shared) => drop(tasks.spawn_on(task, &shared.host)),
            Self::Given(given) => given.spawn_tracked("a task", tasks, task),
        }
    }

    /// Polls a future until it ends or must. The author's log lines in it go where those of the thread go that started
    /// the engine, also to a subscriber that only that one has.
    pub(crate) fn spawn(&self, task: Task, future: impl Future<Output = ()> + Send + 'static) {
        // On the heap before anything wraps it: the future of a turn has many kilobytes, and every wrapper would move
        // them.
        let future = Box::pin(future);
        let subscriber = match self {
            Self::Own(shared) => shared.subscriber.clone(),
            Self::Given(_) => subscriber::of_the_caller(),
        };
        match subscriber {
            None => self.spawn_contained(task, Contained::new(future)),
            Some(subscriber) => {
                let future = future.with_subscriber(subscriber);
                self.spawn_contained(task, Contained::new(Box::pin(future)));
            }
        }
    }

    fn spawn_contained(&self, task: Task, future: Contained) {
        match self {
            Self::Own(shared) => shared.spawn(task, future),
            Self::Given(given) => given.spawn(&task, future),
        }
    }
}

/// A future that ends when `abort` fires, counted among these tasks.
fn until_abort(
    tasks: &TaskTracker,
    abort: CancellationToken,
    future: Contained,
) -> impl Future<Output = ()> + Send + 'static {
    tasks.track_future(async move {
        tokio::select! {
            biased;
            () = abort.cancelled() => {}
            () = future => {}
        }
    })
}

/// A thread that keeps time; without one the async runtime must do.
fn timekeeper() -> Option<Arc<Timekeeper>> {
    Timekeeper::start()
        .inspect_err(|error| {
            tracing::warn!(target: "duroxide::runtime", %error, "no thread to keep time: a blocked async runtime may lose leases");
        })
        .ok()
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>, task: Task, future: Contained) {
        let future = until_abort(&self.tasks, self.abort.clone(), future);
        let shared = Arc::clone(self);
        let (runnable, handle) = async_task::Builder::new()
            .metadata(task)
            .spawn(move |_| future, move |runnable| shared.push(runnable));
        handle.detach();
        runnable.schedule();
    }

    fn push(self: &Arc<Self>, runnable: Runnable<Task>) {
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
        let counted = self.tasks.token();
        self.threads.run(&self.host, move || {
            drainer::drain(&shared, &drainer);
            // The thread may be kept waiting; what it held must not be.
            drop(shared);
            drop(counted);
        });
    }

    /// Nothing is polled any more; every future is dropped. All of them wait for `abort`, so it brings them here. They
    /// are not dropped by what wakes them: the caller of a waker may hold a lock that their destructors want.
    fn close(self: &Arc<Self>) {
        // Two may want to: the end of the engine and the end of the async runtime. A future that one of them drops may
        // wake another, which must still find a queue.
        if self.is_closing.swap(true, Ordering::SeqCst) {
            return;
        }
        self.queue().close();
        self.abort.cancel();
        // Destructors of authors may block, and the thread that keeps time must not.
        let shared = Arc::clone(self);
        match &self.threads {
            Threads::Own(_) => self.threads.run(&self.host, move || shared.drop_left()),
            Threads::Host(_) => shared.drop_left(),
        }
    }

    fn drop_left(&self) {
        loop {
            let left = self.queue().take_left();
            if left.is_empty() {
                return;
            }
            drop(left);
        }
    }
}
