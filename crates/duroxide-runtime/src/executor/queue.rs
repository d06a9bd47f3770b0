//! What waits to be polled, and who polls. In: tasks. Out: the next one, and whether another drainer is needed.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_task::Runnable;
use duroxide_core::provider::Incarnation;

use super::{Task, TaskKind};

/// A task that is polled longer than this has its drainer to itself.
pub(super) const STUCK: Duration = Duration::from_millis(10);
/// Turns wait this long behind activities. Quick activities in front of a turn are a gain: it takes their completions
/// with it.
const TURN_PATIENCE: Duration = Duration::from_millis(2);
/// The answer to a claim waits this long behind anything: its leases run already, and are not renewed yet.
const CLAIM_PATIENCE: Duration = Duration::from_millis(2);
/// Activities let turns overtake them for this long.
const WORK_PATIENCE: Duration = Duration::from_millis(50);
/// This many waiting tasks call for another drainer at once. A few are quicker done than a thread is woken.
const BURST: usize = 4;

/// One thread that polls.
#[derive(Debug, Default)]
pub(super) struct Drainer(Mutex<Option<Polling>>);

/// What a drainer is at.
#[derive(Debug, Clone)]
struct Polling {
    task: Task,
    since: Instant,
    /// The supervisor has logged it.
    reported: bool,
}

impl Drainer {
    pub(super) fn begin(&self, task: Task, since: Instant) {
        let polling = Polling {
            task,
            since,
            reported: false,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(polling);
    }

    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The task that it has polled for this long, returned once.
    pub(super) fn overdue(&self, limit: Duration) -> Option<Task> {
        let mut polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let polling = polling.as_mut()?;
        if polling.reported || polling.since.elapsed() < limit {
            return None;
        }
        polling.reported = true;
        Some(polling.task.clone())
    }

    /// Lets others have what the task at hand forfeits, once it has taken too long.
    pub(super) fn enforce_forfeit(&self) {
        let polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let overdue = polling.as_ref().and_then(|polling| {
            let forfeit = polling.task.forfeit.as_ref()?;
            (polling.since.elapsed() >= forfeit.after).then(|| Arc::clone(forfeit))
        });
        drop(polling);
        if let Some(forfeit) = overdue {
            forfeit.release();
        }
    }

    fn has_polled(
        &self,
        kind: &str,
        subject: &str,
        incarnation: Option<Incarnation>,
        limit: Duration,
    ) -> bool {
        let polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polling.as_ref().is_some_and(|polling| {
            polling.since.elapsed() >= limit && polling.task.is(kind, subject, incarnation)
        })
    }

    fn task(&self) -> Option<Task> {
        let polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polling.as_ref().map(|polling| polling.task.clone())
    }

    fn is_stuck(&self, now: Instant) -> bool {
        let polling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polling
            .as_ref()
            .is_some_and(|polling| now.duration_since(polling.since) >= STUCK)
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
    task: Runnable<Task>,
    number: u64,
    since: Instant,
}

impl Waiter {
    fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

/// What waits to be polled, and who polls.
pub(super) struct Queue {
    dispatch: VecDeque<Waiter>,
    engine: VecDeque<Waiter>,
    work: VecDeque<Waiter>,
    next: u64,
    drainers: Vec<Arc<Drainer>>,
    /// One drainer has nothing to do and looks for more for a moment before it ends.
    lingers: bool,
    closed: bool,
    /// Closed, and what was left has been taken.
    sealed: bool,
    /// Drainers that poll at once, besides stuck ones.
    fresh_max: usize,
}

impl Default for Queue {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            dispatch: VecDeque::new(),
            engine: VecDeque::new(),
            work: VecDeque::new(),
            next: 0,
            drainers: Vec::new(),
            lingers: false,
            closed: false,
            sealed: false,
            fresh_max: cores.max(2),
        }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.dispatch.len() + self.engine.len() + self.work.len()
    }

    /// Nothing is handed out any more; what comes is kept to be dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing is kept any more either.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(super) fn drainers(&self) -> &[Arc<Drainer>] {
        &self.drainers
    }

    pub(super) fn push(&mut self, task: Runnable<Task>, now: Instant) {
        let waiting = match task.metadata().kind {
            TaskKind::Dispatch => &mut self.dispatch,
            TaskKind::Engine => &mut self.engine,
            TaskKind::Work => &mut self.work,
        };
        waiting.push_back(Waiter {
            task,
            number: self.next,
            since: now,
        });
        self.next += 1;
    }

