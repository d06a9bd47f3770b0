//! A claimed activity and its lease. In: what the store handed out. Out: the activity with its lease kept and its name
//! among those that can be cancelled, also while it waits for a slot or for its session.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::clock::Clock;
use duroxide_core::provider::{ClaimedWork, Incarnation, ScheduledActivityIdentifier};

use crate::engine::{ActivityClaim, Engine, Registered};
use crate::leases::{Attempt, Held, Leased, Terms};
use crate::options::renewal_interval;

/// A claimed item of the worker queue whose lease is kept from now on.
pub(super) struct ClaimedActivity {
    pub(super) item: WorkItem,
    pub(super) attempt: u32,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) lease: Held,
    /// Its place among the activities that can be cancelled; given up when this is dropped.
    pub(super) registered: Option<Registered>,
}

impl ClaimedActivity {
    pub(super) fn keep(engine: &Arc<Engine>, work: ClaimedWork) -> Self {
        let timeout = engine.options.worker_lock_timeout;
        let terms = Terms {
            timeout,
            interval: renewal_interval(timeout, engine.options.worker_lock_renewal_buffer),
            renew_for: None,
            heartbeat_every: engine.options.activity_heartbeat_interval,
        };
        let subject = Arc::from(work.item.target_instance());
        let lease = engine
            .leases
            .hold(Leased::Work, &work.lock_token, subject, terms);
        let registered = identifier(&work.item).map(|activity| {
            let claim = ActivityClaim {
                activity,
                incarnation: work.incarnation,
                attempt: work.attempt_count,
                since_ms: engine.clock.now_ms(),
                lock_token: &work.lock_token,
            };
            engine.running.register(claim, lease.lost().clone())
        });
        if let Some(takes_over) = registered.as_ref().filter(|one| one.takes_over) {
            // The node does not know yet that the lease of the earlier claim is lost: its renewals did not reach the
            // store.
            engine.excuses.add(&takes_over.name());
        }
        Self {
            item: work.item,
            attempt: work.attempt_count,
            incarnation: work.incarnation,
            lease,
            registered,
        }
    }

    /// The session the activity belongs to.
    pub(super) fn session(&self) -> Option<&str> {
        match &self.item {
            WorkItem::ActivityExecute { session_id, .. } => session_id.as_deref(),
            _ => None,
        }
    }

    /// The instance that scheduled it, for a report about one that blocks its thread.
    pub(super) fn subject(&self) -> Arc<str> {
        Arc::clone(self.lease.subject())
    }

    /// Gives it back untried.
    pub(super) async fn give_back(self, engine: &Engine, delay: Option<Duration>) {
        give_back(engine, self.lease, delay, Attempt::Uncounted).await;
    }
}

/// Gives the lease of an activity back. If that fails too, the lease runs out by itself.
pub(super) async fn give_back(
    engine: &Engine,
    lease: Held,
    delay: Option<Duration>,
    attempt: Attempt,
) {
    let uncounted = attempt == Attempt::Uncounted;
    let given_back = engine
        .store
        .abandon_work_item(lease.token(), delay, uncounted)
        .await;
    lease.end();
    if let Err(error) = given_back {
        tracing::debug!(target: "duroxide::runtime::worker", %error, "giving back an activity failed, its lease will run out");
    }
}

fn identifier(item: &WorkItem) -> Option<ScheduledActivityIdentifier> {
    match item {
        WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            ..
        } => Some(ScheduledActivityIdentifier {
            instance: instance.clone(),
            execution_id: *execution_id,
            activity_id: *id,
        }),
        _ => None,
    }
}
