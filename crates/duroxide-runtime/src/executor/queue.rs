//! What waits to be polled, and who polls. In: tasks. Out: the next one, and whether another drainer is needed.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_task::Runnable;

use super::Lane;

/// A task that is polled longer than this has its drainer to itself.
pub(super) const STUCK: Duration = Duration::from_millis(10);
/// Turns wait this long behind activities. Quick activities in front of a turn are a gain: it takes their completions
/// with it.
const PATIENCE: Duration = Duration::from_millis(2);
/// This many waiting tasks call for another drainer at once. A few are quicker done than a thread is woken.
const BURST: usize = 4;

/// One thread that polls.
#[derive(Debug, Default)]
pub(super) struct Drainer(Mutex<Option<Polling>>);

/// What a drainer is at.
#[derive(Debug, Clone, Copy)]
struct Polling {
    lane: Lane,
    since: Instant,
    /// Somebody complained about it.
    reported: bool,
}

impl Drainer {
    pub(super) fn begin(&self, lane: Lane, since: Instant) {
        let polling = Polling {
            lane,
            since,
            reported: false,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(polling);
    }

    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What it has been at for this long, told once.
    pub(super) fn overdue(&self, limit: Duration) -> Option<Lane> {
        let mut polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let polling = polling.as_mut()?;
        if polling.reported || polling.since.elapsed() < limit {
            return None;
        }
        polling.reported = true;
        Some(polling.lane)
    }

    fn is_stuck(&self, now: Instant) -> bool {
        let polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polling.is_some_and(|polling| now.duration_since(polling.since) >= STUCK)
    }
}

/// How many tasks wait, for a drainer that lingers.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicUsize);

impl Waiting {
    pub(super) fn set(&self, tasks: usize) {
        self.0.store(tasks, Ordering::Release);
    }

    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// A task that waits.
struct Waiter {
    task: Runnable<Lane>,
    number: u64,
    since: Instant,
}

/// What waits to be polled, and who polls.
pub(super) struct Queue {
    engine: VecDeque<Waiter>,
    work: VecDeque<Waiter>,
    next: u64,
    drainers: Vec<Arc<Drainer>>,
    /// One drainer has nothing to do and looks out for a moment before it goes home.
    lingers: bool,
    closed: bool,
    /// Drainers that poll at once, besides stuck ones.
    fresh_max: usize,
}

impl Default for Queue {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            engine: VecDeque::new(),
            work: VecDeque::new(),
            next: 0,
            drainers: Vec::new(),
            lingers: false,
            closed: false,
            fresh_max: cores.max(2),
        }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.engine.len() + self.work.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn drainers(&self) -> &[Arc<Drainer>] {
        &self.drainers
    }

    pub(super) fn push(&mut self, task: Runnable<Lane>) {
        let lane = match *task.metadata() {
            Lane::Engine => &mut self.engine,
            Lane::Work => &mut self.work,
        };
        lane.push_back(Waiter {
            task,
            number: self.next,
            since: Instant::now(),
        });
        self.next += 1;
    }

    /// The task that came first; but turns that have waited for long go before activities.
    pub(super) fn pop(&mut self) -> Option<Runnable<Lane>> {
        let engine_first = match (self.engine.front(), self.work.front()) {
            (Some(engine), Some(work)) => {
                engine.number < work.number || engine.since.elapsed() > PATIENCE
            }
            (engine, _) => engine.is_some(),
        };
        let lane = match engine_first {
            true => &mut self.engine,
            false => &mut self.work,
        };
        lane.pop_front().map(|waiter| waiter.task)
    }

    /// Whether a task that has just come needs a drainer that is not there yet.
    pub(super) fn needs_drainer(&self) -> bool {
        if self.lingers {
            return false;
        }
        match self.fresh() {
            0 => true,
            fresh => self.len() > BURST * fresh && fresh < self.fresh_max,
        }
    }

    /// Whether tasks wait that nobody is likely to reach soon.
    pub(super) fn needs_help(&self) -> bool {
        self.len() > 0 && !self.lingers && self.fresh() < self.fresh_max
    }

    fn fresh(&self) -> usize {
        let now = Instant::now();
        self.drainers
            .iter()
            .filter(|drainer| !drainer.is_stuck(now))
            .count()
    }

    pub(super) fn enlist(&mut self) -> Arc<Drainer> {
        let drainer = Arc::new(Drainer::default());
        self.drainers.push(Arc::clone(&drainer));
        drainer
    }

    pub(super) fn dismiss(&mut self, drainer: &Arc<Drainer>) {
        self.drainers.retain(|other| !Arc::ptr_eq(other, drainer));
    }

    /// Lets a drainer linger, unless one does already.
    pub(super) fn begin_lingering(&mut self) -> bool {
        !std::mem::replace(&mut self.lingers, true)
    }

    pub(super) fn end_lingering(&mut self) {
        self.lingers = false;
    }

    /// Accepts nothing more; returns what was waiting, to be dropped.
    pub(super) fn close(&mut self) -> Vec<Runnable<Lane>> {
        self.closed = true;
        let left = self.engine.drain(..).chain(self.work.drain(..));
        left.map(|waiter| waiter.task).collect()
    }
}
