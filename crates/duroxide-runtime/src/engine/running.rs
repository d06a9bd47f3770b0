//! Activities that this node has claimed. In: each with its lease. Out: a notice to those whose result is no longer
//! wanted, and what this node tells operators that it holds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::provider::{HeldActivity, Incarnation, ScheduledActivityIdentifier};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// An activity of one life of an instance: a later life numbers its activities alike.
type Key = (String, Option<Incarnation>, u64, u64);

/// One claim of an activity.
pub(crate) struct ActivityClaim<'a> {
    pub(crate) activity: ScheduledActivityIdentifier,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) attempt: u32,
    /// When it was claimed, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
    pub(crate) lock_token: &'a str,
}

struct Running {
    attempt: u32,
    since_ms: u64,
    lock_token: String,
    cancelled: CancellationToken,
    /// Whether it is cancelled because the store said that its lease is lost.
    is_lost: Arc<AtomicBool>,
}

/// What names an activity among those that were tried: by its life, as a later one numbers its activities alike.
pub(crate) fn name_of(
    activity: &ScheduledActivityIdentifier,
    incarnation: Option<Incarnation>,
) -> String {
    let life = incarnation.map(|life| life.to_string()).unwrap_or_default();
    let ScheduledActivityIdentifier {
        instance,
        execution_id,
        activity_id,
    } = activity;
    format!("{instance}/{life}/{execution_id}/{activity_id}")
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
    is_lost: Arc<AtomicBool>,
    /// An earlier claim of the same activity still runs here.
    pub(crate) takes_over: bool,
}

impl Registered {
    /// What names the activity among those that were tried.
    pub(crate) fn name(&self) -> String {
        let (instance, incarnation, execution_id, activity_id) = &self.key;
        let activity = ScheduledActivityIdentifier {
            instance: instance.clone(),
            execution_id: *execution_id,
            activity_id: *activity_id,
        };
        name_of(&activity, *incarnation)
    }

    /// Whether the activity was cancelled because the store said that its lease is lost, and not by its orchestration.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
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
        claim: ActivityClaim<'_>,
        cancelled: CancellationToken,
    ) -> Registered {
        let ActivityClaim {
            activity,
            incarnation,
            attempt,
            since_ms,
            lock_token,
        } = claim;
        let key = (
            activity.instance,
            incarnation,
            activity.execution_id,
            activity.activity_id,
        );
        let is_lost = Arc::new(AtomicBool::new(false));
        let mut running = self.running();
        if running.is_empty() {
            self.first.notify_one();
        }
        let earlier = running.insert(
            key.clone(),
            Running {
                attempt,
                since_ms,
                lock_token: lock_token.to_owned(),
                cancelled,
                is_lost: Arc::clone(&is_lost),
            },
        );
        Registered {
            takes_over: earlier.is_some_and(|earlier| !earlier.cancelled.is_cancelled()),
            activities: Arc::clone(self),
            key,
            lock_token: lock_token.to_owned(),
            is_lost,
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

    /// So many of those that are not cancelled, those held longest first.
    pub(crate) fn held(&self, most: usize) -> Vec<HeldActivity> {
        let running = self.running();
        let mut held: Vec<_> = running
            .iter()
            .filter(|(_, running)| !running.cancelled.is_cancelled())
            .collect();
        held.sort_unstable_by_key(|(key, running)| {
            let (instance, _, execution_id, activity_id) = key;
            (running.since_ms, instance, *execution_id, *activity_id)
        });
        held.truncate(most);
        let one = |((instance, _, execution_id, activity_id), running): (&Key, &Running)| {
            let activity = ScheduledActivityIdentifier {
                instance: instance.clone(),
                execution_id: *execution_id,
                activity_id: *activity_id,
            };
            HeldActivity::new(activity, running.attempt, running.since_ms)
        };
        held.into_iter().map(one).collect()
    }

    /// Cancels in the order of instances and activities: a simulation runs the same whatever the order of a map.
    pub(crate) fn cancel_lost(&self, lost: &[String]) {
        let running = self.running();
        let mut lost: Vec<_> = running
            .iter()
            .filter(|(_, running)| lost.contains(&running.lock_token))
            .map(|((instance, _, execution_id, activity_id), running)| {
                running.is_lost.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::super::excuses::Excuses;
    use super::*;

    fn claim(instance: &str, since_ms: u64) -> ActivityClaim<'_> {
        ActivityClaim {
            activity: ScheduledActivityIdentifier {
                instance: instance.to_owned(),
                execution_id: 1,
                activity_id: 2,
            },
            incarnation: None,
            attempt: 3,
            since_ms,
            lock_token: instance,
        }
    }

    #[test]
    fn those_held_longest_are_listed_and_what_is_cancelled_or_done_is_not() {
        let running = Arc::new(RunningActivities::default());
        let cancelled = CancellationToken::new();
        let _young = running.register(claim("young", 30), CancellationToken::new());
        let _old = running.register(claim("old", 10), CancellationToken::new());
        let _middle = running.register(claim("middle", 20), CancellationToken::new());
        let _unwanted = running.register(claim("unwanted", 1), cancelled.clone());
        let done = running.register(claim("done", 2), CancellationToken::new());
        cancelled.cancel();
        drop(done);
        let held = running.held(2);
        let since: Vec<_> = held
            .iter()
            .map(|one| (one.instance_id.as_str(), one.since_ms))
            .collect();
        assert_eq!(since, [("old", 10), ("middle", 20)]);
        assert_eq!(held[0].attempt, 3);
    }

    #[test]
    fn each_life_of_an_id_is_excused_for_itself() {
        let running = Arc::new(RunningActivities::default());
        let excuses = Excuses::new(10);
        let [first, second] = [2, 4].map(|bits| {
            let of_life = ActivityClaim {
                incarnation: Some(Incarnation::from_random(bits)),
                ..claim("i", 1)
            };
            running.register(of_life, CancellationToken::new())
        });
        excuses.add(&first.name());
        assert_eq!(excuses.discount(&first.name(), 3), 2);
        assert_eq!(excuses.discount(&second.name(), 3), 3);
    }
}
