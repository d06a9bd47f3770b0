//! Who may work on what, as the store granted it. In: claims, renewals, ends of leases, as they take effect. Out: what
//! overlaps that must not, and what a node that was shut down still holds.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duroxide_store::LeaseToken;

/// A lease that the store granted.
#[derive(Debug, Clone)]
pub struct Granted {
    /// What it is for: a queue and a group, or a message of a queue.
    pub subject: String,
    /// To whom.
    pub holder: String,
    pub until_ms: u64,
    /// The holder has heard of it.
    pub is_told: bool,
}

/// All leases that are valid, or were until they ran out.
#[derive(Debug, Default)]
pub struct LeaseBook(Mutex<BTreeMap<LeaseToken, Granted>>);

impl LeaseBook {
    fn book(&self) -> MutexGuard<'_, BTreeMap<LeaseToken, Granted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a claim; with whom it overlaps, if it does.
    pub fn granted(&self, token: LeaseToken, granted: Granted, now_ms: u64) -> Option<Granted> {
        let mut book = self.book();
        book.retain(|_, other| other.until_ms > now_ms);
        let other = book
            .values()
            .find(|other| other.subject == granted.subject)
            .cloned();
        book.insert(token, granted);
        other
    }

    /// Enters a renewal.
    pub fn renewed(&self, token: &LeaseToken, until_ms: u64) {
        if let Some(lease) = self.book().get_mut(token) {
            lease.until_ms = until_ms;
        }
    }

    /// Enters the end of a lease.
    pub fn ended(&self, token: &LeaseToken) {
        self.book().remove(token);
    }

    /// Everything of this kind was taken away, or a message was deleted under its lease.
    pub fn ended_where(&self, gone: impl Fn(&Granted) -> bool) {
        self.book().retain(|_, lease| !gone(lease));
    }

    /// Whether one of these leases is valid and for this.
    #[must_use]
    pub fn covers(&self, tokens: &[&LeaseToken], subject: &str, now_ms: u64) -> bool {
        let book = self.book();
        tokens.iter().any(|token| {
            let lease = book.get(*token);
            lease.is_some_and(|lease| lease.subject == subject && lease.until_ms > now_ms)
        })
    }

    /// The holder has heard of what it was granted.
    pub fn told(&self, holder: &str, kind: &str) {
        for lease in self.book().values_mut() {
            if lease.holder == holder && lease.subject.starts_with(kind) {
                lease.is_told = true;
            }
        }
    }

    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self, now_ms: u64) -> bool {
        self.book().values().all(|lease| lease.until_ms <= now_ms)
    }

    /// The holder will never hear of what its last claim granted.
    pub fn unheard(&self, holder: &str, kind: &str) {
        for lease in self.book().values_mut() {
            let is_its = lease.holder == holder && lease.subject.starts_with(kind);
            if is_its && !lease.is_told {
                lease.holder.clear();
            }
        }
    }

    /// What a holder has and knows of.
    #[must_use]
    pub fn held_by(&self, holder: &str, now_ms: u64) -> Vec<(LeaseToken, Granted)> {
        let book = self.book();
        let held = book.iter().filter(|(_, lease)| {
            lease.holder == holder && lease.is_told && lease.until_ms > now_ms
        });
        let mut held: Vec<_> = held
            .map(|(token, lease)| (token.clone(), lease.clone()))
            .collect();
        // Tokens are random.
        held.sort_by(|a, b| a.1.subject.cmp(&b.1.subject));
        held
    }
}
