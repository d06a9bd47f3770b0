//! Watches of instances. In: commits of this process, notices of others. Out: notifications, the last of which says how
//! the instance ended.
//!
//! A watcher registers first, then reads the instance, then waits: a commit after the read finds the watch registered,
//! so no change is missed. Notices of other processes may be lost, so a watcher reads again from time to time.
//!
//! `duroxide-sqlite` has a file like this one: there a commit of another process says only that something changed.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
pub(crate) use duroxide_core::provider::rules::InstanceChange;
use duroxide_core::provider::rules::InstanceFeed;
use duroxide_core::provider::{InstanceOutcome, InstanceWatch};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::text;

/// How many running instances are remembered.
const RUNNING_MAX: usize = 65_536;
/// How long a watcher goes without a read while notices of other processes arrive, and while they do not.
const READ_AGAIN: Duration = Duration::from_secs(5);
const READ_UNHEARD: Duration = Duration::from_millis(500);

/// The watches of one store.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    instances: Mutex<HashMap<String, Watched>>,
    /// Instances that this process started, by their hashes, and of whose end no notice came since. A client that
    /// begins to wait for one of them need not read first: the notice of its end is still to come.
    running: Mutex<HashSet<u64>>,
    /// Whether notices of other processes arrive.
    hears: AtomicBool,
}

#[derive(Debug)]
struct Watched {
    hash: u64,
    feed: watch::Sender<InstanceFeed>,
    /// When the last watch was registered.
    since: Instant,
}