    /// The task that came first; but a dispatcher that has waited goes before everything, and turns that have waited
    /// for long go before activities, unless these have waited much longer: turns that never end must not starve them.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Runnable<Task>> {
        if self.closed {
            return None;
        }
        let others = [&self.engine, &self.work];
        let dispatch_first = self.dispatch.front().is_some_and(|dispatch| {
            let is_oldest = |other: &&VecDeque<Waiter>| {
                let front = other.front();
                front.is_none_or(|waiter| dispatch.number < waiter.number)
            };
            dispatch.waited(now) > CLAIM_PATIENCE || others.iter().all(is_oldest)
        });
        if dispatch_first {
            return self.dispatch.pop_front().map(|waiter| waiter.task);
        }
        let engine_first = match (self.engine.front(), self.work.front()) {
            (Some(engine), Some(work)) => {
                let overtakes =
                    engine.waited(now) > TURN_PATIENCE && work.waited(now) < WORK_PATIENCE;
                engine.number < work.number || overtakes
            }
            (engine, _) => engine.is_some(),
        };
        let waiting = if engine_first {
            &mut self.engine
        } else {
            &mut self.work
        };
        waiting.pop_front().map(|waiter| waiter.task)
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

    /// Whether tasks wait that no drainer is likely to reach soon.
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

    /// What stuck drainers are at.
    pub(super) fn stuck(&self) -> Vec<String> {
        let now = Instant::now();
        let stuck = self.drainers.iter().filter(|drainer| drainer.is_stuck(now));
        let tasks = stuck.filter_map(|drainer| drainer.task());
        tasks.map(|task| task.to_string()).collect()
    }

    pub(super) fn is_stuck_at(
        &self,
        kind: &str,
        subject: &str,
        incarnation: Option<Incarnation>,
        limit: Duration,
    ) -> bool {
        let is_it = |drainer: &Arc<Drainer>| drainer.has_polled(kind, subject, incarnation, limit);
        self.drainers.iter().any(is_it)
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

    /// Hands out nothing more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// What waits in a closed queue, to be dropped; once nothing does, the queue is sealed.
    pub(super) fn take_left(&mut self) -> Vec<Runnable<Task>> {
        let left: Vec<_> = self
            .dispatch
            .drain(..)
            .chain(self.engine.drain(..))
            .chain(self.work.drain(..))
            .collect();
        self.sealed = left.is_empty();
        left.into_iter().map(|waiter| waiter.task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that says which one it is.
    fn task(kind: TaskKind) -> Runnable<Task> {
        let metadata = Task::of(kind, "a task", "of a test".into());
        let (task, handle) = async_task::Builder::new()
            .metadata(metadata)
            .spawn(|_| std::future::pending::<()>(), |_| {});
        handle.detach();
        task
    }

    fn popped(queue: &mut Queue, now: Instant) -> Option<TaskKind> {
        queue.pop(now).map(|task| task.metadata().kind)
    }

    #[test]
    fn a_turn_that_has_waited_goes_before_activities_and_a_fresh_one_does_not() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(task(TaskKind::Work), now);
        queue.push(task(TaskKind::Work), now);
        queue.push(task(TaskKind::Engine), now);
        assert_eq!(popped(&mut queue, now), Some(TaskKind::Work));
        let later = now + 2 * TURN_PATIENCE;
        assert_eq!(popped(&mut queue, later), Some(TaskKind::Engine));
        assert_eq!(popped(&mut queue, later), Some(TaskKind::Work));
        assert_eq!(popped(&mut queue, later), None);
    }

    #[test]
    fn the_answer_to_a_claim_waits_for_no_activity_however_long_that_has_waited() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(task(TaskKind::Work), now);
        queue.push(task(TaskKind::Engine), now);
        let later = now + 2 * WORK_PATIENCE;
        queue.push(task(TaskKind::Dispatch), later);
        let later = later + 2 * CLAIM_PATIENCE;
        assert_eq!(popped(&mut queue, later), Some(TaskKind::Dispatch));
        assert_eq!(popped(&mut queue, later), Some(TaskKind::Work));
        assert_eq!(popped(&mut queue, later), Some(TaskKind::Engine));
    }

    #[test]
    fn turns_without_end_do_not_starve_an_activity() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.push(task(TaskKind::Work), now);
        for _ in 0..1_000 {
            queue.push(task(TaskKind::Engine), now);
            queue.push(task(TaskKind::Engine), now);
            now += 2 * TURN_PATIENCE;
            if popped(&mut queue, now) == Some(TaskKind::Work) {
                return;
            }
        }
        panic!("the activity is never polled");
    }

    #[test]
    fn a_closed_queue_hands_out_nothing_and_is_sealed_once_what_was_left_is_taken() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(task(TaskKind::Work), now);
        queue.close();
        assert_eq!(popped(&mut queue, now), None);
        queue.push(task(TaskKind::Engine), now);
        assert_eq!(queue.take_left().len(), 2);
        assert!(!queue.is_sealed());
        assert!(queue.take_left().is_empty());
        assert!(queue.is_sealed());
    }
}
