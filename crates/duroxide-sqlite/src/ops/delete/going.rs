//! Messages and activities of a deleted instance that are to go. In: an instance, and up to which number. Out: fewer
//! rows, as many as the transaction may still delete.
//!
//! Rows are found by an index and read one by one. A transaction that meets one that cannot be read is lost; before it
//! fails it remembers that row and every other such row among those it would have deleted, and the next one passes over
//! them. They stay, and the note of the deletion with them, so that no process ever hands them out.

use crate::error::{Result, SqliteError};
use crate::tables::budget::spend;
use crate::tables::{orchestrator_queue, worker_queue};
use crate::writer_tx::WriterTx;

/// How many rows are passed over if one of them cannot be deleted: to delete a row SQLite may have to read the pages
/// beside it, so the rows next to it share its fate. About as many as fit on a page.
const PASSED_OVER: usize = 100;

/// What went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gone {
    pub(super) rows: usize,
    /// Whether nothing of that kind is left.
    pub(super) is_all: bool,
}

/// Deletes messages of an instance up to a number, that one last: while it is there, no new message gets a number
/// below it.
pub(super) fn messages(
    tx: &WriterTx<'_>,
    instance: &str,
    last: i64,
    left: &mut usize,
) -> Result<Gone> {
    let damaged = tx.writer().damaged;
    let note = |ids: &[i64], why: &str| damaged.leave_messages(ids, why);
    let is_passed_over = |id| damaged.contains_message(id);
    let going = orchestrator_queue::ids_below(tx, instance, last, *left, is_passed_over)?;
    let read = |id| Ok((id, orchestrator_queue::payload_bytes(tx, id)?));
    let ids = readable(going.ids, left, read, spend, note)?;
    for (at, id) in ids.iter().enumerate() {
        let deleted = orchestrator_queue::delete(tx, &[*id]);
        noting(deleted, beside(&ids, at), note)?;
    }
    let mut gone = Gone {
        rows: ids.len(),
        is_all: false,
    };
    if *left > 0 && !going.leaves_some && !is_passed_over(last) {
        let was_there = noting(
            orchestrator_queue::delete_of(tx, instance, last),
            &[last],
            note,
        )?;
        *left -= usize::from(was_there);
        gone.rows += usize::from(was_there);
        gone.is_all = true;
    }
    Ok(gone)
}

/// Deletes activities of an instance up to a number.
pub(super) fn activities(
    tx: &WriterTx<'_>,
    instance: &str,
    last: i64,
    left: &mut usize,
) -> Result<Gone> {
    let damaged = tx.writer().damaged;
    let note = |ids: &[i64], why: &str| damaged.leave_work(ids, why);
    let is_passed_over = |id| damaged.contains_work(id);
    let going = worker_queue::ids_up_to(tx, instance, last, *left, is_passed_over)?;
    let read = |id| Ok((id, worker_queue::payload_bytes(tx, id)?));
    let ids = readable(going.ids, left, read, spend, note)?;
    for (at, id) in ids.iter().enumerate() {
        noting(worker_queue::delete(tx, *id), beside(&ids, at), note)?;
    }
    Ok(Gone {
        rows: ids.len(),
        is_all: *left > 0 && !going.leaves_some,
    })
}

/// Up to which number activities of an instance are to go.
pub(super) fn last_activity(tx: &WriterTx<'_>, instance: &str) -> Result<Option<i64>> {
    if !worker_queue::any_of(tx, instance)? {
        return Ok(None);
    }
    let damaged = tx.writer().damaged;
    if damaged.has_last_row() {
        // All of them, then: no new life of the id begins before the deletion is through.
        return Ok(Some(i64::MAX));
    }
    let last = worker_queue::last_id(tx);
    if let Err(SqliteError::Damaged { .. }) = &last {
        damaged.add_last_row();
    }
    last
}

/// Deletes the activities of an instance that workers hold, who find out with the next renewal; returns how many. They
/// are found among all that are held: those are few, whatever waits for this instance. One of any instance that cannot
/// be read is remembered, and passed over by the next transaction.
pub(super) fn held_activities(tx: &WriterTx<'_>, instance: &str) -> Result<usize> {
    if !worker_queue::any_of(tx, instance)? {
        return Ok(0);
    }
    let damaged = tx.writer().damaged;
    let mut met = Ok(());
    let mut held = Vec::new();
    for id in worker_queue::ids_of_held(tx, |id| damaged.contains_work(id))? {
        match worker_queue::instance_of(tx, id) {
            Ok(whose) if whose.as_deref() == Some(instance) => held.push(id),
            Ok(_) => {}
            Err(SqliteError::Damaged { detail }) => {
                damaged.add_work(id, &detail);
                met = Err(SqliteError::Damaged { detail });
            }
            Err(error) => return Err(error),
        }
    }
    met?;
    for id in &held {
        let deleted = worker_queue::delete(tx, *id);
        noting(deleted, &[*id], |ids, why| damaged.leave_work(ids, why))?;
    }
    Ok(held.len())
}

/// Reads rows with the lengths of their payloads, in the order of their pages, until nothing is left to the
/// transaction. Goes on behind one that cannot be read, to find the others too, and fails then.
pub(super) fn readable<T>(
    mut ids: Vec<i64>,
    left: &mut usize,
    read: impl Fn(i64) -> Result<(T, i64)>,
    spend: impl Fn(&mut usize, i64),
    note: impl Fn(&[i64], &str),
) -> Result<Vec<T>> {
    ids.sort_unstable();
    let mut found = Vec::with_capacity(ids.len());
    let mut unreadable = Vec::new();
    let mut met = Ok(());
    for id in ids {
        if *left == 0 {
            break;
        }
        match read(id) {
            Ok((row, payload_bytes)) => {
                spend(left, payload_bytes);
                found.push(row);
            }
            Err(error @ SqliteError::Damaged { .. }) => {
                unreadable.push(id);
                met = Err(error);
            }
            Err(error) => return Err(error),
        }
    }
    noting(met, &unreadable, note)?;
    Ok(found)
}

/// The row at a place, and those that are passed over with it.
pub(super) fn beside<T>(rows: &[T], at: usize) -> &[T] {
    &rows[at..rows.len().min(at + PASSED_OVER)]
}

/// Remembers these rows if what was done met a damaged page.
pub(super) fn noting<T, R>(done: Result<R>, rows: &[T], note: impl Fn(&[T], &str)) -> Result<R> {
    if let Err(SqliteError::Damaged { detail }) = &done {
        note(rows, detail);
    }
    done
}
