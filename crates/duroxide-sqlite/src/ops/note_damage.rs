//! Tells operators of damaged rows: their instances are noted as blocked. In: what the writer could not read lately.
//! Out: notes in the table `blocked`. An instance that has not begun has none; the log tells of it.

use duroxide_core::provider::BlockedInstance;

use crate::damage::{DamagedRow, NoteFrom, Unnoted};
use crate::error::{Result, SqliteError};
use crate::tables::{blocked, instances, worker_queue};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// Who noted it: no node in particular, what cannot be read is the same for all.
const NOTED_BY: &str = "sqlite";

/// What became of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noted {
    /// The store has it, or there is nothing to note.
    Done,
    /// It is written; this transaction may be rolled back.
    Written,
}

/// Writes notes that are missing. Called with each claim; there is rarely anything.
///
/// A note that the store has is found by a later call, and only then counts as written: this transaction may be rolled
/// back. If a note itself meets something that cannot be read, this transaction is lost, and the next one does without.
pub(crate) fn run(tx: &WriterTx<'_>) -> Result<()> {
    let damaged = tx.writer().damaged;
    for one in damaged.to_note() {
        let mut less = None;
        let noted = note(tx, &one, &mut less);
        match (&noted, less) {
            (Err(SqliteError::Damaged { .. }), Some(less)) => damaged.note_from(&one.row, less),
            (Ok(Noted::Done) | Err(SqliteError::Damaged { .. }), _) => damaged.noted(&one.row),
            (Ok(Noted::Written) | Err(_), _) => {}
        }
        noted?;
    }
    Ok(())
}

/// `less` is what the note can be taken from if something cannot be read.
fn note(tx: &Tx<'_>, one: &Unnoted, less: &mut Option<NoteFrom>) -> Result<Noted> {
    let Some((instance, report)) = whose(tx, one)? else {
        return Ok(Noted::Done);
    };
    let kept = blocked::kept(tx, &instance)?;
    if kept.is_some_and(|note| note.blocked.report == report) {
        return Ok(Noted::Done);
    }
    let mut what = BlockedInstance {
        instance_id: instance.clone(),
        execution_id: 1,
        orchestration_name: "unknown".to_owned(),
        report,
        attempts: 1,
    };
    if one.from == NoteFrom::Id {
        return written(blocked::note_by_id(tx, &what, NOTED_BY));
    }
    *less = Some(NoteFrom::Id);
    let Some(handler) = instances::handler(tx, &instance)? else {
        return Ok(Noted::Done);
    };
    what.execution_id = handler.execution_id;
    what.orchestration_name = handler.name;
    if one.from == NoteFrom::Row {
        return written(blocked::note_without_history(tx, &what, NOTED_BY));
    }
    *less = Some(NoteFrom::Row);
    written(blocked::note(tx, &instance, &what, NOTED_BY))
}

/// Whether an instance was there to be noted.
fn written(noted: Result<bool>) -> Result<Noted> {
    Ok(if noted? { Noted::Written } else { Noted::Done })
}

/// Which instance is blocked by this, and how; `None` if there is none any more.
fn whose(tx: &Tx<'_>, one: &Unnoted) -> Result<Option<(String, String)>> {
    let why = &one.why;
    Ok(match &one.row {
        DamagedRow::Instance(instance) => {
            let report = format!("its rows cannot be read: {why}; restore a backup");
            Some((instance.clone(), report))
        }
        DamagedRow::Activity(id) => worker_queue::call_of(tx, *id)?.map(|(instance, activity)| {
            let report = format!("activity {activity} cannot be read: {why}; restore a backup");
            (instance, report)
        }),
    })
}