/// What stands for an instance in notices: FNV-1a of its id as it is stored.
pub(crate) fn hash(stored: &str) -> u64 {
    stored.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Watches {
    /// Registers a watch of one instance.
    pub(crate) fn watch(self: &Arc<Self>, instance: &str) -> Watch {
        let hash = hash(&text::stored(instance));
        let mut instances = self.instances();
        let watched = instances
            .entry(instance.to_owned())
            .or_insert_with(|| Watched {
                hash,
                feed: watch::channel(InstanceFeed::default()).0,
                since: Instant::now(),
            });
        watched.since = Instant::now();
        let news = watched.feed.subscribe();
        drop(instances);
        let seen = news.borrow().seen();
        // Asked after the registration: an end between the two still wakes the watch.
        let is_running = self.hears() && self.running().contains(&hash);
        Watch {
            is_running,
            instance: instance.to_owned(),
            watches: Arc::clone(self),
            news: Some(news),
            seen,
        }
    }

    /// Notifies the watches of what a commit of this process did. Called before the commit is answered: a caller that
    /// knows of an end must not read that the instance runs.
    pub(crate) fn announce(&self, instance: &str, change: InstanceChange) {
        match change.runs() {
            None => {}
            Some(true) => {
                let mut running = self.running();
                // A watch of a forgotten one costs one more read, nothing else.
                if running.len() >= RUNNING_MAX {
                    running.clear();
                }
                running.insert(hash(&text::stored(instance)));
            }
            Some(false) => {
                self.running().remove(&hash(&text::stored(instance)));
            }
        }
        let sender = self.instances().get(instance).map(|it| it.feed.clone());
        // Outside the lock: a watcher that wakes up may drop its watch at once.
        if let Some(sender) = sender {
            sender.send_if_modified(|feed| feed.add(change));
        }
    }

    /// Notifies the watches of what a commit did that was sent to the server at this time. A watch that came after that
    /// may wait for a later life of the id, which another process started before the answer came: it reads what became
    /// of it.
    pub(crate) fn announce_answer(&self, instance: &str, change: InstanceChange, asked: Instant) {
        let is_older_than_its_watch = matches!(change, InstanceChange::Ended(_)) && {
            let instances = self.instances();
            let watched = instances.get(instance);
            watched.is_some_and(|watched| watched.since > asked)
        };
        if is_older_than_its_watch {
            self.announce(instance, InstanceChange::Unknown);
        } else {
            self.announce(instance, change);
        }
    }

    /// A notice of another process came: instances with these hashes may have ended.
    pub(crate) fn may_have_ended(&self, hashes: &HashSet<u64>) {
        if hashes.is_empty() {
            return;
        }
        self.running().retain(|hash| !hashes.contains(hash));
        let concerned: Vec<_> = self
            .instances()
            .values()
            .filter(|watched| hashes.contains(&watched.hash))
            .map(|watched| watched.feed.clone())
            .collect();
        for sender in concerned {
            sender.send_if_modified(|feed| feed.add(InstanceChange::Unknown));
        }
    }

    /// Other processes may have committed anything.
    pub(crate) fn everything_changed(&self) {
        self.running().clear();
        let senders: Vec<_> = self
            .instances()
            .values()
            .map(|it| it.feed.clone())
            .collect();
        for sender in senders {
            sender.send_if_modified(|feed| feed.add(InstanceChange::Unknown));
        }
    }

    /// Whether notices of other processes arrive from here on.
    pub(crate) fn set_hears(&self, hears: bool) {
        self.hears.store(hears, Ordering::SeqCst);
    }

    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::SeqCst)
    }

    fn running(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, HashMap<String, Watched>> {
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
    news: Option<watch::Receiver<InstanceFeed>>,
    /// How far the watcher knows the feed.
    seen: u64,
    is_running: bool,
}

impl Watch {
    /// Whether there was a notification; without one it is time to read.
    async fn noticed(&mut self) -> bool {
        let pause = if self.watches.hears() {
            READ_AGAIN
        } else {
            READ_UNHEARD
        };
        let is_notified = match &mut self.news {
            Some(news) => tokio::time::timeout(pause, news.changed()).await.is_ok(),
            None => false,
        };
        if !is_notified {
            // The notice of its end may have been lost: the next watcher reads first.
            let hash = hash(&text::stored(&self.instance));
            self.watches.running().remove(&hash);
        }
        is_notified
    }
}

#[async_trait]
impl InstanceWatch for Watch {
    async fn changed(&mut self) {
        self.noticed().await;
    }

    fn is_running(&self) -> bool {
        self.is_running
    }

    async fn ended(&mut self) -> Option<InstanceOutcome> {
        loop {
            if !self.noticed().await {
                return None;
            }
            let feed = self.news.as_mut()?.borrow_and_update();
            if let ControlFlow::Break(end) = feed.end_since(&mut self.seen) {
                return end;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut instances = self.watches.instances();
        self.news = None;
        if let Some(watched) = instances.get(&self.instance)
            && watched.feed.receiver_count() == 0
        {
            instances.remove(&self.instance);
        }
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

    fn hearing() -> Arc<Watches> {
        let watches = Arc::new(Watches::default());
        watches.set_hears(true);
        watches
    }

    #[tokio::test]
    async fn the_end_is_notified_with_its_outcome_and_steps_before_it_are_not() {
        let watches = hearing();
        let mut watch = watches.watch("a");
        watches.announce("a", InstanceChange::Progressed);
        assert!(futures::poll!(std::pin::pin!(watch.ended())).is_pending());
        watches.announce("a", InstanceChange::Ended(outcome()));
        assert_eq!(watch.ended().await, Some(outcome()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_late_answer_to_the_end_of_one_life_is_no_end_for_who_waits_for_the_next() {
        let watches = hearing();
        let asked = Instant::now();
        tokio::time::advance(Duration::from_millis(1)).await;
        let mut watch = watches.watch("a");
        watches.announce_answer("a", InstanceChange::Ended(outcome()), asked);
        assert_eq!(watch.ended().await, None, "it reads");
        watches.announce_answer("a", InstanceChange::Ended(outcome()), Instant::now());
        assert_eq!(watch.ended().await, Some(outcome()));
    }

    #[tokio::test]
    async fn the_end_in_another_process_is_heard() {
        let watches = hearing();
        watches.announce("a", InstanceChange::Started);
        let mut watch = watches.watch("a");
        assert!(watch.is_running());
        watches.may_have_ended(&HashSet::from([hash("a")]));
        assert_eq!(watch.ended().await, None);
        assert!(!watches.watch("a").is_running());
    }

    #[tokio::test]
    async fn a_process_that_hears_no_other_calls_nothing_running() {
        let watches = Arc::new(Watches::default());
        watches.announce("a", InstanceChange::Started);
        assert!(!watches.watch("a").is_running());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_notice_is_made_up_for_by_a_read() {
        let watches = hearing();
        let mut watch = watches.watch("a");
        assert_eq!(watch.ended().await, None);
    }

    #[tokio::test]
    async fn a_dropped_watch_leaves_nothing_behind() {
        let watches = hearing();
        let (first, second) = (watches.watch("a"), watches.watch("a"));
        drop(first);
        assert_eq!(watches.instances().len(), 1);
        drop(second);
        assert_eq!(watches.instances().len(), 0);
    }
}
