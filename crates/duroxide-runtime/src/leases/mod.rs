//! Leases that this runtime holds. In: a lease when work is claimed. Out: one end of it.
//!
//! `keep.rs` renews all leases of a runtime from one task. Work that ends before its first renewal costs an entry in a
//! map and nothing else. `give_back.rs` returns the leases of unfinished work: dropped at shutdown, or lost in
//! a panic.

mod give_back;
mod heartbeats;
mod keep;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::Provider;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use give_back::Unfinished;
pub(crate) use give_back::{Attempt, Returns, abandon};
pub(crate) use heartbeats::Heartbeats;
use heartbeats::Unsaved;

/// What is leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leased {
    Turn,
    Work,
}

/// For how long a lease is taken, and when it is renewed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) timeout: Duration,
    pub(crate) interval: Duration,
    /// The lease is not renewed once its work has taken this long; `None` renews it for as long as the work runs.
    pub(crate) renew_for: Option<Duration>,
    /// The shortest time between two renewals that are made only because a heartbeat came.
    pub(crate) heartbeat_every: Duration,
}

#[derive(Debug, Clone)]
struct Lease {
    leased: Leased,
    token: String,
    terms: Terms,
    /// When its work was taken up here.
    since: Instant,
    renew_at: Instant,
    valid_until: Instant,
    renew_until: Option<Instant>,
    /// A renewal is under way.
    renewing: bool,
    lost: CancellationToken,
    /// Set while the last renewal failed because the store was away, and when the lease was lost before its time.
    store_at_fault: Arc<AtomicBool>,
    /// What its activity said since the last renewal.
    unsaved: Arc<Unsaved>,
    /// When a renewal last took a heartbeat with it.
    heartbeat_at: Option<Instant>,
}

impl Lease {
    /// When a heartbeat that comes now may be stored.
    fn next_heartbeat(&self) -> Instant {
        let now = Instant::now();
        self.heartbeat_at
            .map_or(now, |last| now.max(last + self.terms.heartbeat_every))
    }

