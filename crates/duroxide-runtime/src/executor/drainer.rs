//! One drainer. In: tasks that wait in the queue. Out: each polled once. With nothing to do it lingers a moment, then
//! gives its thread back to the pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_task::Runnable;

use super::queue::Drainer;
use super::{Shared, Task, TaskKind};

/// How long a drainer looks for more before it gives its thread back: about as long as a store takes for one step.
/// Waking a thread that sleeps costs as much, on virtual machines more.
const LINGER: Duration = Duration::from_micros(150);
/// After a task that took longer than this another drainer is sent for those behind it.
const SLOW: Duration = Duration::from_micros(200);

pub(super) fn drain(shared: &Arc<Shared>, me: &Arc<Drainer>) {
    while let Some(task) = next(shared, me) {
        let began = Instant::now();
        let about = task.metadata().clone();
        me.begin(about.clone(), began);
        // The author's panics end in the turn or activity they belong to. One that comes up here is a mistake of ours,
        // or the end of the async runtime, without which nothing can wait.
        if catch_unwind(AssertUnwindSafe(|| poll(shared, task))).is_err()
            && !shared.abort.is_cancelled()
        {
            tracing::error!(target: "duroxide::runtime", "a task of the runtime panicked: {about}");
        }
        me.end();
        if began.elapsed() > SLOW {
            shared.call_help();
        }
    }
}

/// Polls a task once.
fn poll(shared: &Shared, task: Runnable<Task>) {
    match task.metadata().kind {
        TaskKind::Dispatch | TaskKind::Engine => {
            task.run();
        }
        // This is the async runtime's way to poll with its cooperative budget.
        TaskKind::Work => shared.host.block_on(async {
            task.run();
        }),
    }
}

/// The next task; `None` ends the drainer.
fn next(shared: &Shared, me: &Arc<Drainer>) -> Option<Runnable<Task>> {
    let mut queue = shared.queue();
    if let Some(task) = queue.pop(Instant::now()) {
        shared.waiting.set(queue.len());
        return Some(task);
    }
    if queue.is_closed() || !queue.begin_lingering() {
        queue.dismiss(me);
        return None;
    }
    drop(queue);
    linger(shared);
    let mut queue = shared.queue();
    queue.end_lingering();
    let task = queue.pop(Instant::now());
    match &task {
        Some(_) => shared.waiting.set(queue.len()),
        None => queue.dismiss(me),
    }
    task
}

fn linger(shared: &Shared) {
    let until = Instant::now() + LINGER;
    while !shared.waiting.any() && Instant::now() < until {
        // Another thread that needs the processor gets it.
        std::thread::yield_now();
    }
}

impl Shared {
    /// Sends another drainer if tasks wait behind slow ones.
    pub(super) fn call_help(self: &Arc<Self>) {
        let mut queue = self.queue();
        if queue.needs_help() {
            self.send_drainer(&mut queue);
        }
    }
}
