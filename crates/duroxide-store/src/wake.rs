//! Waiting without asking again and again. In: notices of commits. Out: woken claims and watchers.
//!
//! A store keeps one [`Wakeups`], calls [`Wakeups::wake`] after a commit that may have made something claimable, and
//! runs its claims through [`Wakeups::poll`].

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

/// Who waits in this process, by queue and by topic.
#[derive(Default)]
pub struct Wakeups {
    queues: Mutex<HashMap<String, Arc<Notify>>>,
    topics: Mutex<HashMap<String, watch::Sender<()>>>,
}

impl Wakeups {
    /// Lets claims on this queue look again.
    pub fn wake(&self, queue: &str) {
        if let Some(notify) = self.queues().get(queue) {
            notify.notify_waiters();
        }
    }

    /// Lets all claims look again.
    pub fn wake_all(&self) {
        for notify in self.queues().values() {
            notify.notify_waiters();
        }
    }

    /// Wakes the watchers of a topic.
    pub fn notify(&self, topic: &str) {
        if let Some(sender) = self.topics().get(topic) {
            sender.send_replace(());
        }
    }

    /// Watches a topic: commits from here on are noticed.
    #[must_use]
    pub fn watch(self: &Arc<Self>, topic: &str) -> TopicWatch {
        let mut topics = self.topics();
        let sender = topics
            .entry(topic.to_owned())
            .or_insert_with(|| watch::channel(()).0);
        TopicWatch {
            topic: topic.to_owned(),
            receiver: sender.subscribe(),
            wakeups: Arc::clone(self),
        }
    }

    /// Where claims on this queue wait.
    pub(crate) fn waiting(&self, queue: &str) -> Arc<Notify> {
        Arc::clone(self.queues().entry(queue.to_owned()).or_default())
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").finish_non_exhaustive()
    }
}

/// Notices of commits that name one topic.
pub struct TopicWatch {
    topic: String,
    receiver: watch::Receiver<()>,
    wakeups: Arc<Wakeups>,
}

impl TopicWatch {
    /// Resolves once a commit named the topic since the watch was made or since the last notice.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The sender lives as long as a receiver does, see `drop`; waiting for ever beats a busy loop.
            std::future::pending::<()>().await;
        }
    }
}

impl TopicWatch {
    /// Whether a commit named the topic since the watch was made or since the last notice.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        // A sender that is gone will say nothing more: better to look than to trust it.
        self.receiver.has_changed().unwrap_or(true)
    }
}

impl Drop for TopicWatch {
    fn drop(&mut self) {
        let mut topics = self.wakeups.topics();
        // Given up under the lock, so that of several watches that end at once one is the last.
        self.receiver = watch::channel(()).1;
        if topics
            .get(&self.topic)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            topics.remove(&self.topic);
        }
    }
}

impl fmt::Debug for TopicWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicWatch")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_topic_is_forgotten_with_its_last_watch() {
        let wakeups = Arc::<Wakeups>::default();
        for _ in 0..200 {
            let both = Barrier::new(2);
            let watches = [wakeups.watch("topic"), wakeups.watch("topic")];
            std::thread::scope(|scope| {
                for watch in watches {
                    scope.spawn(|| {
                        both.wait();
                        drop(watch);
                    });
                }
            });
            assert!(wakeups.topics().is_empty());
        }
    }
}
