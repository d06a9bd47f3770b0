//! One request's view of the open transaction. In: statements. Out: rows, and the [`Effects`] of the request. Never
//! begins or ends a transaction, and knows nothing of the threads above it: what the writer remembers comes in as a
//! [`QueueMemory`].

mod effects;
mod memory;
mod unwritten;
mod values;

pub(crate) use duroxide_core::provider::rules::InstanceChange;
pub(crate) use effects::Effects;
pub(crate) use memory::{
    AwaitingStart, Closing, Deletions, Enqueued, HeldQueueMessages, Pauses, QueueMemory, Rests,
};
pub(crate) use unwritten::{Unwritten, UnwrittenMessage};
pub(crate) use values::{
    Unsigned, count, duration_ms, payload, payload_text, shown_ms, stored_ms, unsigned,
};

use std::time::Duration;

use rusqlite::{OptionalExtension, Params, Row};

use crate::connection::statements::Prepared;
use crate::error::Result;

/// The last time there is for a message or a lease. The end of time, one later, stands for messages that are held back.
pub(crate) const LATEST: i64 = i64::MAX - 1;

/// One look at the clock of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The time of the store, in milliseconds since the Unix epoch.
    pub(crate) now: i64,
    /// By how much it is ahead of the clock: 0 unless that was set back. A time that another process computed with the
    /// clock is this much later in the time of the store.
    pub(crate) ahead: i64,
}

/// The transaction as one request sees it.
pub(crate) struct Tx<'c> {
    statements: &'c dyn Prepared,
    /// The store's time, in milliseconds since the Unix epoch. Read when the request runs, so that a lease never
    /// begins before it is granted.
    pub(crate) now: i64,
    /// By how much that is ahead of the clock that callers read.
    pub(crate) ahead: i64,
    pub(crate) effects: Effects,
    memory: Option<&'c dyn QueueMemory>,
    unwritten: Option<&'c Unwritten>,
}

impl<'c> Tx<'c> {
    /// A transaction that reads everything from the tables.
    pub(crate) fn new(statements: &'c dyn Prepared, now: i64) -> Self {
        Self {
            statements,
            now,
            ahead: 0,
            effects: Effects::default(),
            memory: None,
            unwritten: None,
        }
    }

    /// A transaction of the writer, which remembers some of what it wrote.
    pub(crate) fn remembering(
        statements: &'c dyn Prepared,
        time: Reading,
        memory: &'c dyn QueueMemory,
    ) -> Self {
        Self {
            ahead: time.ahead,
            memory: Some(memory),
            ..Self::new(statements, time.now)
        }
    }

    /// A request that knows of messages that no table holds yet, and may leave its own among them.
    pub(crate) fn leave_unwritten(&mut self, unwritten: &'c Unwritten) {
        self.unwritten = Some(unwritten);
    }

    /// The messages that no table holds yet, for a request that knows of them. For any other all are in the table.
    pub(crate) fn unwritten(&self) -> Option<&'c Unwritten> {
        self.unwritten
    }

    /// What the writer remembers of the queues; `None` for a reader.
    pub(crate) fn memory(&self) -> Option<&'c dyn QueueMemory> {
        self.memory
    }

    /// Runs one statement; returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &'static str, params: impl Params) -> Result<usize> {
        Ok(self.execute_raw(sql, params)?)
    }

    /// As [`execute`](Self::execute), with SQLite's own error, for callers that distinguish causes.
    pub(crate) fn execute_raw(
        &self,
        sql: &'static str,
        params: impl Params,
    ) -> rusqlite::Result<usize> {
        self.statements
            .with(sql, |statement| statement.execute(params))
    }

    /// The first row, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let found = self.statements.with(sql, |statement| {
            statement.query_row(params, read).optional()
        });
        Ok(found?)
    }

    /// The one row of a statement that always has one.
    pub(crate) fn one<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let found = self
            .statements
            .with(sql, |statement| statement.query_row(params, read));
        Ok(found?)
    }

    /// All rows.
    pub(crate) fn all<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = self.statements.with(sql, |statement| {
            statement.query_map(params, read)?.collect()
        });
        Ok(rows?)
    }

    /// Hands rows to `visit` until it returns `false`, fails, or there are no more.
    pub(crate) fn walk(
        &self,
        sql: &'static str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut verdict = Ok(());
        self.statements.with(sql, |statement| {
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                match visit(row) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        verdict = Err(error);
                        break;
                    }
                }
            }
            Ok(())
        })?;
        verdict
    }

    /// This much later than now; saturates instead of wrapping.
    pub(crate) fn later(&self, by: Duration) -> i64 {
        self.now.saturating_add(duration_ms(by)).min(LATEST)
    }

    /// Now, or later by the delay.
    pub(crate) fn after(&self, delay: Option<Duration>) -> i64 {
        delay.map_or(self.now, |delay| self.later(delay))
    }

    /// This much earlier than now.
    pub(crate) fn earlier(&self, by: Duration) -> i64 {
        self.now.saturating_sub(duration_ms(by))
    }
}
