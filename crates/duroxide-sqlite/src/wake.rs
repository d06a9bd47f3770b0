//! Who waits, and how they are told. In: effects of committed requests, changes by other processes. Out: wake-ups.
//!
//! A waiter registers first, then tries, then waits: a commit after its try always finds it registered, so no wake-up
//! can fall between. Waking is a hint and never a hand-out; every woken waiter tries again through the writer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use duroxide_core::provider::InstanceWatch;
use tokio::sync::watch;

use crate::tx::Effects;

/// One of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Turns,
    Work,
}

/// The waiting room of one store.
#[derive(Debug)]
pub(crate) struct Wake {
    turns: Bell,
    work: Bell,
    /// How many wait for anything at all; while nobody does, other processes are not looked at.
    waiting: AtomicUsize,
    instances: Mutex<HashMap<String, watch::Sender<()>>>,
}

#[derive(Debug)]
struct Bell {
    ring: watch::Sender<u64>,
    /// Until when the waiters were told to sleep. Only the writer thread touches it, between its requests.
    told_due: AtomicI64,
}

impl Bell {
    fn new() -> Self {
        Self {
            ring: watch::Sender::new(0),
            told_due: AtomicI64::new(i64::MAX),
        }
    }

    fn ring(&self) {
        self.ring
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Something becomes claimable at `at`: ring if that is now, or sooner than the waiters think.
    fn claimable_at(&self, at: i64, now: i64) {
        if at <= now || at < self.told_due.load(Ordering::Relaxed) {
            self.ring();
        }
    }
}

impl Wake {
    pub(crate) fn new() -> Self {
        Self {
            turns: Bell::new(),
            work: Bell::new(),
            waiting: AtomicUsize::new(0),
            instances: Mutex::new(HashMap::new()),
        }
    }

    /// Registers somebody who is about to try, and to wait if the try finds nothing.
    pub(crate) fn wait_on(self: &Arc<Self>, queue: Queue) -> Waiter {
        Waiter {
            ring: self.bell(queue).ring.subscribe(),
            _counted: Counted::new(self),
        }
    }

    /// Registers somebody who follows one instance.
    pub(crate) fn watch(self: &Arc<Self>, instance: &str) -> Watch {
        let mut instances = self.instances();
        let changes = match instances.get(instance) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, changes) = watch::channel(());
                instances.insert(instance.to_owned(), sender);
                changes
            }
        };
        drop(instances);
        Watch {
            instance: instance.to_owned(),
            changes: Some(changes),
            counted: Counted::new(self),
        }
    }

    /// Tells those concerned what a committed request did. Called by the writer only.
    pub(crate) fn announce(&self, effects: &Effects, now: i64) {
        if let Some(due) = effects.turns_due() {
            self.turns.told_due.store(due, Ordering::Relaxed);
        }
        if let Some(due) = effects.work_due() {
            self.work.told_due.store(due, Ordering::Relaxed);
        }
        if let Some(at) = effects.turns_at() {
            self.turns.claimable_at(at, now);
        }
        if let Some(at) = effects.work_at() {
            self.work.claimable_at(at, now);
        }
        if !effects.changed().is_empty() {
            let instances = self.instances();
            for instance in effects.changed() {
                if let Some(sender) = instances.get(instance) {
                    sender.send_replace(());
                }
            }
        }
    }

    /// Another process committed something, nobody knows what.
    pub(crate) fn ring_all(&self) {
        self.turns.ring();
        self.work.ring();
        for sender in self.instances().values() {
            sender.send_replace(());
        }
    }

    pub(crate) fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn bell(&self, queue: Queue) -> &Bell {
        match queue {
            Queue::Turns => &self.turns,
            Queue::Work => &self.work,
        }
    }

    fn instances(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        // The map is whole at every point where a panic could leave it.
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one waiter for as long as it lives.
#[derive(Debug)]
struct Counted(Arc<Wake>);

impl Counted {
    fn new(wake: &Arc<Wake>) -> Self {
        wake.waiting.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(wake))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Somebody who waits for a queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    ring: watch::Receiver<u64>,
    _counted: Counted,
}

impl Waiter {
    /// Call before each try: rings from here on count.
    pub(crate) fn listen(&mut self) {
        self.ring.mark_unchanged();
    }

    /// Resolves when the queue may have changed since [`listen`](Self::listen).
    pub(crate) async fn rung(&mut self) {
        if self.ring.changed().await.is_err() {
            // The store is closed; the next try says so.
        }
    }
}

/// Somebody who follows one instance.
#[derive(Debug)]
pub(crate) struct Watch {
    instance: String,
    changes: Option<watch::Receiver<()>>,
    counted: Counted,
}

#[async_trait]
impl InstanceWatch for Watch {
    async fn changed(&mut self) {
        if let Some(changes) = &mut self.changes
            && changes.changed().await.is_err()
        {
            // The registry entry lives as long as a receiver does, so this cannot be reached; a spurious notice is
            // within the contract in any case.
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut instances = self.counted.0.instances();
        self.changes = None;
        if let Some(sender) = instances.get(&self.instance)
            && sender.receiver_count() == 0
        {
            instances.remove(&self.instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ring_between_listening_and_waiting_is_not_lost() {
        let wake = Arc::new(Wake::new());
        let mut waiter = wake.wait_on(Queue::Turns);
        waiter.listen();
        let mut effects = Effects::default();
        effects.turn_claimable_at(5);
        wake.announce(&effects, 5);
        waiter.rung().await;
    }

    #[tokio::test]
    async fn a_later_due_time_than_the_one_told_rings_nobody() {
        let wake = Arc::new(Wake::new());
        let mut waiter = wake.wait_on(Queue::Work);
        waiter.listen();
        let mut told = Effects::default();
        told.told_work_due(Some(100));
        wake.announce(&told, 5);

        let mut later = Effects::default();
        later.work_claimable_at(200);
        wake.announce(&later, 5);
        assert!(!waiter.ring.has_changed().unwrap());

        let mut sooner = Effects::default();
        sooner.work_claimable_at(50);
        wake.announce(&sooner, 5);
        waiter.rung().await;
    }

    #[tokio::test]
    async fn a_dropped_watch_leaves_nothing_behind() {
        let wake = Arc::new(Wake::new());
        let first = wake.watch("a");
        let second = wake.watch("a");
        drop(first);
        assert_eq!(wake.instances().len(), 1);
        drop(second);
        assert_eq!(wake.instances().len(), 0);
        assert!(!wake.anybody_waits());
    }
}