    /// When to renew; `None` while that is under way, when the lease is lost, and when its work has taken too long.
    fn next_renewal(&self) -> Option<Instant> {
        let too_long = self.renew_until.is_some_and(|until| self.renew_at > until);
        (!self.renewing && !too_long && !self.lost.is_cancelled()).then_some(self.renew_at)
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
#[derive(Debug)]
pub(crate) struct Leases {
    book: Mutex<Book>,
    earlier: Notify,
    unfinished: mpsc::UnboundedSender<Unfinished>,
}

/// A lease that is kept until it ends. Dropped without an end, it is given back.
#[derive(Debug)]
pub(crate) struct Held {
    leases: Arc<Leases>,
    id: u64,
    leased: Leased,
    token: String,
    subject: Arc<str>,
    lost: CancellationToken,
    store_at_fault: Arc<AtomicBool>,
    unsaved: Arc<Unsaved>,
    has_ended: bool,
}

impl Held {
    /// What the lease is for: an instance, or an activity of it.
    pub(crate) fn subject(&self) -> &Arc<str> {
        &self.subject
    }

    /// The proof of the lease.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Fires when the lease is lost.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether the loss of this lease is the store's fault and not the work's: the store was away when the lease was to
    /// be renewed last, or the lease was lost before its time was over here. Then the answer to the claim, or to a
    /// renewal, came late by that much.
    pub(crate) fn is_loss_excused(&self) -> bool {
        self.is_store_at_fault() || self.leases.has_time_left(self.id)
    }

    /// Whether the store was away when the lease was to be renewed last, or said then that it was lost before its time.
    pub(crate) fn is_store_at_fault(&self) -> bool {
        self.store_at_fault.load(Ordering::Relaxed)
    }

    /// Whether the lease should have been renewed by now: its work waited for so long that it may be over at the store.
    pub(crate) fn is_overdue(&self) -> bool {
        let book = self.leases.book();
        let lease = book.leases.get(&self.id);
        lease.is_some_and(|lease| lease.renew_at <= Instant::now())
    }

    /// Renews the lease now, so that [`lost`](Self::lost) says how it stands. A store that cannot be asked has not
    /// given it to anybody else.
    pub(crate) async fn renew_now(&self, store: &dyn Provider) {
        self.leases.renew_now(self.id, store).await;
    }

    /// How the activity of this lease says something.
    pub(crate) fn heartbeats(&self, call: u64) -> Heartbeats {
        Heartbeats {
            leases: Arc::clone(&self.leases),
            lease: self.id,
            call,
            unsaved: Arc::clone(&self.unsaved),
        }
    }

    /// Stores what the activity said last, for the attempt that may follow; waits for that only for a moment.
    pub(crate) async fn store_last_heartbeat(&self, store: &dyn Provider, length: Duration) {
        self.unsaved.write_last(store, &self.token, length).await;
    }

    /// The lease is over: its work is stored, it was given back, or the store said that it is lost.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leases.book().leases.remove(&self.id);
        let mut is_settled = self.has_ended || self.lost.is_cancelled();
        is_settled |= Defect::WorkKeptAtShutdown.is_on();
        if is_settled {
            return;
        }
        let unfinished = Unfinished {
            leased: self.leased,
            token: std::mem::take(&mut self.token),
            after_panic: std::thread::panicking(),
            unsaved: Arc::clone(&self.unsaved),
        };
        // The receiver is gone once the runtime has shut down; the lease then runs out by itself.
        let _nobody_listens = self.leases.unfinished.send(unfinished);
    }
}

impl Leases {
    /// An empty book, and what is to be given back.
    pub(crate) fn new() -> (Arc<Self>, Returns) {
        let (unfinished, returns) = mpsc::unbounded_channel();
        let leases = Self {
            book: Mutex::default(),
            earlier: Notify::new(),
            unfinished,
        };
        (Arc::new(leases), Returns::new(returns))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease that was claimed just now.
    pub(crate) fn hold(
        self: &Arc<Self>,
        leased: Leased,
        token: &str,
        subject: Arc<str>,
        terms: Terms,
    ) -> Held {
        let now = Instant::now();
        let lost = CancellationToken::new();
        let store_at_fault = Arc::new(AtomicBool::new(false));
        let unsaved = Arc::new(Unsaved::default());
        // The answer to the claim may have been late: the first renewal does not count on the whole lease.
        let renew_at = now + terms.interval.min(terms.timeout / 2);
        let mut book = self.book();
        let id = book.next;
        book.next += 1;
        book.leases.insert(
            id,
            Lease {
                leased,
                token: token.to_owned(),
                terms,
                since: now,
                renew_at,
                valid_until: now + terms.timeout,
                renew_until: terms.renew_for.and_then(|limit| now.checked_add(limit)),
                renewing: false,
                lost: lost.clone(),
                store_at_fault: Arc::clone(&store_at_fault),
                unsaved: Arc::clone(&unsaved),
                heartbeat_at: None,
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
            leased,
            token: token.to_owned(),
            subject,
            lost,
            store_at_fault,
            unsaved,
            has_ended: false,
        }
    }

    /// Whether a lease that is kept is not over yet, as far as this node knows.
    fn has_time_left(&self, id: u64) -> bool {
        let book = self.book();
        let lease = book.leases.get(&id);
        lease.is_some_and(|lease| Instant::now() < lease.valid_until)
    }

    /// Brings the renewal of a lease forward, because a heartbeat came.
    fn heartbeat_came(&self, id: u64) {
        let mut book = self.book();
        let Some(lease) = book.leases.get_mut(&id) else {
            return;
        };
        lease.renew_at = lease.renew_at.min(lease.next_heartbeat());
        let renew_at = lease.next_renewal();
        if let Some(at) = renew_at
            && book.planned.is_none_or(|planned| at < planned)
        {
            book.planned = Some(at);
            self.earlier.notify_one();
        }
    }
}
