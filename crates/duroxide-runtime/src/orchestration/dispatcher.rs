//! The claim loop of turns. Asks the store for as many instances as there are free slots, and starts a task for each.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::provider::{ClaimedTurn, ProviderError, TurnClaim};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::turn;
use crate::engine::{Engine, fetch_backoff};
use crate::executor::Lane;

/// Claims and starts turns until the runtime stops.
pub(crate) async fn dispatch(engine: Arc<Engine>) {
    let slots = Slots::new(engine.options.orchestration_concurrency);
    let mut errors = 0;
    loop {
        let Some(first) = slots.acquire(&engine).await else {
            return;
        };
        let started = Instant::now();
        match claim(&engine, 1 + slots.free()).await {
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
                engine.metrics.record_turns_claimed(claimed.len() as u64);
                start(&engine, &slots, first, claimed).await;
            }
            Some(Err(error)) => {
                let pause = if error.is_retryable() {
                    errors += 1;
                    fetch_backoff(errors)
                } else {
                    errors = 0;
                    Duration::from_millis(100)
                };
                tracing::warn!(target: "duroxide::runtime", %error, "claiming turns failed, trying again in {pause:?}");
                drop(first);
                if !engine.pause(pause).await {
                    return;
                }
            }
        }
    }
}

/// One claim; `None` if the runtime stops first.
async fn claim(engine: &Engine, max: usize) -> Option<Result<Vec<ClaimedTurn>, ProviderError>> {
    let claim = TurnClaim {
        max,
        lock_timeout: engine.options.orchestrator_lock_timeout,
        poll_timeout: engine.options.dispatcher_long_poll_timeout,
        filter: Some(engine.filter.clone()),
        cached: Some(Arc::clone(&engine.sticky) as _),
    };
    tokio::select! {
        biased;
        () = engine.stop.cancelled() => None,
        claimed = engine.store.claim_turns(claim) => Some(claimed),
    }
}

/// Waits out the shortest pause between two fetches, unless a commit of this process made work.
async fn rest(engine: &Engine, started: Instant) -> bool {
    let until = started + engine.options.dispatcher_min_poll_interval;
    tokio::select! {
        () = engine.stop.cancelled() => false,
        () = engine.turns_ready.notified() => true,
        () = tokio::time::sleep_until(until) => true,
    }
}

async fn start(engine: &Arc<Engine>, slots: &Slots, first: Slot, claimed: Vec<ClaimedTurn>) {
    let mut next = Some(first);
    for turn in claimed {
        let slot = match next.take() {
            Some(slot) => slot,
            // A store never hands out more than was asked for; should it, the rest waits for a slot here.
            None => slots.wait().await,
        };
        let task = Arc::clone(engine);
        engine.executor.spawn(Lane::Engine, async move {
            let worker_id = format!("orch-{}-{}", slot.number, task.runtime_id);
            turn::run(&task, turn, &worker_id).await;
            drop(slot);
        });
    }
}

/// Places for turns, each with a number that is named in logs.
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    numbers: Arc<Mutex<Vec<usize>>>,
}

/// A place for one turn or activity.
pub(crate) struct Slot {
    pub(crate) number: usize,
    numbers: Arc<Mutex<Vec<usize>>>,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(count)),
            numbers: Arc::new(Mutex::new((0..count).rev().collect())),
        }
    }

    /// Places that are free besides those already taken.
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// The next free place; `None` if the runtime stops first.
    pub(crate) async fn acquire(&self, engine: &Engine) -> Option<Slot> {
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => None,
            slot = self.wait() => Some(slot),
        }
    }

    /// The next free place.
    pub(crate) async fn wait(&self) -> Slot {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let number = self
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .expect("there are as many numbers as permits");
        Slot {
            number,
            numbers: Arc::clone(&self.numbers),
            _permit: permit,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.number);
    }
}
