//! Tells operators of damaged rows: their instances are noted as blocked. In: what the writer could not read lately. Out:
//! notes in the table `blocked`. An instance that has not begun has none; the log tells of it.

use duroxide_core::provider::BlockedInstance;

use crate::damage::{DamagedRow, Unnoted};
use crate::error::Result;
use crate::tables::{blocked, instances, worker_queue};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// Who noted it: no node in particular, what cannot be read is the same for all.
const NOTED_BY: &str = "sqlite";

/// Writes the notes that are missing. Called with each claim; there is rarely anything.
///
/// A note that the store has is found by a later call, and only then counts as written: this transaction may be rolled
/// back, and a note of an instance whose row is damaged itself fails it.
pub(crate) fn run(tx: &WriterTx<'_>) -> Result<()> {
    let damaged = tx.writer().damaged;
    for one in damaged.to_note() {
        let Some((instance, what)) = blocked_by(tx, &one)? else {
            damaged.noted(&one.row);
            continue;
        };
        let known = blocked::of(tx, &instance)?;
        if known.is_some_and(|note| note.blocked.report == what.report) {
            damaged.noted(&one.row);
        } else {
            blocked::note(tx, &instance, &what, NOTED_BY)?;
        }
    }
    Ok(())
}

/// Which instance is blocked by this, and how; `None` if there is none any more, or it has not begun.
fn blocked_by(tx: &Tx<'_>, one: &Unnoted) -> Result<Option<(String, BlockedInstance)>> {
    let why = &one.why;
    let (instance, report) = match &one.row {
        DamagedRow::Instance(instance) => (
            instance.clone(),
            format!("its rows cannot be read: {why}; restore a backup"),
        ),
        DamagedRow::Activity(id) => match worker_queue::call_of(tx, *id)? {
            Some((instance, activity)) => (
                instance,
                format!("activity {activity} cannot be read: {why}; restore a backup"),
            ),
            None => return Ok(None),
        },
    };
    let Some(handler) = instances::handler(tx, &instance)? else {
        return Ok(None);
    };
    let what = BlockedInstance {
        instance_id: instance.clone(),
        execution_id: handler.execution_id,
        orchestration_name: handler.name,
        report,
        attempts: 1,
    };
    Ok(Some((instance, what)))
}
