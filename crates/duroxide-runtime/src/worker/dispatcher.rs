//! The claim loop of activities. Asks the store for as many as there are free slots, and starts a task for each.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{ClaimedWork, ProviderError, TagFilter, WorkClaim, WorkItem};
use tokio::time::Instant;

use super::execute::Claimed;
use super::sessions::{Admission, Place, Sessions};
use super::{cancellation, execute, keep_sessions};
use crate::engine::{Engine, fetch_backoff};
use crate::executor::Lane;
use crate::orchestration::{Slot, Slots};

/// How long an activity rests for whose session there is no room, and how long a claim waits that leaves sessions out:
/// room may be made at any time.
const SESSION_FULL_DELAY: Duration = Duration::from_millis(100);

/// Claims and starts activities until the runtime stops.
pub(crate) async fn dispatch(engine: Arc<Engine>) {
    let sessions = Arc::new(Sessions::new());
    // A store that does not answer must not keep a runtime from stopping.
    let until_abort = || engine.abort.clone();
    let sessions_kept = keep_sessions(Arc::clone(&engine), Arc::clone(&sessions));
    engine
        .tasks
        .spawn(until_abort().run_until_cancelled_owned(sessions_kept));
    let leases_watched = cancellation::watch_leases(Arc::clone(&engine));
    engine
        .keepers
        .spawn(until_abort().run_until_cancelled_owned(leases_watched));
    let slots = Slots::new(engine.options.worker_concurrency);
    let mut errors = 0;
    loop {
        let Some(first) = slots.acquire(&engine).await else {
            return;
        };
        let started = Instant::now();
        match claim(&engine, &sessions, 1 + slots.free()).await {
            None => return,
            Some(Ok(claimed)) if claimed.is_empty() => {
                errors = 0;
                drop(first);
                if !rest(&engine, started).await {
                    return;
                }
            }
            Some(Ok(claimed)) => {
                errors = 0;
                engine.metrics.record_work_claimed(claimed.len() as u64);
                start(&engine, &sessions, &slots, first, claimed).await;
            }
            Some(Err(error)) => {
                let pause = if error.is_retryable() {
                    errors += 1;
                    fetch_backoff(errors)
                } else {
                    errors = 0;
                    Duration::from_millis(100)
                };
                tracing::warn!(target: "duroxide::runtime", %error, "claiming activities failed, trying again in {pause:?}");
                drop(first);
                if !engine.pause(pause).await {
                    return;
                }
            }
        }
    }
}

/// Whether a runtime with these options can ever get an activity.
pub(crate) fn can_work(engine: &Engine) -> bool {
    engine.options.worker_concurrency > 0 && engine.options.worker_tag_filter != TagFilter::None
}

/// One claim; `None` if the runtime stops first.
async fn claim(
    engine: &Engine,
    sessions: &Sessions,
    max: usize,
) -> Option<Result<Vec<ClaimedWork>, ProviderError>> {
    let session = sessions.config(engine);
    let poll_timeout = match session {
        Some(_) => engine.options.dispatcher_long_poll_timeout,
        None => SESSION_FULL_DELAY.min(engine.options.dispatcher_long_poll_timeout),
    };
    let claim = WorkClaim {
        max,
        lock_timeout: engine.options.worker_lock_timeout,
        poll_timeout,
        session,
        tag_filter: engine.options.worker_tag_filter.clone(),
    };
    tokio::select! {
        biased;
        () = engine.stop.cancelled() => None,
        claimed = engine.store.claim_work(claim) => Some(claimed),
    }
}

/// Waits out the shortest pause between two fetches, unless a commit of this process made work.
async fn rest(engine: &Engine, started: Instant) -> bool {
    let until = started + engine.options.dispatcher_min_poll_interval;
    tokio::select! {
        () = engine.stop.cancelled() => false,
        () = engine.work_ready.notified() => true,
        () = tokio::time::sleep_until(until) => true,
    }
}

async fn start(
    engine: &Arc<Engine>,
    sessions: &Arc<Sessions>,
    slots: &Slots,
    first: Slot,
    claimed: Vec<ClaimedWork>,
) {
    let mut next = Some(first);
    let claimed: Vec<_> = claimed
        .into_iter()
        .map(|work| Claimed::keep(engine, work))
        .collect();
    for claimed in claimed {
        let (claimed, place) = match session_of(&claimed.work.item).map(str::to_owned) {
            None => (claimed, None),
            Some(id) => match sessions.admit(engine, &id, claimed) {
                Admission::Run(claimed, place) => (claimed, Some(place)),
                Admission::Waits => continue,
                Admission::Full(claimed) => {
                    claimed.give_back(engine, Some(SESSION_FULL_DELAY)).await;
                    continue;
                }
            },
        };
        let slot = match next.take() {
            Some(slot) => slot,
            None => slots.wait().await,
        };
        spawn(engine, slot, claimed, place);
    }
}

fn spawn(engine: &Arc<Engine>, slot: Slot, claimed: Claimed, place: Option<Place>) {
    let task = Arc::clone(engine);
    engine.executor.spawn(Lane::Work, async move {
        work_through(&task, slot.number, claimed, place).await;
        drop(slot);
    });
}

/// Runs an activity and, if it holds its session's place, those that wait behind it.
async fn work_through(engine: &Arc<Engine>, slot: usize, first: Claimed, place: Option<Place>) {
    let Some(mut place) = place else {
        execute::run(engine, first, slot).await;
        return;
    };
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
    // Nothing new begins during a shutdown; whoever comes next may take what waits.
    loop {
        claimed.give_back(engine, None).await;
        (claimed, place) = match place.next() {
            Some(next) => next,
            None => return,
        };
    }
}

fn session_of(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::ActivityExecute { session_id, .. } => session_id.as_deref(),
        _ => None,
    }
}
