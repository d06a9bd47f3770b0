//! What all parts of one runtime share: its options, its store, its registries, and what it remembers. Nothing here
//! claims, runs or writes; dispatchers, turns and activities stand above this folder and know it, it does not know
//! them.

mod blocked;
mod claiming;
mod code;
mod excuses;
mod handler_names;
mod node_name;
mod not_before;
mod running;
mod slots;
mod sticky;
mod store_time;

pub(crate) use blocked::{BlockCause, BlockedInstances, shorten};
pub(crate) use claiming::{Claiming, until_stopped};
pub(crate) use code::{CodeHere, CodeWanted};
pub(crate) use excuses::Excuses;
pub(crate) use handler_names::HandlerNames;
pub(crate) use node_name::host;
pub(crate) use not_before::NotBefore;
pub(crate) use running::{ActivityClaim, Registered, RunningActivities, name_of};
pub(crate) use slots::{Slot, Slots};
pub(crate) use sticky::{Kept, OpenTurn, StickyCache, StickyLimits};
pub(crate) use store_time::StoreTime;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{DispatcherCapabilityFilter, OrchestrationHandlers, Provider};
use duroxide_core::replay::TurnLimits;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::instrument::WithSubscriber;

use crate::executor::Executor;
use crate::leases::Leases;
use crate::observability::{Layered, MetricsProvider, OnHost, SpanSink};
use crate::options::{OnUnregistered, RuntimeOptions};
use crate::registry::{ActivityRegistry, OrchestrationRegistry};

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
    /// Takes the spans of what was committed.
    pub(crate) spans: Option<Arc<dyn SpanSink>>,
    /// Time stamped into events and due times of timers, by the store's clock.
    pub(crate) clock: Arc<StoreTime>,
    /// Random, so that two nodes never share a name.
    pub(crate) runtime_id: String,
    /// Fires when nothing new may be claimed.
    pub(crate) stop: CancellationToken,
    /// Fires when what still runs must end.
    pub(crate) abort: CancellationToken,
    /// Fires when nothing holds a lease any more, or is waited for.
    pub(crate) settled: CancellationToken,
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
    pub(crate) blocked: BlockedInstances,
    pub(crate) code_wanted: CodeWanted,
    pub(crate) excuses: Excuses,
    pub(crate) not_before: NotBefore,
    /// What this node has code for, as claims say it.
    pub(crate) code_here: CodeHere,
    /// Wakes a dispatcher that pauses because its store cannot wait.
    pub(crate) turns_ready: Notify,
    pub(crate) work_ready: Notify,
}

impl Engine {
    /// The orchestrations to claim; `None` for all, where work without a handler is to fail.
    pub(crate) fn handlers(&self) -> Option<Arc<OrchestrationHandlers>> {
        let mut waits = self.options.on_unregistered() == OnUnregistered::Wait;
        waits &= !Defect::MissingOrchestrationCounts.is_on();
        waits.then(|| Arc::clone(&self.code_here.orchestrations))
    }

    /// The activities to claim; `None` for all, where work without a handler is to fail.
    pub(crate) fn activity_names(&self) -> Option<Arc<BTreeSet<String>>> {
        let mut waits = self.options.on_unregistered() == OnUnregistered::Wait;
        waits &= !Defect::MissingActivityCounts.is_on();
        waits.then(|| Arc::clone(&self.code_here.activities))
    }

    /// Runs what must go on whatever the program does with its async threads.
    pub(crate) fn spawn_keeper(&self, keeper: impl Future<Output = ()> + Send + 'static) {
        let keeper = keeper.with_current_subscriber();
        self.executor.spawn_keeper(&self.keepers, keeper);
    }

    /// The store, as keepers call it.
    pub(crate) fn store_of_keepers(&self) -> Arc<dyn Provider> {
        let host = OnHost(self.executor.host().clone());
        Arc::new(Layered::around(Arc::clone(&self.store), host))
    }

    /// Waits for a while; whether it was long enough. Works outside an async runtime's context too, and with a runtime
    /// that is gone.
    pub(crate) async fn waits(&self, what: impl Future<Output = ()>, limit: Duration) -> bool {
        let mut what = std::pin::pin!(what);
        let done = std::future::poll_fn(|cx| Poll::Ready(what.as_mut().poll(cx).is_ready())).await;
        if done || limit.is_zero() {
            return done;
        }
        let limit = {
            let _entered = self.executor.timekeeper().enter();
            tokio::time::sleep(limit)
        };
        tokio::select! {
            biased;
            () = what => true,
            () = limit => false,
        }
    }

    /// Sleeps unless the runtime stops first; false if it does.
    pub(crate) async fn pause(&self, duration: Duration) -> bool {
        tokio::select! {
            biased;
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
