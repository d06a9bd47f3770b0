//! What all parts of one runtime share: its options, its store, its registries, what it remembers, and the claim loop
//! (`claiming`), which both dispatchers drive through a trait. Nothing here knows a turn or an activity; dispatchers,
//! turns and activities stand above this folder.

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
    /// Which histories this runtime replays. Claims carry it, and `turn.rs` holds each claim against it once more.
    pub(crate) filter: DispatcherCapabilityFilter,
    pub(crate) orchestrations: OrchestrationRegistry,
    pub(crate) activities: ActivityRegistry,
    pub(crate) metrics: Arc<MetricsProvider>,
    /// Takes the spans of what was committed: of a turn from `orchestration/spans.rs`, of an activity from its
    /// completion.
    pub(crate) spans: Option<Arc<dyn SpanSink>>,
    /// Time stamped into events and due times of timers, by the store's clock.
    pub(crate) clock: Arc<StoreTime>,
    /// Random, so that two nodes never share a name.
    pub(crate) runtime_id: String,
    /// Fires when nothing new may be claimed: first in a shutdown. Claim loops and pauses end by it.
    pub(crate) stop: CancellationToken,
    /// Fires when what still runs must end: once the grace period of a shutdown is over. Turns and activities are
    /// dropped by it, and no lease is renewed any more.
    pub(crate) abort: CancellationToken,
    /// Fires in a shutdown, after the work has ended or its time is over; the task that gives leases back then ends.
    pub(crate) leases_over: CancellationToken,
    /// Dispatchers, turns and activities.
    pub(crate) tasks: TaskTracker,
    /// What must outlive them: lease renewal and cancellation notices.
    pub(crate) keepers: TaskTracker,
    /// Polls dispatchers, turns and activities.
    pub(crate) executor: Executor,
    /// Both dispatchers keep a lease as soon as it is claimed; the work that holds it ends it.
    pub(crate) leases: Arc<Leases>,
    /// Turns put executions in and take them out; claims say what is there.
    pub(crate) sticky: Arc<StickyCache>,
    /// Activities that can be cancelled: the worker registers them, commits and lost leases cancel them.
    pub(crate) running: Arc<RunningActivities>,
    /// Commits that schedule activities remember a name; the worker reads it for its activity contexts.
    pub(crate) names: HandlerNames,
    /// Turns that cannot go on and completions that the store refuses add to it, commits remove;
    /// `Runtime::blocked_instances` reads it.
    pub(crate) blocked: BlockedInstances,
    /// Work that no code is here for, as the turn and activity dispatchers met it. Read for warnings, and how long a
    /// request to cancel waited.
    pub(crate) code_wanted: CodeWanted,
    /// Attempts that no work is to blame for: whoever loses a claim to an outage adds, each new attempt subtracts.
    pub(crate) excuses: Excuses,
    /// Instances that wait for their next attempt on this node: a counted attempt writes, each claimed turn reads.
    pub(crate) not_before: NotBefore,
    /// What this node has code for, as claims say it.
    pub(crate) code_here: CodeHere,
    /// Wakes a dispatcher that pauses because its store cannot wait. Commits and completions of this process notify
    /// this one, commits the other.
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

    /// Waits for `what`, at most for `limit`. Returns whether it ended in time. Works outside an async runtime's
    /// context too, and with a runtime that is gone.
    pub(crate) async fn ends_within(
        &self,
        what: impl Future<Output = ()>,
        limit: Duration,
    ) -> bool {
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

/// How long a dispatcher waits after this many failed claims in a row.
pub(crate) fn claim_backoff(consecutive_errors: u32) -> Duration {
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
    fn the_claim_backoff_never_overflows_and_never_reaches_zero() {
        for errors in [0, 1, 5, 58, 62, 64, 1_000, u32::MAX] {
            let pause = claim_backoff(errors);
            assert!(pause >= Duration::from_millis(100) && pause <= Duration::from_secs(3));
        }
    }
}
