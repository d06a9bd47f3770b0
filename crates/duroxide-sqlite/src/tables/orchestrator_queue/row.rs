//! The row of a message. In: its columns. Out: the row, in the lane that they name.

use crate::error::Result;
use crate::tx::Tx;

/// The columns of a new message; the ninth is the lane that the message names, the last its number, if SQLite is not to
/// choose it.
pub(super) type NewRow<'m> = (
    &'m String,
    &'static str,
    &'m String,
    i64,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<&'m str>,
    Option<&'m str>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
);

/// Writes a message whose lane is certain.
pub(super) fn insert_row(tx: &Tx<'_>, row: NewRow<'_>) -> Result<()> {
    tx.execute(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, sender_incarnation,
             execution_id, operation_id, lane, awaited_by, carries, asked_at, id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        row,
    )?;
    Ok(())
}
