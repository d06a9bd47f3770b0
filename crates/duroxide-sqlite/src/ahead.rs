//! Turns handed out before their claim is committed. In: claims, commits and returns of turns, as they run in one
//! transaction. Out: who is still at work, and who has to wait for the next transaction.
//!
//! A turn only decides; nothing it decided is seen by anybody before its own commit. So it may run on a claim that is
//! not durable yet, and its commit may join the very transaction the claim was made in: both last, or neither does.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

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

#[derive(Debug, Default)]
pub(crate) struct Ahead {
    turns: RefCell<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    out: HashSet<String>,
    back: HashSet<String>,
}

impl Ahead {
    /// A turn of this instance is about to be handed out.
    pub(crate) fn hand_out(&self, instance: &str) {
        self.turns.borrow_mut().out.insert(instance.to_owned());
    }

    /// A turn of this instance was committed, and its execution goes on, or it was given back. Whoever holds it learns
    /// that only with the commit of the transaction; claimed before that, its history would be loaded for nothing.
    pub(crate) fn rests(&self, instance: &str) {
        let mut turns = self.turns.borrow_mut();
        turns.out.remove(instance);
        turns.back.insert(instance.to_owned());
    }

    /// A turn of this instance was committed, and ended its execution.
    pub(crate) fn ended(&self, instance: &str) {
        self.turns.borrow_mut().out.remove(instance);
    }

    /// Whether the instance has to wait for the next transaction.
    pub(crate) fn is_resting(&self, instance: &str) -> bool {
        self.turns.borrow().back.contains(instance)
    }

    /// Whether somebody is still at work.
    pub(crate) fn anybody_out(&self) -> bool {
        !self.turns.borrow().out.is_empty()
    }

    /// The transaction never happened.
    pub(crate) fn forget(&self) {
        self.turns.take();
    }
}
