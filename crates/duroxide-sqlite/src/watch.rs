//! Watches of instances. In: effects of committed requests, and commits of other processes. Out: notifications, the
//! last of which says how the instance ended.
//!
//! A watcher registers first, then reads the instance, then waits: a commit after the read finds the watch registered,
//! so no change is missed.
//!
//! `duroxide-pg` has a file like this one: there a notice names the instance, may be lost, and comes on a task.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use duroxide_core::provider::rules::InstanceFeed;
use duroxide_core::provider::{InstanceOutcome, InstanceWatch};
use tokio::sync::watch;

use crate::tx::{Effects, InstanceChange};

/// The watches of one store.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// How many watches there are; without any, the writer need not look for commits of other processes.
    count: AtomicUsize,
    instances: Mutex<HashMap<String, watch::Sender<InstanceFeed>>>,
    /// Instances that this process started and that have not ended since, as many as fit. A watcher of one of them need
    /// not read it first.
    running: Mutex<HashSet<String>>,
}

/// How many running instances are remembered.
const RUNNING_MAX: usize = 16_384;

impl Watches {
    /// Registers a watch of one instance.
    pub(crate) fn watch(self: &Arc<Self>, instance: &str) -> Watch {
        let mut instances = self.instances();
        let feed = match instances.get(instance) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, feed) = watch::channel(InstanceFeed::default());
                instances.insert(instance.to_owned(), sender);
                feed
            }
        };
        drop(instances);
        let seen = feed.borrow().seen();
        self.count.fetch_add(1, Ordering::AcqRel);
        // Read after the registration: the watch is notified of an end between the two.
        let is_running = self.running().contains(instance);
        Watch {
            is_running,
            instance: instance.to_owned(),
            watches: Arc::clone(self),
            feed: Some(feed),
            seen,
        }
    }

    /// Whether this instance is watched.
    pub(crate) fn contains(&self, instance: &str) -> bool {
        !self.is_empty() && self.instances().contains_key(instance)
    }

    /// Notifies the watches of the instances that a committed request changed.
    pub(crate) fn notify(&self, effects: &mut Effects) {
        let changes = effects.take_changes();
        if changes.is_empty() || self.is_empty() {
            return;
        }
        for (instance, change) in changes {
            // Outside the lock: a watcher that wakes up may drop its watch at once.
            let sender = self.instances().get(&instance).cloned();
            if let Some(sender) = sender {
                sender.send_if_modified(|feed| feed.add(change));
            }
        }
    }

    /// Remembers which instances run. The writer calls it before it answers the committed request: a caller that knows
    /// of an end must not find the instance running.
    pub(crate) fn remember(&self, effects: &Effects) {
        let changes = effects.changes();
        if changes.iter().all(|(_, change)| change.runs().is_none()) {
            return;
        }
        let mut running = self.running();
        for (instance, change) in changes {
            match change.runs() {
                Some(true) if running.len() < RUNNING_MAX => {
                    running.insert(instance.clone());
                }
                Some(false) => {
                    running.remove(instance);
                }
                Some(true) | None => {}
            }
        }
    }

    /// Another process committed something: every instance may have changed.
    pub(crate) fn everything_changed(&self) {
        self.running().clear();
        let senders: Vec<_> = self.instances().values().cloned().collect();
        for sender in senders {
            sender.send_if_modified(|feed| feed.add(InstanceChange::Unknown));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn running(&self) -> MutexGuard<'_, HashSet<String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<InstanceFeed>>> {
        // The map is whole at every point where a panic could leave it.
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered watch of one instance.
#[derive(Debug)]
pub(crate) struct Watch {
    instance: String,
    watches: Arc<Watches>,
    /// `None` only while it is being dropped.
    feed: Option<watch::Receiver<InstanceFeed>>,
    /// How far the watcher knows the feed.
    seen: u64,
    is_running: bool,
}

#[async_trait]
impl InstanceWatch for Watch {
    async fn changed(&mut self) {
        if let Some(feed) = &mut self.feed
            && feed.changed().await.is_err()
        {
            // The registry entry lives as long as a receiver does, so this cannot be reached; a spurious notice is
            // within the contract in any case.
        }
    }

    fn is_running(&self) -> bool {
        self.is_running
    }

    async fn ended(&mut self) -> Option<InstanceOutcome> {
        loop {
            self.changed().await;
            let feed = self.feed.as_mut()?.borrow_and_update();
            if let ControlFlow::Break(end) = feed.end_since(&mut self.seen) {
                return end;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut instances = self.watches.instances();
        self.feed = None;
        if let Some(sender) = instances.get(&self.instance)
            && sender.receiver_count() == 0
        {
            instances.remove(&self.instance);
        }
        drop(instances);
        self.watches.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use duroxide_core::provider::OutcomeStatus;

    use super::*;

    fn outcome() -> InstanceOutcome {
        InstanceOutcome {
            execution_id: 1,
            status: OutcomeStatus::Completed {
                output: "done".to_owned(),
            },
            custom_status: None,
            custom_status_version: 0,
        }
    }

    fn notify(watches: &Watches, instance: &str, change: InstanceChange) {
        let mut effects = Effects::default();
        effects.instance_changed(instance, change);
        watches.remember(&effects);
        watches.notify(&mut effects);
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let watches = Arc::new(Watches::default());
        let mut watch = watches.watch("a");
        notify(&watches, "a", InstanceChange::Progressed);
        watch.changed().await;
    }

    #[tokio::test]
    async fn a_watch_of_the_end_gets_the_outcome_and_no_step_before_it() {
        let watches = Arc::new(Watches::default());
        let mut watch = watches.watch("a");
        notify(&watches, "a", InstanceChange::Progressed);
        assert!(
            futures::poll!(std::pin::pin!(watch.ended())).is_pending(),
            "a step that does not end it is not reported"
        );
        notify(&watches, "a", InstanceChange::Ended(outcome()));
        assert_eq!(watch.ended().await, Some(outcome()));
    }

    #[tokio::test]
    async fn a_watch_of_the_end_reads_again_when_an_unknown_change_happened() {
        let watches = Arc::new(Watches::default());
        let mut watch = watches.watch("a");
        watches.everything_changed();
        notify(&watches, "a", InstanceChange::Progressed);
        assert_eq!(watch.ended().await, None);
    }

    #[tokio::test]
    async fn the_end_of_an_instance_is_not_reported_for_the_next_one_under_its_id() {
        let watches = Arc::new(Watches::default());
        let _older = watches.watch("a");
        notify(&watches, "a", InstanceChange::Ended(outcome()));
        notify(&watches, "a", InstanceChange::Unknown);
        notify(&watches, "a", InstanceChange::Started);
        let mut newer = watches.watch("a");
        notify(&watches, "a", InstanceChange::Progressed);
        assert!(futures::poll!(std::pin::pin!(newer.ended())).is_pending());
    }

    #[tokio::test]
    async fn an_instance_started_here_is_known_to_run_until_it_ends_or_another_process_writes() {
        let watches = Arc::new(Watches::default());
        assert!(!watches.watch("a").is_running());
        notify(&watches, "a", InstanceChange::Started);
        assert!(watches.watch("a").is_running());
        notify(&watches, "a", InstanceChange::Ended(outcome()));
        assert!(!watches.watch("a").is_running());
        notify(&watches, "b", InstanceChange::Started);
        watches.everything_changed();
        assert!(!watches.watch("b").is_running());
    }

    #[tokio::test]
    async fn a_dropped_watch_leaves_nothing_behind() {
        let watches = Arc::new(Watches::default());
        let first = watches.watch("a");
        let second = watches.watch("a");
        drop(first);
        assert_eq!(watches.instances().len(), 1);
        drop(second);
        assert_eq!(watches.instances().len(), 0);
        assert!(watches.is_empty());
    }
}
