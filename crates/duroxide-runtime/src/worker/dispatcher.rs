//! The claim loop of activities. Asks the store for as many as there are free slots, and starts a task for each.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{ClaimedWork, ProviderError, TagFilter, WorkClaim, WorkItem};
use tokio::time::Instant;

use super::sessions::{Admitted, Sessions};
use super::{cancellation, execute, keep_sessions};
use crate::engine::{Engine, fetch_backoff};
use crate::orchestration::{Slot, Slots};

/// How long an activity rests that arrived when its session was one too many.
const SESSION_FULL_DELAY: Duration = Duration::from_millis(100);

/// Claims and starts activities until the runtime stops.
pub(crate) async fn dispatch(engine: Arc<Engine>) {
    let sessions = Arc::new(Sessions::default());
    engine
        .tasks
        .spawn(keep_sessions(Arc::clone(&engine), Arc::clone(&sessions)));
    engine
        .keepers
        .spawn(cancellation::watch_leases(Arc::clone(&engine)));
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
    let claim = WorkClaim {
        max,
        lock_timeout: engine.options.worker_lock_timeout,
        poll_timeout: engine.options.dispatcher_long_poll_timeout,
        session: sessions.config(engine),
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
    for work in claimed {
        let session = match session_of(&work.item) {
            None => None,
            Some(id) => match sessions.admit(engine, id) {
                Some(admitted) => Some(admitted),
                None => {
                    give_back(engine, &work.lock_token).await;
                    continue;
                }
            },
        };
        let slot = match next.take() {
            Some(slot) => slot,
            None => slots.wait().await,
        };
        spawn(engine, slot, work, session);
    }
}

fn spawn(engine: &Arc<Engine>, slot: Slot, work: ClaimedWork, session: Option<Admitted>) {
    let task = Arc::clone(engine);
    engine.tasks.spawn(async move {
        let abort = task.abort.clone();
        tokio::select! {
            () = abort.cancelled() => {}
            () = execute::run(&task, work, slot.number, session) => {}
        }
        drop(slot);
    });
}

fn session_of(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::ActivityExecute { session_id, .. } => session_id.as_deref(),
        _ => None,
    }
}

async fn give_back(engine: &Engine, token: &str) {
    let delay = Some(SESSION_FULL_DELAY);
    if let Err(error) = engine.store.abandon_work_item(token, delay, true).await {
        tracing::debug!(target: "duroxide::runtime::worker", %error, "giving back an activity failed, its lease will run out");
    }
}
