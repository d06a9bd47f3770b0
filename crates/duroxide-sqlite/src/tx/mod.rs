//! One request's view of the open transaction. In: statements. Out: rows, and the [`Effects`] to announce once the
//! transaction is committed. Never begins or ends a transaction.

use std::time::Duration;

use duroxide_core::provider::InstanceOutcome;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Params, Row, ToSql};

use crate::connection::statements::Prepared;
use crate::early::in_flight::Ahead;
use crate::early::recent_instances::{Damage, Known};
use crate::error::SqliteError;
use crate::watch::Wake;

pub(crate) type Result<T> = std::result::Result<T, SqliteError>;

/// The transaction as one request sees it.
pub(crate) struct Tx<'c> {
    statements: &'c dyn Prepared,
    /// The store's time, in milliseconds since the Unix epoch. Read when the request runs, so that a lease never
    /// begins before it is granted.
    pub(crate) now: i64,
    pub(crate) effects: Effects,
    aware: Option<Aware<'c>>,
}

/// What the writer's transactions know beyond the tables.
#[derive(Clone, Copy)]
pub(crate) struct Aware<'c> {
    pub(crate) wake: &'c Wake,
    pub(crate) ahead: &'c Ahead,
    pub(crate) known: &'c Known,
}

/// What a committed request means to those who wait.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Earliest time at which a turn may have become claimable.
    turns_at: Option<i64>,
    /// Earliest time at which an activity may have become claimable.
    work_at: Option<i64>,
    /// Instances that changed, and how.
    changes: Vec<(String, News)>,
}

/// What a request did to an instance.
#[derive(Debug)]
pub(crate) enum News {
    /// It is to begin, and was not there before.
    Started,
    /// It went on, and has not ended.
    Moved,
    /// Whoever cares must look.
    Unknown,
    Ended(InstanceOutcome),
}

impl Effects {
    pub(crate) fn turn_claimable_at(&mut self, at: i64) {
        self.turns_at = Some(self.turns_at.map_or(at, |known| known.min(at)));
    }

    pub(crate) fn work_claimable_at(&mut self, at: i64) {
        self.work_at = Some(self.work_at.map_or(at, |known| known.min(at)));
    }

    pub(crate) fn instance_changed(&mut self, instance: &str, news: News) {
        self.changes.push((instance.to_owned(), news));
    }

    pub(crate) fn turns_at(&self) -> Option<i64> {
        self.turns_at
    }

    pub(crate) fn work_at(&self) -> Option<i64> {
        self.work_at
    }

    pub(crate) fn changes(&self) -> &[(String, News)] {
        &self.changes
    }

    pub(crate) fn take_changes(&mut self) -> Vec<(String, News)> {
        std::mem::take(&mut self.changes)
    }
}

impl<'c> Tx<'c> {
    pub(crate) fn new(statements: &'c dyn Prepared, now: i64) -> Self {
        Self {
            statements,
            now,
            effects: Effects::default(),
            aware: None,
        }
    }

    /// The writer's transaction.
    pub(crate) fn aware_of(mut self, aware: Aware<'c>) -> Self {
        self.aware = Some(aware);
        self
    }

    /// What the writer knows; `None` for a reader.
    pub(crate) fn aware(&self) -> Option<Aware<'c>> {
        self.aware
    }

    /// What of the instance is known to be unreadable.
    pub(crate) fn damage(&self, instance: &str) -> Option<Damage> {
        self.aware.and_then(|aware| aware.known.damage(instance))
    }

    /// Whether somebody waits for news of this instance.
    pub(crate) fn is_followed(&self, instance: &str) -> bool {
        self.aware
            .is_some_and(|aware| aware.wake.is_followed(instance))
    }

    /// Runs one statement; returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &'static str, params: impl Params) -> Result<usize> {
        Ok(self.execute_raw(sql, params)?)
    }

    /// As [`execute`](Self::execute), with SQLite's own error, for callers that tell causes apart.
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

    /// Hands rows to `visit` until it says stop (`false`), fails, or there are no more.
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
        self.now.saturating_add(duration_ms(by))
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

pub(crate) fn duration_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A time of the outside world as SQLite stores it; later than it can express means never.
pub(crate) fn stored_ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A stored time as the outside world sees it.
pub(crate) fn shown_ms(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

/// A number without a sign as a parameter. Not every release of the driver takes one; one that does not fit is an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsigned(pub(crate) u64);

impl ToSql for Unsigned {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let stored = i64::try_from(self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(stored.into())
    }
}

/// A stored number that has no sign.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

/// A number of rows.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    let stored: i64 = row.get(column)?;
    usize::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

/// A stored payload, whatever it is: a damaged one must reach the decoder, which says what is wrong with it, and not
/// fail the statement that reads it together with others.
pub(crate) fn payload(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_owned(),
        ValueRef::Null => Vec::new(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => number.to_string().into_bytes(),
    })
}

/// A stored payload for a person to read.
pub(crate) fn payload_text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = payload(row, column)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
