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
    /// The messages under it.
    pub messages: Vec<u64>,
}

/// All leases that are valid, or have run out and were not granted again.
#[derive(Debug, Default)]
pub struct LeaseBook(
    Mutex<BTreeMap<LeaseToken, Granted>>,
    Mutex<BTreeMap<u64, u32>>,
);

impl LeaseBook {
    fn book(&self) -> MutexGuard<'_, BTreeMap<LeaseToken, Granted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a claim of a message; how often it counts as tried.
    pub fn tried(&self, message: u64) -> u32 {
        let mut attempts = self.attempts();
        let count = attempts.entry(message).or_default();
        *count += 1;
        *count
    }

    /// A lease is given back, and its claim does not count.
    pub fn forgiven(&self, token: &LeaseToken) {
        let messages = self.book().get(token).map(|lease| lease.messages.clone());
        let mut attempts = self.attempts();
        for message in messages.unwrap_or_default() {
            let count = attempts.entry(message).or_default();
            *count = count.saturating_sub(1);
        }
    }

    /// Enters a claim; with whom it overlaps, if it does.
    pub fn granted(&self, token: LeaseToken, granted: Granted, now_ms: u64) -> Option<Granted> {
        let mut book = self.book();
        let is_same = |other: &&Granted| other.subject == granted.subject;
        let other = book.values().find(is_same).cloned();
        book.retain(|_, other| other.subject != granted.subject);
        book.insert(token, granted);
        other.filter(|other| other.until_ms > now_ms)
    }

    /// Enters a renewal.
    pub fn renewed(&self, token: &LeaseToken, until_ms: u64) {
        if let Some(lease) = self.book().get_mut(token) {
            lease.until_ms = until_ms;
        }
    }

    /// Whether a lease is valid.
    #[must_use]
    pub fn is_valid(&self, token: &LeaseToken, now_ms: u64) -> bool {
        let book = self.book();
        book.get(token).is_some_and(|lease| lease.until_ms > now_ms)
    }

    /// What a lease is for.
    #[must_use]
    pub fn subject(&self, token: &LeaseToken) -> Option<String> {
        self.book().get(token).map(|lease| lease.subject.clone())
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

    /// Whether no lease is held.
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
