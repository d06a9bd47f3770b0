//! Looks after the drainers while there is work: relieves stuck ones, complains about slow ones, and closes the
//! executor when the async runtime ends. Sleeps while nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::queue::STUCK;
use super::{Shared, Task, TaskKind};

/// A task that is polled longer than this is named in a warning.
const SLOW: Duration = Duration::from_secs(1);
/// After this many rounds without any task the supervisor sleeps.
const QUIET_ROUNDS: u32 = 100;

/// How tasks wake the supervisor. Nearly always it is awake, and that costs them two atomic operations.
#[derive(Debug, Default)]
pub(super) struct Call {
    activity: AtomicU64,
    awake: AtomicBool,
    first: Notify,
}

impl Call {
    pub(super) fn note_activity(&self) {
        // One order for all: either the task sees the supervisor asleep, or the supervisor sees the task.
        self.activity.fetch_add(1, Ordering::SeqCst);
        if !self.awake.load(Ordering::SeqCst) && !self.awake.swap(true, Ordering::SeqCst) {
            self.first.notify_one();
        }
    }
}

pub(super) struct Supervisor {
    shared: Arc<Shared>,
}

impl Supervisor {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) async fn watch(self) {
        tokio::select! {
            () = self.shared.abort.cancelled() => {}
            () = self.rounds() => {}
        }
    }

    async fn rounds(&self) {
        let call = &self.shared.supervisor;
        loop {
            call.first.notified().await;
            let mut quiet = 0;
            let mut seen = call.activity.load(Ordering::Relaxed);
            while quiet < QUIET_ROUNDS {
                tokio::time::sleep(STUCK).await;
                let now = call.activity.load(Ordering::Relaxed);
                let is_quiet = self.nobody_works() && now == seen;
                quiet = if is_quiet { quiet + 1 } else { 0 };
                seen = now;
            }
            call.awake.store(false, Ordering::SeqCst);
            // A task that came just before saw the supervisor awake.
            if call.activity.load(Ordering::SeqCst) != seen {
                call.awake.store(true, Ordering::SeqCst);
                call.first.notify_one();
            }
        }
    }

    /// One round; whether there is no drainer to look after.
    fn nobody_works(&self) -> bool {
        self.shared.call_help();
        let drainers = self.shared.queue().drainers().to_vec();
        for drainer in &drainers {
            if let Some(task) = drainer.overdue(SLOW) {
                complain(&task);
            }
            drainer.enforce_forfeit();
        }
        drainers.is_empty()
    }
}

fn complain(task: &Task) {
    match task.kind {
        TaskKind::Dispatch | TaskKind::Engine => tracing::warn!(
            target: "duroxide::runtime",
            "{task} has been running for long: orchestration code must not block; do slow work in activities"
        ),
        TaskKind::Work => tracing::warn!(
            target: "duroxide::runtime",
            "{task} has been blocking its thread for long: it cannot be cancelled meanwhile; use spawn_blocking"
        ),
    }
}

impl Drop for Supervisor {
    /// Reached when the engine is shut down. Nothing is polled then; every future is dropped, and with the last one the
    /// engine and its store.
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Lives in the async runtime the engine was started in, to learn that it ends.
pub(super) struct HostSentinel {
    shared: Arc<Shared>,
    /// What keeps time elsewhere, and this.
    keepers: TaskTracker,
}

/// How long the end of an async runtime waits for the engine inside it to drop its store.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(1);

impl HostSentinel {
    pub(super) fn new(shared: Arc<Shared>, keepers: TaskTracker) -> Self {
        Self { shared, keepers }
    }

    pub(super) async fn watch(self) {
        self.shared.abort.cancelled().await;
    }

    fn has_let_go(&self) -> bool {
        let queue = self.shared.queue();
        queue.is_sealed() && queue.drainers().is_empty() && self.keepers.len() <= 1
    }
}

impl Drop for HostSentinel {
    /// Reached when the engine is shut down, and when the async runtime is dropped under it. Then nothing can be polled
    /// any more, and the program that dropped it may open the same store next.
    fn drop(&mut self) {
        let was_shut_down = self.shared.abort.is_cancelled();
        self.shared.close();
        let until = std::time::Instant::now() + CLOSE_WAIT_MAX;
        while !was_shut_down && !self.has_let_go() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
