//! Turns handed out before their claim is committed. In: claims, commits and returns of turns, as they run in one
//! transaction. Out: who is still at work, and who has to wait for the next transaction.
//!
//! A turn only decides; nothing it decided is seen by anybody before its own commit. So it may run on a claim that is
//! not durable yet, and its commit may join the very transaction the claim was made in: both last, or neither does.
//! A lease that begins and ends in one transaction is seen by nobody, and is not written at all. What is still out when
//! the transaction is to be committed gets its lease written then.

use std::cell::RefCell;
use std::collections::HashMap;
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
    stages: HashMap<String, Stage>,
    /// How many of them are out.
    out: usize,
}

/// Where a turn is that this transaction claimed or committed.
#[derive(Debug)]
enum Stage {
    /// At work, under a lease that is not written yet.
    Out(Lease),
    /// Done. Whoever holds the instance learns that only with the commit of the transaction; claimed before that, its
    /// history would be loaded for nothing.
    Resting,
    /// As the tables say.
    Written,
}

impl Turns {
    fn set(&mut self, instance: &str, stage: Stage) -> Option<Stage> {
        self.out += usize::from(matches!(stage, Stage::Out(_)));
        let before = match self.stages.get_mut(instance) {
            Some(known) => Some(std::mem::replace(known, stage)),
            None => self.stages.insert(instance.to_owned(), stage),
        };
        self.out -= usize::from(matches!(before, Some(Stage::Out(_))));
        before
    }
}

impl Ahead {
    /// A turn of this instance is handed out. From here on nothing may fail but the transaction.
    pub(crate) fn hand_out(&self, instance: &str, lease: Lease) {
        self.turns.borrow_mut().set(instance, Stage::Out(lease));
    }

    /// Ends the lease of a turn that is out; `None` if this token is not one of those.
    pub(crate) fn take_back(&self, instance: &str, token: &str, now: i64) -> Option<Lease> {
        let mut turns = self.turns.borrow_mut();
        match turns.stages.get(instance)? {
            Stage::Out(lease) if lease.token == token && lease.until > now => {}
            _ => return None,
        }
        match turns.set(instance, Stage::Written)? {
            Stage::Out(lease) => Some(lease),
            Stage::Resting | Stage::Written => None,
        }
    }

    /// A turn of this instance was committed, and its execution goes on, or it was given back.
    pub(crate) fn rests(&self, instance: &str) {
        self.turns.borrow_mut().set(instance, Stage::Resting);
    }

    /// Whether the instance has to wait for the next transaction.
    pub(crate) fn is_resting(&self, instance: &str) -> bool {
        matches!(
            self.turns.borrow().stages.get(instance),
            Some(Stage::Resting)
        )
    }

    /// Whether a turn of the instance is out.
    pub(crate) fn is_out(&self, instance: &str) -> bool {
        matches!(
            self.turns.borrow().stages.get(instance),
            Some(Stage::Out(_))
        )
    }

    /// Whether somebody is still at work.
    pub(crate) fn anybody_out(&self) -> bool {
        self.turns.borrow().out > 0
    }

    /// When the first of these leases runs out.
    pub(crate) fn next_expiry(&self) -> Option<i64> {
        let turns = self.turns.borrow();
        let expiry = |stage: &Stage| match stage {
            Stage::Out(lease) => Some(lease.until),
            Stage::Resting | Stage::Written => None,
        };
        turns.stages.values().filter_map(expiry).min()
    }

    /// Writes the leases of all turns that are out, as an ordinary claim does.
    pub(crate) fn write_leases(&self, tx: &Tx<'_>) -> Result<()> {
        let mut turns = self.turns.borrow_mut();
        if turns.out == 0 {
            return Ok(());
        }
        turns.out = 0;
        for (instance, stage) in &mut turns.stages {
            if let Stage::Out(lease) = stage {
                instance_locks::grant(tx, instance, &lease.token, lease.until)?;
                orchestrator_queue::tag(tx, &lease.messages, &lease.token)?;
                *stage = Stage::Written;
            }
        }
        Ok(())
    }

    /// The transaction never happened; returns whose turns it had to do with.
    pub(crate) fn forget(&self) -> impl Iterator<Item = String> + use<> {
        self.turns.take().stages.into_keys()
    }
}
