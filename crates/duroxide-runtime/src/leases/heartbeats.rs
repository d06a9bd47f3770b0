//! Heartbeats: what an activity says about its progress. In: details, as often as the activity likes. Out: one write
//! with the renewal of its lease, and no more writes than one in each interval. Never: a write per call.
//!
//! Details stay here until the store has answered that it keeps them. The task that ends the lease takes unsaved
//! details, waits for a write in flight, then writes them, so that older details never replace later ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderError};
use tokio::time::timeout;

use super::Leases;

/// How long the end of a lease waits until the last heartbeat of its activity is stored.
const LAST_HEARTBEAT_WAIT: Duration = Duration::from_secs(2);

/// Details of one call that the store does not have yet.
#[derive(Debug, Clone)]
struct Said {
    /// The first attempt of the call, by its scheduling event.
    call: u64,
    details: String,
    /// Tells details from those that replaced them.
    number: u64,
}

/// What was said last and is not stored; later details replace earlier ones.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    last: Mutex<Option<Said>>,
    /// Whether the keeper knows that there is something.
    is_planned: AtomicBool,
    /// Held while details are written.
    writing: tokio::sync::Mutex<()>,
}

impl Unsaved {
    fn last(&self) -> MutexGuard<'_, Option<Said>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the keeper has to be notified.
    fn replace(&self, call: u64, details: String) -> bool {
        let mut last = self.last();
        let number = last.as_ref().map_or(1, |said| said.number + 1);
        *last = Some(Said {
            call,
            details,
            number,
        });
        !self.is_planned.swap(true, Ordering::AcqRel)
    }

    /// Begins a renewal; whether it has something to store.
    pub(super) fn begin_renewal(&self) -> bool {
        // First: a heartbeat that comes from now on notifies the keeper again.
        self.is_planned.store(false, Ordering::Release);
        self.is_waiting()
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.last().is_some()
    }

    /// Forgets details that the store has, unless the activity has said more since.
    fn forget(&self, stored: &Said) {
        let mut last = self.last();
        if last
            .as_ref()
            .is_some_and(|said| said.number == stored.number)
        {
            *last = None;
        }
    }

    /// Renews a lease together with what was said; `None` if the store has all of it already.
    pub(super) async fn write(
        &self,
        store: &dyn Provider,
        token: &str,
        length: Duration,
    ) -> Option<Result<(), ProviderError>> {
        let _one_at_a_time = self.writing.lock().await;
        let said = self.last().clone()?;
        let written = store
            .heartbeat_work_item(token, length, said.call, &said.details)
            .await;
        if written.is_ok() {
            self.forget(&said);
        }
        Some(written.map(|_is_kept| ()))
    }

    /// Stores what was said last, because the lease is about to end. The next attempt can do without it, and the end
    /// cannot wait for a store that is away.
    pub(super) async fn write_last(&self, store: &dyn Provider, token: &str, length: Duration) {
        if !self.is_waiting() {
            return;
        }
        let error = match timeout(LAST_HEARTBEAT_WAIT, self.write(store, token, length)).await {
            Ok(None | Some(Ok(()))) => return,
            Ok(Some(Err(error))) => error.to_string(),
            Err(_elapsed) => "no answer in time".to_owned(),
        };
        tracing::debug!(target: "duroxide::runtime::worker", %error, "what an activity said last could not be stored");
    }
}

/// The way of heartbeats from an activity to the keeper of its lease.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeats {
    pub(super) leases: Arc<Leases>,
    pub(super) lease: u64,
    pub(super) call: u64,
    pub(super) unsaved: Arc<Unsaved>,
}

impl Heartbeats {
    /// Takes a heartbeat. One that comes after the end of the lease is dropped.
    pub(crate) fn say(&self, details: String) {
        if self.unsaved.replace(self.call, details) {
            self.leases.heartbeat_came(self.lease);
        }
    }

    /// Asks the store whether the lease is still held. If it is, what was read before is of this life of the instance:
    /// the id may have another one by now.
    ///
    /// # Errors
    ///
    /// When the lease is lost, and when the store cannot be asked.
    pub(crate) async fn confirm(&self, store: &dyn Provider) -> Result<(), ProviderError> {
        let lease = self.leases.book().leases.get(&self.lease).cloned();
        let Some(lease) = lease else {
            return Err(ProviderError::lease_lost(
                "last_heartbeat",
                "the activity has ended",
            ));
        };
        let renewed = store
            .renew_work_item_lock(&lease.token, lease.terms.timeout)
            .await;
        if renewed.as_ref().is_err_and(ProviderError::is_lease_lost) {
            lease.lost.cancel();
        }
        renewed
    }
}
