//! The dispatcher of activities. In: free slots. Out: a task for each activity that the store hands out, its lease
//! kept; an activity of a session waits for its place there. Never runs a handler: `execute.rs` does.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{ClaimedWork, ProviderError, TagFilter, WorkClaim};
use tokio::sync::Notify;

use super::claimed::ClaimedActivity;
use super::sessions::{Admission, Place, Sessions, keep_sessions};
use super::{cancellation, execute};
use crate::engine::{Claiming, Engine, Slot, Slots, until_stopped};
use crate::executor::{Task, TaskKind};

/// How long an activity whose session has no free place goes back to the queue; a claim without sessions waits as long.
/// A place may become free at any time.
const SESSION_FULL_DELAY: Duration = Duration::from_millis(100);

struct Activities {
    engine: Arc<Engine>,
    sessions: Arc<Sessions>,
    slots: Slots,
}

/// Claims and starts activities until the runtime stops.
pub(crate) async fn dispatch(engine: Arc<Engine>) {
    let sessions = Arc::new(Sessions::new());
    // A store that does not answer must not keep a runtime from stopping.
    let until_abort = || engine.abort.clone();
    let sessions_kept = keep_sessions(Arc::clone(&engine), Arc::clone(&sessions));
    engine.spawn_keeper(discard(
        until_abort().run_until_cancelled_owned(sessions_kept),
    ));
    let leases_watched = cancellation::watch_leases(Arc::clone(&engine));
    engine.spawn_keeper(discard(
        until_abort().run_until_cancelled_owned(leases_watched),
    ));
    let slots = Slots::new(engine.options.worker_concurrency);
    let activities = Activities {
        engine,
        sessions,
        slots,
    };
    until_stopped(&activities).await;
}

async fn discard<T>(future: impl Future<Output = T>) {
    let _ended_or_aborted = future.await;
}

/// Whether a runtime with these options can ever get an activity.
pub(crate) fn can_work(engine: &Engine) -> bool {
    engine.options.worker_concurrency > 0 && engine.options.worker_tag_filter != TagFilter::None
}

impl Claiming for Activities {
    type Claimed = ClaimedWork;

    const WHAT: &'static str = "activities";

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn ready(&self) -> &Notify {
        &self.engine.work_ready
    }

    async fn claim(&self, max: usize) -> Result<Vec<ClaimedWork>, ProviderError> {
        let options = &self.engine.options;
        let session = self.sessions.config(&self.engine);
        let poll_timeout = match session {
            Some(_) => options.dispatcher_long_poll_timeout,
            None => SESSION_FULL_DELAY.min(options.dispatcher_long_poll_timeout),
        };
        let mut claim = WorkClaim {
            session,
            new_sessions_max: self.sessions.room(&self.engine),
            activities: self.engine.activity_names(),
            tag_filter: options.worker_tag_filter.clone(),
            ..WorkClaim::new(max, options.worker_lock_timeout, poll_timeout)
        };
        if Defect::SessionsPinnedByBatch.is_on() {
            claim.new_sessions_max = usize::MAX;
        }
        if Defect::TagIgnored.is_on() {
            claim.tag_filter = TagFilter::Any;
        }
        self.engine.store.claim_work(claim).await
    }

    async fn start(&self, first: Slot, claimed: Vec<ClaimedWork>) {
        let engine = &self.engine;
        engine.metrics.record_work_claimed(claimed.len() as u64);
        let mut next = Some(first);
        // All leases are kept from now on, also of those that wait.
        let claimed: Vec<_> = claimed
            .into_iter()
            .map(|work| ClaimedActivity::keep(engine, work))
            .collect();
        for claimed in claimed {
            let Some((claimed, place)) = self.admit(claimed).await else {
                continue;
            };
            let slot = match next.take() {
                Some(slot) => slot,
                None => self.slots.wait().await,
            };
            spawn(engine, slot, claimed, place);
        }
    }
}

impl Activities {
    /// Finds an activity its place; `None` if it waits behind others or was given back.
    async fn admit(&self, claimed: ClaimedActivity) -> Option<(ClaimedActivity, Option<Place>)> {
        let Some(id) = claimed.session().map(str::to_owned) else {
            return Some((claimed, None));
        };
        match self.sessions.admit(&self.engine, &id, claimed) {
            Admission::Run(claimed, place) => Some((claimed, Some(place))),
            Admission::Waits => None,
            Admission::Full(claimed) => {
                claimed
                    .give_back(&self.engine, Some(SESSION_FULL_DELAY))
                    .await;
                None
            }
        }
    }
}

fn spawn(engine: &Arc<Engine>, slot: Slot, claimed: ClaimedActivity, place: Option<Place>) {
    let shared = Arc::clone(engine);
    let task = Task::of(TaskKind::Work, "an activity of", claimed.subject());
    match place {
        None => engine.executor.spawn(task, async move {
            execute::run(&shared, claimed, slot.number).await;
            drop(slot);
        }),
        Some(place) => engine.executor.spawn(task, async move {
            work_through(&shared, slot.number, claimed, place).await;
            drop(slot);
        }),
    }
}

/// Runs an activity that holds its session's place, and those that wait behind it.
async fn work_through(engine: &Arc<Engine>, slot: usize, first: ClaimedActivity, mut place: Place) {
    let mut claimed = first;
    let slot = place.slot(slot);
    loop {
        execute::run(engine, claimed, slot).await;
        (claimed, place) = match place.next() {
            Some(next) => next,
            None => return,
        };
        if engine.stop.is_cancelled() {
            break;
        }
    }
    // Nothing new begins during a shutdown; the next node may take what waits.
    loop {
        claimed.give_back(engine, None).await;
        (claimed, place) = match place.next() {
            Some(next) => next,
            None => return,
        };
    }
}
