//! The writer's transaction as one request sees it: the tables of a [`Tx`], and what the writer knows beyond them. In:
//! a [`Tx`]. Out: the same, with the turns in flight and what the writer remembers. A reader never has one, so an
//! operation that needs the writer cannot be sent to a reader.

use std::ops::{Deref, DerefMut};

use crate::connection::statements::Prepared;
use crate::damage::DamagedRows;
use crate::early::{CrashCaution, InFlight};
use crate::tx::{Effects, Reading, Tx};
use crate::unswept::Unswept;
use crate::watch::Watches;
use crate::writer_memory::WriterMemory;

/// What the writer knows beyond the tables.
#[derive(Clone, Copy)]
pub(crate) struct WriterState<'c> {
    pub(crate) watches: &'c Watches,
    pub(crate) in_flight: &'c InFlight,
    pub(crate) memory: &'c WriterMemory,
    pub(crate) caution: &'c CrashCaution,
    pub(crate) damaged: &'c DamagedRows,
    pub(crate) unswept: &'c Unswept,
}

/// The writer's transaction as one request sees it.
pub(crate) struct WriterTx<'c> {
    tx: Tx<'c>,
    state: WriterState<'c>,
}

impl<'c> WriterTx<'c> {
    pub(crate) fn new(statements: &'c dyn Prepared, time: Reading, state: WriterState<'c>) -> Self {
        Self {
            tx: Tx::remembering(statements, time, state.memory),
            state,
        }
    }

    /// For a request that knows of messages that no table holds yet, and may leave its own among them.
    pub(crate) fn leaving_messages_unwritten(mut self) -> Self {
        self.tx.leave_unwritten(self.state.in_flight.messages());
        self
    }

    /// What the request did.
    pub(crate) fn into_effects(self) -> Effects {
        self.tx.effects
    }

    /// What the writer knows beyond the tables.
    pub(crate) fn writer(&self) -> WriterState<'c> {
        self.state
    }
}

impl<'c> Deref for WriterTx<'c> {
    type Target = Tx<'c>;

    fn deref(&self) -> &Tx<'c> {
        &self.tx
    }
}

impl DerefMut for WriterTx<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A writer without its thread.

    use super::*;
    use crate::connection::LastShutdown;
    use crate::connection::statements::Statements;

    /// What a writer knows beyond the tables: nothing yet.
    pub(crate) struct Writer {
        watches: Watches,
        in_flight: InFlight,
        memory: WriterMemory,
        damaged: DamagedRows,
        unswept: Unswept,
        caution: CrashCaution,
    }

    impl Writer {
        pub(crate) fn new() -> Self {
            Self {
                watches: Watches::default(),
                in_flight: InFlight::default(),
                memory: WriterMemory::default(),
                damaged: DamagedRows::default(),
                unswept: Unswept::default(),
                caution: CrashCaution::new(LastShutdown::Clean, 0),
            }
        }

        /// Its transaction at this time.
        pub(crate) fn tx<'t>(&'t self, statements: &'t Statements<'_>, now: i64) -> WriterTx<'t> {
            let state = WriterState {
                watches: &self.watches,
                in_flight: &self.in_flight,
                memory: &self.memory,
                caution: &self.caution,
                damaged: &self.damaged,
                unswept: &self.unswept,
            };
            WriterTx::new(statements, Reading { now, ahead: 0 }, state)
        }
    }
}
