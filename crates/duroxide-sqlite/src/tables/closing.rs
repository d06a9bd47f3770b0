//! Whether the store is closed for the engine, its clients and its operators. Everything that they write asks; the
//! writer remembers the answer.

use duroxide_core::provider::Closing as Outcome;
use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tx::{Closing, Tx};

/// Why the store is closed.
pub(crate) fn reason(tx: &Tx<'_>) -> Result<Option<String>> {
    tx.first("SELECT reason FROM closing", [], |row| row.get(0))
}

/// Closes the store, changes why it is closed, or opens it, if it is as the caller expects.
pub(crate) fn set(tx: &Tx<'_>, expected: Option<&str>, reason: Option<&str>) -> Result<Outcome> {
    let found = self::reason(tx)?;
    if found.as_deref() != expected {
        return Ok(Outcome::Unexpected(found));
    }
    if let Some(memory) = tx.memory() {
        memory.set_closing(None);
    }
    match reason {
        Some(reason) => tx.execute(
            "INSERT INTO closing (id, reason) VALUES (0, ?1)
             ON CONFLICT (id) DO UPDATE SET reason = excluded.reason",
            [reason],
        )?,
        None => tx.execute("DELETE FROM closing", [])?,
    };
    Ok(Outcome::Done)
}

/// Refuses what the engine, its clients and its operators write while the store is closed.
pub(crate) fn check(tx: &Tx<'_>) -> Result<()> {
    let memory = tx.memory();
    if memory.and_then(|memory| memory.closing()) == Some(Closing::Open) {
        return Ok(());
    }
    let closed = reason(tx)?;
    if let Some(memory) = memory {
        memory.set_closing(Some(match closed {
            Some(_) => Closing::Closed,
            None => Closing::Open,
        }));
    }
    match closed {
        Some(reason) => Err(Refusal::Closed { reason }.into()),
        None => Ok(()),
    }
}
