//! What one transaction has beyond the tables: the turns that it has handed out early, by instance, and the messages
//! that are not written yet. In: claims, commits and returns of turns, as they run in the transaction. Out: which turns
//! are in flight, and which instances wait for the next transaction. The [protocol](super) describes the states.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::error::Result;
use crate::tables::{instance_locks, orchestrator_queue};
use crate::tx::{Tx, Unwritten};

/// The lease of a turn in flight, which no table holds yet.
#[derive(Debug)]
pub(crate) struct EarlyLease {
    pub(crate) token: String,
    pub(crate) until: i64,
    /// The messages that were claimed.
    pub(crate) messages: Vec<i64>,
}

/// The states of the instances that one transaction has touched.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    turns: RefCell<Turns>,
    messages: Unwritten,
}

#[derive(Debug, Default)]
struct Turns {
    stages: HashMap<String, Stage>,
    /// How many of them are [`Stage::InFlight`].
    in_flight: usize,
}

/// Where an instance stands in this transaction.
#[derive(Debug)]
enum Stage {
    /// A dispatcher works on its turn.
    InFlight(EarlyLease),
    /// A turn of it was committed or abandoned; claims leave it to the next transaction.
    TurnOver,
    /// As the tables say.
    Written,
}

impl Turns {
    fn set(&mut self, instance: &str, stage: Stage) -> Option<Stage> {
        self.in_flight += usize::from(matches!(stage, Stage::InFlight(_)));
        let before = match self.stages.get_mut(instance) {
            Some(known) => Some(std::mem::replace(known, stage)),
            None => self.stages.insert(instance.to_owned(), stage),
        };
        self.in_flight -= usize::from(matches!(before, Some(Stage::InFlight(_))));
        before
    }
}

impl InFlight {
    /// The writer hands out a turn of this instance. After this call only the transaction as a whole may fail.
    pub(crate) fn hand_out(&self, instance: &str, lease: EarlyLease) {
        self.turns
            .borrow_mut()
            .set(instance, Stage::InFlight(lease));
    }

    /// Ends the lease of a turn in flight; `None` if the token is not that of one, or its lease has run out.
    pub(crate) fn end_lease(&self, instance: &str, token: &str, now: i64) -> Option<EarlyLease> {
        let mut turns = self.turns.borrow_mut();
        match turns.stages.get(instance)? {
            Stage::InFlight(lease) if lease.token == token && lease.until > now => {}
            _ => return None,
        }
        match turns.set(instance, Stage::Written)? {
            Stage::InFlight(lease) => Some(lease),
            Stage::TurnOver | Stage::Written => None,
        }
    }

    /// A turn of this instance was committed and its execution goes on, or it was abandoned.
    pub(crate) fn end_turn(&self, instance: &str) {
        self.turns.borrow_mut().set(instance, Stage::TurnOver);
    }

    /// Whether the instance has to wait for the next transaction.
    pub(crate) fn is_turn_over(&self, instance: &str) -> bool {
        matches!(
            self.turns.borrow().stages.get(instance),
            Some(Stage::TurnOver)
        )
    }

    /// Whether a turn of the instance is in flight.
    pub(crate) fn contains(&self, instance: &str) -> bool {
        matches!(
            self.turns.borrow().stages.get(instance),
            Some(Stage::InFlight(_))
        )
    }

    /// Whether any turn is in flight.
    pub(crate) fn any(&self) -> bool {
        self.turns.borrow().in_flight > 0
    }

    /// When the first of these leases runs out.
    pub(crate) fn next_expiry(&self) -> Option<i64> {
        let turns = self.turns.borrow();
        let expiry = |stage: &Stage| match stage {
            Stage::InFlight(lease) => Some(lease.until),
            Stage::TurnOver | Stage::Written => None,
        };
        turns.stages.values().filter_map(expiry).min()
    }

    /// The messages that no table holds yet.
    pub(crate) fn messages(&self) -> &Unwritten {
        &self.messages
    }

    /// Writes the messages that no table holds yet, and the leases of all turns in flight, as a claim without early
    /// hand-out does.
    pub(crate) fn write(&self, tx: &Tx<'_>) -> Result<()> {
        orchestrator_queue::write_unwritten(tx, &self.messages)?;
        let mut turns = self.turns.borrow_mut();
        if turns.in_flight == 0 {
            return Ok(());
        }
        turns.in_flight = 0;
        for (instance, stage) in &mut turns.stages {
            if let Stage::InFlight(lease) = stage {
                instance_locks::grant(tx, instance, &lease.token, lease.until)?;
                orchestrator_queue::tag(tx, &lease.messages, &lease.token)?;
                *stage = Stage::Written;
            }
        }
        Ok(())
    }

    /// The transaction was rolled back. Returns the instances that it had touched.
    pub(crate) fn forget(&self) -> impl Iterator<Item = String> + use<> {
        self.messages.take_all();
        self.turns.take().stages.into_keys()
    }
}
