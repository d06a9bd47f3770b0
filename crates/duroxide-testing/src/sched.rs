//! The one thread of a simulation or a test. In: futures of all nodes and clients. Out: one poll after the other, in an
//! order drawn from the seed. Time is tokio's, paused: it moves to the next timer when no future can be polled.
//!
//! Each future belongs to a group. A group can be paused, so that none of its futures is polled until it goes on, and
//! killed, so that all of them are dropped where they stand.

use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use duroxide_runtime::Poller;

use crate::rng::Rng;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Futures that live, pause and die together: one life of a node, or a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(usize);

struct Task {
    group: Group,
    number: u64,
    /// Taken out while it is polled.
    job: Option<Job>,
    waker: Waker,
    is_queued: bool,
}

#[derive(Default)]
struct Inner {
    tasks: Vec<Option<Task>>,
    free: Vec<usize>,
    ready: Vec<usize>,
    paused: BTreeSet<Group>,
    dead: BTreeSet<Group>,
    groups: usize,
    current: Option<Group>,
    polls: u64,
    spawned: u64,
    idle: Option<Waker>,
}

/// Polls futures in an order drawn from a seed.
pub struct Scheduler {
    inner: Mutex<Inner>,
    order: Mutex<Rng>,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

struct TaskWaker {
    scheduler: Arc<Scheduler>,
    task: usize,
    /// Places are used again; a waker of an earlier task must not wake a later one.
    number: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.scheduler.queue(self.task, self.number);
    }
}

impl Scheduler {
    /// A scheduler whose order this source determines.
    #[must_use]
    pub fn new(order: Rng) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            order: Mutex::new(order),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A group without futures.
    pub fn group(&self) -> Group {
        let mut inner = self.inner();
        inner.groups += 1;
        Group(inner.groups)
    }

    /// The group whose future is being polled.
    #[must_use]
    pub fn current(&self) -> Option<Group> {
        self.inner().current
    }

    /// Whether nothing can be polled before something wakes it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner().ready.is_empty()
    }

    /// How many polls there were.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.inner().polls
    }

    /// Polls a future as one of a group. A dead group takes none.
    pub fn spawn(self: &Arc<Self>, group: Group, job: Job) {
        let mut inner = self.inner();
        if inner.dead.contains(&group) {
            drop(inner);
            drop(job);
            return;
        }
        let place = inner.free.pop().unwrap_or(inner.tasks.len());
        if place == inner.tasks.len() {
            inner.tasks.push(None);
        }
        inner.spawned += 1;
        let number = inner.spawned;
        let waker = Arc::new(TaskWaker {
            scheduler: Arc::clone(self),
            task: place,
            number,
        });
        inner.tasks[place] = Some(Task {
            group,
            number,
            job: Some(job),
            waker: waker.into(),
            is_queued: true,
        });
        inner.ready.push(place);
        if let Some(idle) = inner.idle.take() {
            idle.wake();
        }
    }

    fn queue(&self, place: usize, number: u64) {
        let mut inner = self.inner();
        let Some(Some(task)) = inner.tasks.get_mut(place) else {
            return;
        };
        if task.number != number || std::mem::replace(&mut task.is_queued, true) {
            return;
        }
        inner.ready.push(place);
        if let Some(idle) = inner.idle.take() {
            idle.wake();
        }
    }

    /// From now on nothing of the group is polled.
    pub fn pause(&self, group: Group) {
        self.inner().paused.insert(group);
    }

    /// The group goes on.
    pub fn resume(&self, group: Group) {
        let mut inner = self.inner();
        inner.paused.remove(&group);
        if let Some(idle) = inner.idle.take() {
            idle.wake();
        }
    }

    /// Drops all futures of a group where they stand.
    pub fn kill(&self, group: Group) {
        let mut inner = self.inner();
        inner.dead.insert(group);
        inner.paused.remove(&group);
        let mut killed = Vec::new();
        for place in 0..inner.tasks.len() {
            let of_group = inner.tasks[place]
                .as_ref()
                .is_some_and(|task| task.group == group);
            if of_group {
                killed.extend(inner.tasks[place].take());
                inner.ready.retain(|ready| *ready != place);
                inner.free.push(place);
            }
        }
        drop(inner);
        // Destructors may wake and spawn.
        drop(killed);
    }

    /// Takes the next future, at random among those that can be polled.
    fn next(&self) -> Option<(usize, Job, Waker)> {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let (tasks, paused) = (&inner.tasks, &inner.paused);
        let runs = |place: &usize| {
            let task = tasks[*place].as_ref();
            task.is_some_and(|task| !paused.contains(&task.group))
        };
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = if paused.is_empty() {
            match inner.ready.len() {
                0 => return None,
                len => order.below(len),
            }
        } else {
            let open: Vec<usize> = (0..inner.ready.len())
                .filter(|at| runs(&inner.ready[*at]))
                .collect();
            match open.len() {
                0 => return None,
                len => open[order.below(len)],
            }
        };
        let place = inner.ready.swap_remove(chosen);
        let task = inner.tasks[place].as_mut()?;
        task.is_queued = false;
        inner.current = Some(task.group);
        inner.polls += 1;
        Some((place, task.job.take()?, task.waker.clone()))
    }

    fn poll_one(&self, (place, mut job, waker): (usize, Job, Waker)) {
        let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
        let mut inner = self.inner();
        inner.current = None;
        let inner = &mut *inner;
        // It may have been killed while it was polled, and its place given to another.
        let same = inner.tasks[place]
            .as_ref()
            .is_some_and(|task| task.waker.will_wake(&waker));
        if !same {
            return;
        }
        match polled {
            Poll::Pending => {
                if let Some(task) = &mut inner.tasks[place] {
                    task.job = Some(job);
                }
            }
            Poll::Ready(()) => {
                inner.tasks[place] = None;
                inner.ready.retain(|ready| *ready != place);
                inner.free.push(place);
            }
        }
    }

    /// Polls until `done` says so. Runs inside a tokio runtime whose time is paused.
    pub async fn run(self: &Arc<Self>, done: impl Fn() -> bool) {
        let turns = poll_fn(|cx| {
            loop {
                if done() {
                    return Poll::Ready(());
                }
                match self.next() {
                    Some(task) => self.poll_one(task),
                    None => {
                        self.inner().idle = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
        });
        // One budget for all would make futures yield that have done nothing yet.
        tokio::task::unconstrained(turns).await;
    }

    /// Drops everything that is left.
    pub fn clear(&self) {
        let left = {
            let mut inner = self.inner();
            for group in 0..=inner.groups {
                inner.dead.insert(Group(group));
            }
            inner.ready.clear();
            inner.free.clear();
            std::mem::take(&mut inner.tasks)
        };
        drop(left);
    }
}

/// Lets one group poll the futures of a runtime.
#[derive(Debug, Clone)]
pub struct GroupPoller {
    /// Scheduler that polls.
    pub scheduler: Arc<Scheduler>,
    /// Group whose futures it polls.
    pub group: Group,
}

impl Poller for GroupPoller {
    fn poll(&self, _what: &str, future: Job) {
        self.scheduler.spawn(self.group, future);
    }
}

/// Lets others be polled first, or not: a place where the order may change.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
