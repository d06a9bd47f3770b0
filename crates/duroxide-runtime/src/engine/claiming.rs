//! The loop of both dispatchers: find a free slot, claim as many as there are free ones, start them. In: a way to claim
//! and one to start. Out: started work. Ends when the runtime stops; an outage of the store only makes it slower.

use std::time::Duration;

use duroxide_core::provider::ProviderError;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Engine, Slot, Slots, claim_backoff};

/// Pause after an error that waiting does not cure.
const PERMANENT_ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Pause while an operator has closed the store: it may be opened again, and often it is not.
const CLOSED_STORE_PAUSE: Duration = Duration::from_secs(3);

/// Something that can be claimed and started.
pub(crate) trait Claiming: Sync {
    type Claimed: Send;

    /// What it is called in logs.
    const WHAT: &'static str;

    fn engine(&self) -> &Engine;

    fn slots(&self) -> &Slots;

    /// Notified when a commit of this process made work.
    fn ready(&self) -> &Notify;

    /// One claim of at most this many.
    fn claim(
        &self,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Self::Claimed>, ProviderError>> + Send;

    /// Starts what was claimed, the first in the slot that is held already.
    fn start(&self, first: Slot, claimed: Vec<Self::Claimed>) -> impl Future<Output = ()> + Send;
}

/// Claims and starts until the runtime stops.
pub(crate) async fn until_stopped(source: &impl Claiming) {
    let engine = source.engine();
    let mut errors = 0;
    let mut was_closed = false;
    while let Some(first) = source.slots().acquire(engine).await {
        let began = Instant::now();
        let Some(claimed) = claim_or_stop(source).await else {
            return;
        };
        let is_closed = claimed.as_ref().is_err_and(ProviderError::is_store_closed);
        let goes_on = match claimed {
            Ok(claimed) if claimed.is_empty() => {
                errors = 0;
                drop(first);
                pause_between_claims(source, began).await
            }
            Ok(claimed) => {
                errors = 0;
                source.start(first, claimed).await;
                true
            }
            Err(error) => {
                if error.is_retryable() {
                    engine.excuses.add_lost_claim();
                }
                errors = if error.is_retryable() { errors + 1 } else { 0 };
                drop(first);
                if is_closed {
                    wait_until_open(source, &error, was_closed).await
                } else {
                    pause_after(source, &error, errors).await
                }
            }
        };
        was_closed = is_closed;
        if !goes_on {
            return;
        }
    }
}

/// Logs once that the store is closed, then tries again every few seconds.
async fn wait_until_open<S: Claiming>(source: &S, error: &ProviderError, was_closed: bool) -> bool {
    if !was_closed {
        tracing::warn!(target: "duroxide::runtime", %error, "no {} can be claimed until the store is opened again", S::WHAT);
    }
    source.engine().pause(CLOSED_STORE_PAUSE).await
}

/// One claim; `None` if the runtime stops first.
async fn claim_or_stop<S: Claiming>(source: &S) -> Option<Result<Vec<S::Claimed>, ProviderError>> {
    let max = 1 + source.slots().free();
    tokio::select! {
        biased;
        () = source.engine().stop.cancelled() => None,
        claimed = source.claim(max) => Some(claimed),
    }
}

/// Waits out the shortest pause between two claims, unless a commit of this process made work.
async fn pause_between_claims(source: &impl Claiming, began: Instant) -> bool {
    let engine = source.engine();
    let until = began + engine.options.dispatcher_min_poll_interval;
    tokio::select! {
        biased;
        () = engine.stop.cancelled() => false,
        () = source.ready().notified() => true,
        () = tokio::time::sleep_until(until) => true,
    }
}

async fn pause_after<S: Claiming>(source: &S, error: &ProviderError, errors: u32) -> bool {
    let pause = match errors {
        0 => PERMANENT_ERROR_PAUSE,
        errors => claim_backoff(errors),
    };
    tracing::warn!(target: "duroxide::runtime", %error, "claiming {} failed, trying again in {pause:?}", S::WHAT);
    source.engine().pause(pause).await
}
