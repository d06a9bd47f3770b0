//! Renewing. In: the book of leases. Out: renewals at the store, and a notice to the work whose lease is lost.
//!
//! A renewal that fails is tried again for as long as the store does not say that the lease is gone: while the store is
//! away no other node can claim the work either. A store that refuses renewals for another reason is asked again for
//! two more lengths of the lease; then the work is given up, and its attempt is excused. A renewal that hangs holds up
//! no other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{Provider, ProviderError};
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{Lease, Leased, Leases};

/// Longest pause between two tries of one renewal.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// For how many lengths of a lease beyond its end a store may refuse its renewal, without a word about the lease,
/// before the work is given up.
const REFUSED_LENGTHS: u32 = 2;

impl Leases {
    /// Renews until the token fires. Runs through a shutdown's grace period, so that work in progress keeps its lease.
    pub(crate) async fn keep(self: Arc<Self>, store: Arc<dyn Provider>, until: CancellationToken) {
        let mut renewals = FuturesUnordered::new();
        loop {
            let planned = self.plan();
            let wait = async {
                match planned {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = until.cancelled() => return,
                () = self.earlier.notified() => {}
                Some(Renewal { id, started, result }) = renewals.next() => {
                    self.enter_result(id, started, result);
                }
                () = wait => renewals.extend(self.due(&store)),
            }
        }
    }

    /// Renews one lease now, also if the keeper is at it, and enters how that ended.
    pub(super) async fn renew_now(&self, id: u64, store: &dyn Provider) {
        let started = Instant::now();
        let lease = self.book().leases.get(&id).cloned();
        if let Some(lease) = lease {
            let result = renew(store, &lease, false).await;
            self.enter_result(id, started, result);
        }
    }

    fn plan(&self) -> Option<Instant> {
        let mut book = self.book();
        book.planned = book.leases.values().filter_map(Lease::next_renewal).min();
        book.planned
    }

    /// The renewals that are due, oldest lease first.
    fn due(&self, store: &Arc<dyn Provider>) -> Vec<impl Future<Output = Renewal> + Send + use<>> {
        let started = Instant::now();
        let mut book = self.book();
        let mut due: Vec<_> = book
            .leases
            .iter_mut()
            .filter(|(_, lease)| lease.next_renewal().is_some_and(|at| at <= started))
            .collect();
        due.sort_unstable_by_key(|(id, _)| **id);
        due.into_iter()
            .map(|(&id, lease)| {
                lease.renewing = true;
                let has_heartbeat = lease.unsaved.begin_renewal();
                if has_heartbeat {
                    lease.heartbeat_at = Some(started);
                }
                let (store, lease) = (Arc::clone(store), lease.clone());
                async move {
                    let result = renew(store.as_ref(), &lease, has_heartbeat).await;
                    Renewal {
                        id,
                        started,
                        result,
                    }
                }
            })
            .collect()
    }

    /// Enters how a renewal ended, and notifies the work if its lease is lost.
    fn enter_result(&self, id: u64, started: Instant, result: Result<(), ProviderError>) {
        let Err(error) = result else {
            return self.note_renewal(id, started);
        };
        let lost = self.note_failure(id, started, &error);
        // The work may end at once and want the book, which is free again here.
        if let Some(lease) = lost {
            lease.report_loss(started, &error);
            lease.lost.cancel();
        }
    }

    fn note_renewal(&self, id: u64, started: Instant) {
        let mut book = self.book();
        let Some(lease) = book.leases.get_mut(&id) else {
            return;
        };
        lease.renewing = false;
        if lease.lost.is_cancelled() {
            return;
        }
        lease.store_at_fault.store(false, Ordering::Relaxed);
        lease.valid_until = started + lease.terms.timeout;
        lease.renew_at = started + lease.terms.interval;
        if lease.unsaved.is_waiting() {
            lease.renew_at = lease.renew_at.min(lease.next_heartbeat());
        }
    }

    /// The lease, taken out of the book, if it is lost.
    fn note_failure(&self, id: u64, started: Instant, error: &ProviderError) -> Option<Lease> {
        let mut book = self.book();
        let lease = book.leases.get_mut(&id)?;
        lease.renewing = false;
        if lease.lost.is_cancelled() {
            return None;
        }
        if !lease.may_still_be_held(error) {
            // Lost before its time: the claim, or the last renewal, was answered late.
            if started < lease.valid_until {
                lease.store_at_fault.store(true, Ordering::Relaxed);
            }
            return book.leases.remove(&id);
        }
        lease.store_at_fault.store(true, Ordering::Relaxed);
        let mut pause = (lease.terms.interval / 8).min(RETRY_PAUSE_MAX);
        if Defect::LeasesNotRenewed.is_on() {
            pause = lease.terms.timeout * 100;
        }
        let now = Instant::now();
        lease.renew_at = now + pause;
        let (token, overdue) = (lease.token.clone(), lease.valid_until < now);
        drop(book);
        tracing::debug!(target: "duroxide::runtime::worker", lock_token = %token, %error, overdue, "lease renewal failed, trying again");
        None
    }
}

impl Lease {
    /// Whether the lease may be held in spite of a renewal that failed like this.
    fn may_still_be_held(&self, error: &ProviderError) -> bool {
        let given_up_at = self.valid_until + self.terms.timeout * REFUSED_LENGTHS;
        error.is_retryable() || (!error.is_lease_lost() && Instant::now() < given_up_at)
    }

    /// Logs the loss, with what tells why: how long the lease was held, how much too late its renewal began, and how
    /// long that took.
    fn report_loss(&self, started: Instant, error: &ProviderError) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let held_ms = ms(started.saturating_duration_since(self.since));
        let late_ms = ms(started.saturating_duration_since(self.renew_at));
        let call_ms = ms(started.elapsed());
        match self.leased {
            Leased::Work => tracing::info!(
                target: "duroxide::runtime::worker",
                lock_token = %self.token, %error, held_ms, late_ms, call_ms,
                "Lock renewal failed, signaling activity cancellation (lock was stolen or expired)"
            ),
            Leased::Turn => tracing::info!(
                target: "duroxide::runtime",
                lock_token = %self.token, %error, held_ms, late_ms, call_ms,
                "the lease of a turn is lost, its commit will be refused"
            ),
        }
    }
}

/// A renewal that came to an end.
struct Renewal {
    id: u64,
    started: Instant,
    result: Result<(), ProviderError>,
}

async fn renew(
    store: &dyn Provider,
    lease: &Lease,
    has_heartbeat: bool,
) -> Result<(), ProviderError> {
    let (token, length) = (&lease.token, lease.terms.timeout);
    let call = async {
        match lease.leased {
            Leased::Turn => store.renew_orchestration_item_lock(token, length).await,
            Leased::Work => {
                if has_heartbeat
                    && let Some(answer) = lease.unsaved.write(store, token, length).await
                {
                    // A closed store keeps nothing that is said, and leases all the same.
                    if !answer.as_ref().is_err_and(ProviderError::is_store_closed) {
                        return answer;
                    }
                }
                store.renew_work_item_lock(token, length).await
            }
        }
    };
    // A store that panics in one renewal must not end all others.
    let contained = AssertUnwindSafe(timeout(length, call)).catch_unwind();
    match contained.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_elapsed)) => Err(ProviderError::retryable("renew", "no answer in time")),
        Err(_panic) => Err(ProviderError::retryable("renew", "the store panicked")),
    }
}
