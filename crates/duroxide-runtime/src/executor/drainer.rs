//! One thread that polls what waits, lingers a moment when nothing does, and goes home.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_task::Runnable;

use super::queue::Drainer;
use super::{Lane, Shared};

/// How long a drainer looks out for more before it goes home: about as long as a store takes for one step. Waking a
/// thread that sleeps costs as much, on virtual machines more.
const LINGER: Duration = Duration::from_micros(150);
/// A task that takes longer than this calls for help for those behind it.
const SLOW: Duration = Duration::from_micros(200);

pub(super) fn drain(shared: &Arc<Shared>, me: &Arc<Drainer>) {
    while let Some(task) = next(shared, me) {
        let began = Instant::now();
        me.begin(*task.metadata(), began);
        // The author's panics end in the turn or activity they belong to; one that comes up here is a mistake of ours.
        if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
            tracing::error!(target: "duroxide::runtime", "a task of the runtime panicked");
        }
        me.end();
        if began.elapsed() > SLOW {
            shared.call_help();
        }
    }
}

/// The next task, or `None` when the drainer is off duty.
fn next(shared: &Shared, me: &Arc<Drainer>) -> Option<Runnable<Lane>> {
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
        // Whoever needs the processor gets it.
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
