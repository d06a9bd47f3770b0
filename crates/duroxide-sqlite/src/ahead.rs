//! Turns handed out before their claim is committed. In: claims, commits and returns of turns, as they run in one
//! transaction. Out: who is still at work, and who has to wait for the next transaction.
//!
//! A turn only decides; nothing it decided is seen by anybody before its own commit. So it may run on a claim that is
//! not durable yet, and its commit may join the very transaction the claim was made in: both last, or neither does.
//! A lease that begins and ends in one transaction is seen by nobody, and is not written at all. What is still out when
//! the transaction is to be committed gets its lease written then.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tables::{instance_locks, orchestrator_queue};
use crate::tx::{Result, Tx};

/// Whether turns were handed out whose claim is not committed yet. Readers do not see what such a turn was claimed on, so
/// what it asks has to be asked of the writer.
#[derive(Debug, Default)]
pub(crate) struct Uncommitted(AtomicBool);

impl Uncommitted {
    /// Said before the first turn is handed out, and taken back when the transaction is over.
    pub(crate) fn say(&self, any: bool) {
        self.0.store(any, Ordering::SeqCst);
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The lease of a turn that is out.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) token: String,
    pub(crate) until: i64,
    /// The messages that were claimed.
    pub(crate) messages: Vec<i64>,
}

/// The turns of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    turns: RefCell<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    /// Leases that are not written yet.
    out: HashMap<String, Lease>,
    back: HashSet<String>,
}

impl Ahead {
    /// A turn of this instance is about to be handed out.
    pub(crate) fn hand_out(&self, instance: &str, lease: Lease) {
        self.turns
            .borrow_mut()
            .out
            .insert(instance.to_owned(), lease);
    }

    /// Ends the lease of a turn that is out; `None` if this token is not one of those.
    pub(crate) fn take_back(&self, instance: &str, token: &str, now: i64) -> Option<Lease> {
        let mut turns = self.turns.borrow_mut();
        let held = turns.out.get(instance)?;
        if held.token != token || held.until <= now {
            return None;
        }
        turns.out.remove(instance)
    }

    /// A turn of this instance was committed, and its execution goes on, or it was given back. Whoever holds it learns
    /// that only with the commit of the transaction; claimed before that, its history would be loaded for nothing.
    pub(crate) fn rests(&self, instance: &str) {
        self.turns.borrow_mut().back.insert(instance.to_owned());
    }

    /// Whether the instance has to wait for the next transaction.
    pub(crate) fn is_resting(&self, instance: &str) -> bool {
        self.turns.borrow().back.contains(instance)
    }

    /// Whether a turn of the instance is out.
    pub(crate) fn is_out(&self, instance: &str) -> bool {
        self.turns.borrow().out.contains_key(instance)
    }

    /// Whether somebody is still at work.
    pub(crate) fn anybody_out(&self) -> bool {
        !self.turns.borrow().out.is_empty()
    }

    /// When the first of these leases runs out.
    pub(crate) fn next_expiry(&self) -> Option<i64> {
        let turns = self.turns.borrow();
        turns.out.values().map(|lease| lease.until).min()
    }

    /// Writes the leases of all turns that are out, as an ordinary claim does.
    pub(crate) fn write_leases(&self, tx: &Tx<'_>) -> Result<()> {
        let out = std::mem::take(&mut self.turns.borrow_mut().out);
        for (instance, lease) in out {
            instance_locks::grant(tx, &instance, &lease.token, lease.until)?;
            orchestrator_queue::tag(tx, &lease.messages, &lease.token)?;
        }
        Ok(())
    }

    /// The transaction never happened.
    pub(crate) fn forget(&self) {
        self.turns.take();
    }
}

#[cfg(test)]
mod tests;
