//! Who follows an instance, and how they are told. In: effects of committed requests, changes by other processes. Out:
//! notices, and with the last one how the instance ended.
//!
//! A follower registers first, then looks, then waits: a commit after its look always finds it registered, so no notice
//! can fall between.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use duroxide_core::provider::{InstanceOutcome, InstanceWatch};
use tokio::sync::watch;

use crate::tx::{Effects, News};

/// The followers of one store.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    /// How many follow anything at all; while nobody does, other processes are not looked at.
    waiting: AtomicUsize,
    instances: Mutex<HashMap<String, watch::Sender<Feed>>>,
    /// Instances that were started here and have not ended since, as many as fit. Whoever begins to wait for one of
    /// them need not look first.
    running: Mutex<HashSet<String>>,
}

/// How many running instances are remembered.
const RUNNING_MAX: usize = 16_384;

/// What happened to an instance since somebody began to follow it.
#[derive(Debug, Clone, Default)]
struct Feed {
    /// Counts changes of which nothing is known but that they happened.
    looks: u64,
    /// How it ended.
    ended: Option<Arc<InstanceOutcome>>,
}

impl Feed {
    /// Adds news; whether they are worth a notice.
    fn take(&mut self, news: News) -> bool {
        match news {
            // Another instance of the same name: what is known is about the one before.
            News::Started if self.ended.is_some() => self.forget(),
            News::Started => return false,
            News::Moved => {}
            News::Unknown => self.forget(),
            News::Ended(outcome) => self.ended = Some(Arc::new(outcome)),
        }
        true
    }

    fn forget(&mut self) {
        self.ended = None;
        self.looks = self.looks.wrapping_add(1);
    }
}

impl Wake {
    /// Registers somebody who follows one instance.
    pub(crate) fn watch(self: &Arc<Self>, instance: &str) -> Watch {
        let mut instances = self.instances();
        let news = match instances.get(instance) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, news) = watch::channel(Feed::default());
                instances.insert(instance.to_owned(), sender);
                news
            }
        };
        drop(instances);
        let seen = news.borrow().looks;
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // Asked after the registration: an end between the two is told.
        let is_running = self.running().contains(instance);
        Watch {
            is_running,
            instance: instance.to_owned(),
            wake: Arc::clone(self),
            news: Some(news),
            seen,
        }
    }

    /// Whether anybody follows this instance.
    pub(crate) fn is_followed(&self, instance: &str) -> bool {
        self.anybody_waits() && self.instances().contains_key(instance)
    }

    /// Tells those concerned what a committed request did.
    pub(crate) fn announce(&self, effects: &mut Effects) {
        let changes = effects.take_changes();
        if changes.is_empty() || !self.anybody_waits() {
            return;
        }
        for (instance, news) in changes {
            // Told outside the lock: whoever is woken may drop its watch at once.
            let sender = self.instances().get(&instance).cloned();
            if let Some(sender) = sender {
                sender.send_if_modified(|feed| feed.take(news));
            }
        }
    }

    /// Keeps track of who runs. Called before a committed request is answered: whoever knows of an end must not be told
    /// that the instance runs.
    pub(crate) fn remember(&self, effects: &Effects) {
        let changes = effects.changes();
        let matters = |news: &News| !matches!(news, News::Moved);
        if !changes.iter().any(|(_, news)| matters(news)) {
            return;
        }
        let mut running = self.running();
        for (instance, news) in changes {
            match news {
                News::Started if running.len() < RUNNING_MAX => {
                    running.insert(instance.clone());
                }
                News::Started | News::Moved => {}
                News::Unknown | News::Ended(_) => {
                    running.remove(instance);
                }
            }
        }
    }

    /// Another process committed something, nobody knows what.
    pub(crate) fn ring_all(&self) {
        self.running().clear();
        let senders: Vec<_> = self.instances().values().cloned().collect();
        for sender in senders {
            sender.send_if_modified(|feed| feed.take(News::Unknown));
        }
    }

    pub(crate) fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn running(&self) -> MutexGuard<'_, HashSet<String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Feed>>> {
        // The map is whole at every point where a panic could leave it.
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who follows one instance.
#[derive(Debug)]
pub(crate) struct Watch {
    instance: String,
    wake: Arc<Wake>,
    /// `None` only while it is being dropped.
    news: Option<watch::Receiver<Feed>>,
    seen: u64,
    is_running: bool,
}

