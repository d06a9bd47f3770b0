//! Keeps the leases of running work alive. In: leases as work begins and ends. Out: renewals, and a notice when one is
//! lost.
//!
//! One task renews for the whole runtime. Work that ends before its first renewal costs an entry in a map and nothing
//! else. A renewal that fails is tried again while the lease is still valid; only then is it given up. One that hangs
//! holds up no other and counts as failed when the lease ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// What is leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leased {
    Turn,
    Work,
}

#[derive(Debug, Clone)]
struct Lease {
    leased: Leased,
    token: String,
    timeout: Duration,
    interval: Duration,
    renew_at: Instant,
    valid_until: Instant,
    /// A renewal is under way.
    renewing: bool,
    lost: CancellationToken,
}

impl Lease {
    /// When to renew; `None` while that is under way, or when nobody wants the work any more.
    fn next_renewal(&self) -> Option<Instant> {
        (!self.renewing && !self.lost.is_cancelled()).then_some(self.renew_at)
    }
}

#[derive(Debug, Default)]
struct Book {
    leases: HashMap<u64, Lease>,
    next: u64,
    /// When the keeper wakes next; `None` while it waits for a first lease.
    planned: Option<Instant>,
}

/// The leases of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    book: Mutex<Book>,
    earlier: Notify,
}

/// A lease that is kept as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    leases: Arc<Leases>,
    id: u64,
    lost: CancellationToken,
}

impl Held {
    /// Fires when the lease is lost.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leases.book().leases.remove(&self.id);
    }
}

impl Leases {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease that was claimed just now.
    pub(crate) fn hold(
        self: &Arc<Self>,
        leased: Leased,
        token: &str,
        timeout: Duration,
        interval: Duration,
    ) -> Held {
        let now = Instant::now();
        let lost = CancellationToken::new();
        let renew_at = now + interval;
        let mut book = self.book();
        let id = book.next;
        book.next += 1;
        book.leases.insert(
            id,
            Lease {
                leased,
                token: token.to_owned(),
                timeout,
                interval,
                renew_at,
                valid_until: now + timeout,
                renewing: false,
                lost: lost.clone(),
            },
        );
        if book.planned.is_none_or(|planned| renew_at < planned) {
            book.planned = Some(renew_at);
            self.earlier.notify_one();
        }
        drop(book);
        Held {
            leases: Arc::clone(self),
            id,
            lost,
        }
    }

    /// Renews until the token fires. Runs through a shutdown's grace period, so that work in progress keeps its lease.
    pub(crate) async fn keep(self: Arc<Self>, store: Arc<dyn Provider>, until: CancellationToken) {
        let mut renewals = JoinSet::new();
        loop {
            let planned = self.plan();
            let wait = async {
                match planned {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until.cancelled() => return,
                () = self.earlier.notified() => {}
                Some(done) = renewals.join_next() => {
                    if let Ok(Renewal { id, started, result }) = done {
                        self.settle(id, started, result);
                    }
                }
                () = wait => self.renew_due(&store, &mut renewals),
            }
        }
    }

    fn plan(&self) -> Option<Instant> {
        let mut book = self.book();
        book.planned = book.leases.values().filter_map(Lease::next_renewal).min();
        book.planned
    }

    fn renew_due(&self, store: &Arc<dyn Provider>, renewals: &mut JoinSet<Renewal>) {
        let now = Instant::now();
        for (&id, lease) in &mut self.book().leases {
            if lease.next_renewal().is_none_or(|at| at > now) {
                continue;
            }
            lease.renewing = true;
            let (store, lease) = (Arc::clone(store), lease.clone());
            renewals.spawn(async move {
                let result = renew(store.as_ref(), &lease).await;
                let started = now;
                Renewal {
                    id,
                    started,
                    result,
                }
            });
        }
    }

    fn settle(&self, id: u64, started: Instant, result: Result<(), ProviderError>) {
        let lost = self.note(id, started, result);
        // Whoever is told may end at once and want the book.
        if let Some(lost) = lost {
            lost.cancel();
        }
    }

    /// Enters how a renewal ended; returns whom to tell if the lease is lost.
    fn note(
        &self,
        id: u64,
        started: Instant,
        result: Result<(), ProviderError>,
    ) -> Option<CancellationToken> {
        let mut book = self.book();
        let lease = book.leases.get_mut(&id)?;
        let now = Instant::now();
        lease.renewing = false;
        if lease.lost.is_cancelled() {
            return None;
        }
        match result {
            Ok(()) => {
                lease.valid_until = started + lease.timeout;
                lease.renew_at = started + lease.interval;
                None
            }
            Err(error) if error.is_retryable() && now < lease.valid_until => {
                lease.renew_at = now + (lease.interval / 8).min(Duration::from_secs(1));
                tracing::debug!(
                    target: "duroxide::runtime::worker",
                    lock_token = %lease.token, %error,
                    "lease renewal failed, trying again while the lease is valid"
                );
                None
            }
            Err(error) => {
                tracing::info!(
                    target: "duroxide::runtime::worker",
                    lock_token = %lease.token, %error,
                    "Lock renewal failed, signaling activity cancellation (lock was stolen or expired)"
                );
                book.leases.remove(&id).map(|lease| lease.lost)
            }
        }
    }
}

/// A renewal that came to an end.
struct Renewal {
    id: u64,
    started: Instant,
    result: Result<(), ProviderError>,
}

async fn renew(store: &dyn Provider, lease: &Lease) -> Result<(), ProviderError> {
    let (token, timeout) = (&lease.token, lease.timeout);
    let call = match lease.leased {
        Leased::Turn => store.renew_orchestration_item_lock(token, timeout),
        Leased::Work => store.renew_work_item_lock(token, timeout),
    };
    timeout_at(lease.valid_until, call)
        .await
        .unwrap_or_else(|_| Err(ProviderError::retryable("renew", "no answer in time")))
}
