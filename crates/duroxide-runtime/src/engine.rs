//! What all parts of one runtime share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::clock::ClockRef;
use duroxide_core::provider::{DispatcherCapabilityFilter, Provider};
use duroxide_core::replay::TurnLimits;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::executor::Executor;
use crate::leases::Leases;
use crate::observability::MetricsProvider;
use crate::options::RuntimeOptions;
use crate::orchestration::StickyCache;
use crate::registry::{ActivityRegistry, OrchestrationRegistry};
use crate::runtime::BlockedInstance;
use crate::worker::{HandlerNames, RunningActivities};

/// What all parts of one runtime share.
pub(crate) struct Engine {
    /// The store, measured.
    pub(crate) store: Arc<dyn Provider>,
    pub(crate) options: RuntimeOptions,
    pub(crate) limits: TurnLimits,
    /// Which histories this runtime replays.
    pub(crate) filter: DispatcherCapabilityFilter,
    pub(crate) orchestrations: OrchestrationRegistry,
    pub(crate) activities: ActivityRegistry,
    pub(crate) metrics: Arc<MetricsProvider>,
    /// Time stamped into events; leases and due times are the store's business.
    pub(crate) clock: ClockRef,
    /// Random, so that two nodes never share a name.
    pub(crate) runtime_id: String,
    /// Fires when nothing new may be claimed.
    pub(crate) stop: CancellationToken,
    /// Fires when what still runs must end.
    pub(crate) abort: CancellationToken,
    /// Dispatchers, turns and activities.
    pub(crate) tasks: TaskTracker,
    /// What must outlive them: lease renewal and cancellation notices.
    pub(crate) keepers: TaskTracker,
    /// Polls dispatchers, turns and activities.
    pub(crate) executor: Executor,
    pub(crate) leases: Arc<Leases>,
    pub(crate) sticky: Arc<StickyCache>,
    pub(crate) running: Arc<RunningActivities>,
    pub(crate) names: HandlerNames,
    pub(crate) blocked: Mutex<HashMap<String, BlockedInstance>>,
    /// Wakes a dispatcher that pauses because its store cannot wait.
    pub(crate) turns_ready: Notify,
    pub(crate) work_ready: Notify,
}

impl Engine {
    /// Forgets that an instance was blocked.
    pub(crate) fn unblock(&self, instance: &str) {
        self.blocked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(instance);
    }

    /// Sleeps unless the runtime stops first; false if it does.
    pub(crate) async fn pause(&self, duration: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(duration) => true,
        }
    }
}

/// How long a dispatcher waits after this many failed fetches in a row.
pub(crate) fn fetch_backoff(consecutive_errors: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(3);
    let doublings = consecutive_errors.min(10);
    Duration::from_millis(100)
        .saturating_mul(1 << doublings)
        .min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fetch_backoff_never_overflows_and_never_reaches_zero() {
        for errors in [0, 1, 5, 58, 62, 64, 1_000, u32::MAX] {
            let pause = fetch_backoff(errors);
            assert!(pause >= Duration::from_millis(100) && pause <= Duration::from_secs(3));
        }
    }
}
