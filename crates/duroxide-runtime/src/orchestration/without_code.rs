//! Instances whose code this node does not have. In: a claim. Out: the claim given back for a node that has the code; or
//! an end, if somebody asked to cancel and no node with the code took that up.
//!
//! Stores that know what a node can run never hand such instances out, except to end them. Other stores do.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::provider::OrchestrationItem;
use duroxide_core::{ErrorDetails, WorkItem};
use lru::LruCache;
use tokio::time::Instant;

use super::commit::{Attempt, give_back};
use super::forced;
use super::turn::ClaimInHand;
use crate::engine::Engine;
use crate::options::OnUnregistered;

/// A request to cancel is carried out without the code if no node with the code has done so for this long.
pub(super) const CANCEL_WITHOUT_CODE_AFTER: Duration = Duration::from_secs(5);

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

/// How often an instance came here without its code being here, and since when.
#[derive(Clone, Copy)]
struct Seen {
    first: Instant,
    times: u32,
}

/// Instances that were claimed here though their code is not.
pub(crate) struct CodeWanted {
    instances: Mutex<LruCache<String, Seen>>,
    /// Handlers that were named in a warning already.
    warned: Mutex<LruCache<String, ()>>,
}

impl CodeWanted {
    pub(crate) fn new() -> Self {
        Self {
            instances: Mutex::new(LruCache::new(REMEMBERED)),
            warned: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    fn see(&self, instance: &str) -> Seen {
        let mut instances = lock(&self.instances);
        let seen = instances.get_or_insert_mut(instance.to_owned(), || Seen {
            first: Instant::now(),
            times: 0,
        });
        seen.times = seen.times.saturating_add(1);
        *seen
    }

    /// Whether this handler is missed for the first time here.
    pub(crate) fn is_news(&self, handler: &str) -> bool {
        lock(&self.warned).push(handler.to_owned(), ()).is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deals with a claimed instance whose handler is not registered here.
pub(super) async fn handle(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    handler: &str,
) {
    let wait = match engine.options.on_unregistered() {
        OnUnregistered::Fail => {
            fail_in_the_end(engine, claim, handler).await;
            return;
        }
        OnUnregistered::Wait => engine.code_wanted.see(&item.instance),
    };
    if let Some(reason) = requested_cancel(&item.messages) {
        // A store that draws incarnations knows what a node can run, and has waited before it handed this out.
        if claim.incarnation.is_some() || wait.first.elapsed() >= CANCEL_WITHOUT_CODE_AFTER {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %item.instance, orchestration_name = %handler,
                "cancelled without running its code: no node with the handler took the request up"
            );
            forced::end(engine, claim, item, ErrorDetails::cancelled(reason)).await;
            return;
        }
    }
    if engine.code_wanted.is_news(handler) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance, orchestration_name = %handler,
            "Orchestration not registered here; the instance waits for a node that has it"
        );
    }
    let delay = engine.options.unregistered_backoff.delay(wait.times);
    give_back(engine, claim.lease, Some(delay), Attempt::Uncounted).await;
}

/// The published way: each claim without the code counts, and the instance is poison in the end.
async fn fail_in_the_end(engine: &Engine, claim: ClaimInHand<'_>, handler: &str) {
    let delay = engine.options.unregistered_backoff.delay(claim.attempt);
    let left = engine.options.max_attempts.saturating_sub(claim.attempt);
    tracing::warn!(
        target: "duroxide::runtime",
        orchestration_name = %handler,
        "Orchestration not registered, abandoning with {:.1}s backoff (will poison in {left} more attempts)",
        delay.as_secs_f64()
    );
    give_back(engine, claim.lease, Some(delay), Attempt::Counted).await;
}

/// Why somebody asked to cancel, if somebody did.
pub(super) fn requested_cancel(messages: &[WorkItem]) -> Option<String> {
    messages.iter().find_map(|message| match message {
        WorkItem::CancelInstance { reason, .. } => Some(reason.clone()),
        _ => None,
    })
}
