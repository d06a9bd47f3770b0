//! Activities that this node has claimed. In: each with its lease. Out: a notice to those whose result is no longer
//! wanted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::provider::{Incarnation, ScheduledActivityIdentifier};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// An activity of one life of an instance: a later life numbers its activities alike.
type Key = (String, Option<Incarnation>, u64, u64);

struct Running {
    lock_token: String,
    cancelled: CancellationToken,
}

/// Activities that run in this process.
#[derive(Default)]
pub(crate) struct RunningActivities {
    running: Mutex<HashMap<Key, Running>>,
    pub(crate) first: Notify,
}

/// Removes an activity from the running ones when it ends.
pub(crate) struct Registered {
    activities: Arc<RunningActivities>,
    key: Key,
    lock_token: String,
    /// An earlier claim of the same activity still runs here.
    pub(crate) takes_over: bool,
}

impl Registered {
    /// What names the activity among those that were tried.
    pub(crate) fn name(&self) -> String {
        let (instance, _, execution_id, activity_id) = &self.key;
        format!("{instance}/{execution_id}/{activity_id}")
    }

    /// Whether a later claim of the same activity came to this node.
    pub(crate) fn is_taken_over(&self) -> bool {
        let running = self.activities.running();
        let later = running.get(&self.key);
        later.is_some_and(|later| later.lock_token != self.lock_token)
    }
}

impl RunningActivities {
    fn running(&self) -> MutexGuard<'_, HashMap<Key, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        activity: ScheduledActivityIdentifier,
        incarnation: Option<Incarnation>,
        lock_token: &str,
        cancelled: CancellationToken,
    ) -> Registered {
        let key = (
            activity.instance,
            incarnation,
            activity.execution_id,
            activity.activity_id,
        );
        let mut running = self.running();
        if running.is_empty() {
            self.first.notify_one();
        }
        let earlier = running.insert(
            key.clone(),
            Running {
                lock_token: lock_token.to_owned(),
                cancelled,
            },
        );
        Registered {
            takes_over: earlier.is_some_and(|earlier| !earlier.cancelled.is_cancelled()),
            activities: Arc::clone(self),
            key,
            lock_token: lock_token.to_owned(),
        }
    }

    /// Notifies an activity, if it runs here, that its result is no longer wanted.
    pub(crate) fn cancel(
        &self,
        activity: &ScheduledActivityIdentifier,
        incarnation: Option<Incarnation>,
    ) {
        let key = (
            activity.instance.clone(),
            incarnation,
            activity.execution_id,
            activity.activity_id,
        );
        let cancelled = self.running().get(&key).map(|r| r.cancelled.clone());
        // The activity may end at once, and its end takes the lock.
        if let Some(cancelled) = cancelled {
            cancelled.cancel();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running().is_empty()
    }

    /// The leases of those that are not cancelled yet.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.running()
            .values()
            .filter(|running| !running.cancelled.is_cancelled())
            .map(|running| running.lock_token.clone())
            .collect()
    }

    /// Cancels in the order of instances and activities: a simulation runs the same whatever the order of a map.
    pub(crate) fn cancel_lost(&self, lost: &[String]) {
        let running = self.running();
        let mut lost: Vec<_> = running
            .iter()
            .filter(|(_, running)| lost.contains(&running.lock_token))
            .map(|((instance, _, execution_id, activity_id), running)| {
                let place = (instance.clone(), *execution_id, *activity_id);
                (place, running.cancelled.clone())
            })
            .collect();
        drop(running);
        lost.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (_, cancelled) in lost {
            cancelled.cancel();
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut running = self.activities.running();
        // A redelivery of the same activity may have taken the place.
        if running
            .get(&self.key)
            .is_some_and(|r| r.lock_token == self.lock_token)
        {
            running.remove(&self.key);
        }
    }
}