#[async_trait]
impl InstanceWatch for Watch {
    async fn changed(&mut self) {
        if let Some(news) = &mut self.news
            && news.changed().await.is_err()
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
            let news = self.news.as_mut()?.borrow_and_update().clone();
            if let Some(outcome) = news.ended {
                return Some(Arc::unwrap_or_clone(outcome));
            }
            if self.seen != news.looks {
                self.seen = news.looks;
                return None;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut instances = self.wake.instances();
        self.news = None;
        if let Some(sender) = instances.get(&self.instance)
            && sender.receiver_count() == 0
        {
            instances.remove(&self.instance);
        }
        drop(instances);
        self.wake.waiting.fetch_sub(1, Ordering::AcqRel);
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

    fn announce(wake: &Wake, instance: &str, news: News) {
        let mut effects = Effects::default();
        effects.instance_changed(instance, news);
        wake.remember(&effects);
        wake.announce(&mut effects);
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let wake = Arc::new(Wake::default());
        let mut watch = wake.watch("a");
        announce(&wake, "a", News::Moved);
        watch.changed().await;
    }

    #[tokio::test]
    async fn the_end_is_told_with_its_outcome_and_steps_before_it_are_not() {
        let wake = Arc::new(Wake::default());
        let mut watch = wake.watch("a");
        announce(&wake, "a", News::Moved);
        assert!(
            futures::poll!(std::pin::pin!(watch.ended())).is_pending(),
            "a step that does not end it is no news"
        );
        announce(&wake, "a", News::Ended(outcome()));
        assert_eq!(watch.ended().await, Some(outcome()));
    }

    #[tokio::test]
    async fn whoever_waits_for_the_end_looks_again_when_something_unknown_happened() {
        let wake = Arc::new(Wake::default());
        let mut watch = wake.watch("a");
        wake.ring_all();
        announce(&wake, "a", News::Moved);
        assert_eq!(watch.ended().await, None);
    }

    #[tokio::test]
    async fn the_end_of_an_instance_is_not_told_of_the_next_one_with_its_name() {
        let wake = Arc::new(Wake::default());
        let _older = wake.watch("a");
        announce(&wake, "a", News::Ended(outcome()));
        announce(&wake, "a", News::Unknown);
        announce(&wake, "a", News::Started);
        let mut newer = wake.watch("a");
        announce(&wake, "a", News::Moved);
        assert!(futures::poll!(std::pin::pin!(newer.ended())).is_pending());
    }

    #[tokio::test]
    async fn an_instance_started_here_is_known_to_run_until_it_ends_or_another_process_writes() {
        let wake = Arc::new(Wake::default());
        assert!(!wake.watch("a").is_running());
        announce(&wake, "a", News::Started);
        assert!(wake.watch("a").is_running());
        announce(&wake, "a", News::Ended(outcome()));
        assert!(!wake.watch("a").is_running());
        announce(&wake, "b", News::Started);
        wake.ring_all();
        assert!(!wake.watch("b").is_running());
    }

    #[tokio::test]
    async fn a_dropped_watch_leaves_nothing_behind() {
        let wake = Arc::new(Wake::default());
        let first = wake.watch("a");
        let second = wake.watch("a");
        drop(first);
        assert_eq!(wake.instances().len(), 1);
        drop(second);
        assert_eq!(wake.instances().len(), 0);
        assert!(!wake.anybody_waits());
    }
}
