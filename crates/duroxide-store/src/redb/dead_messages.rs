//! Which messages are dead: those of groups that a deletion has listed and of which something is still in the file
//! (`discarded_groups.rs`). In: a group, or messages. Out: whether readers, claims and leases pass by. Never removes
//! anything.

use ::redb::ReadableTable;

use super::error::Result;
use super::tables::{Tables, Views};

/// Whether all messages of a group are dead.
pub(super) fn has(tables: &Tables<'_>, queue: &str, group: &str) -> Result<bool> {
    Ok(tables.has_remains && tables.discarded_names.get((Some(queue), group))?.is_some())
}

/// As [`has`], for a reader.
pub(super) fn is_hidden(views: &Views, queue: &str, group: &str) -> Result<bool> {
    Ok(views.discarded_names.get((Some(queue), group))?.is_some())
}

/// Whether a message is there and dead.
pub(super) fn has_message(tables: &Tables<'_>, queue: &str, id: u64) -> Result<bool> {
    if !tables.has_remains {
        return Ok(false);
    }
    match tables.messages.get((queue, id))? {
        Some(row) => has(tables, queue, row.value().0),
        None => Ok(false),
    }
}

/// Those of the messages that are not dead.
pub(super) fn living(tables: &Tables<'_>, queue: &str, ids: &[u64]) -> Result<Vec<u64>> {
    let mut living = Vec::with_capacity(ids.len());
    for id in ids {
        if !has_message(tables, queue, *id)? {
            living.push(*id);
        }
    }
    Ok(living)
}
