//! Between Rust values and SQLite's columns: times, numbers without a sign, payloads.

use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};

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

/// A number without a sign as a parameter. Not every release of the driver takes one; one that does not fit is an
/// error.
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

/// A stored payload, whatever it is: a damaged one must reach the decoder, which reports what is wrong with it, and not
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
