//! Children of a deleted instance that have not begun: they would come to life without a parent. In: the life that was
//! deleted. Out: the starts that it sent go, some in each transaction. Until then claims leave such a child alone
//! (`deletions::parent_of`), and a first turn that was under way cannot commit any more. A start that cannot be read
//! stays, as in `going.rs`.

use duroxide_core::provider::Incarnation;

use super::going::{Gone, beside, noting, readable};
use crate::damage::Damage;
use crate::error::{Result, SqliteError};
use crate::tables::budget::cost;
use crate::tables::orchestrator_queue::SentStart;
use crate::tables::{instance_locks, instances, orchestrator_queue, rests};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// What it costs a transaction to delete a start, beside its row: what the child holds ends, and another message may
/// have to stand for it.
const START_ROWS: usize = 2;

/// Deletes starts that a life of an instance sent, as many as are left to the transaction.
pub(super) fn delete(tx: &mut WriterTx<'_>, parent: Incarnation, left: &mut usize) -> Result<Gone> {
    let damaged = tx.writer().damaged;
    let is_passed_over = |id| damaged.contains_message(id);
    let going = orchestrator_queue::ids_sent_by(tx, parent, *left, is_passed_over)?;
    let read = |id| {
        let start = orchestrator_queue::sent_start(tx, id)?;
        let payload_bytes = start.payload_bytes;
        Ok((start, payload_bytes))
    };
    let spend = |left: &mut usize, payload_bytes| {
        *left = left.saturating_sub(START_ROWS + cost(payload_bytes));
    };
    let note = |ids: &[i64], why: &str| leave_unreadable(tx, ids, why);
    let starts = readable(going.ids, left, read, spend, note)?;
    for (at, start) in starts.iter().enumerate() {
        let ended = end(tx, start);
        let note = |starts: &[SentStart], why: &str| leave(tx, starts, why);
        noting(ended, beside(&starts, at), note)?;
    }
    Ok(Gone {
        rows: starts.len(),
        is_all: *left > 0 && !going.leaves_some,
    })
}

fn end(tx: &mut Tx<'_>, start: &SentStart) -> Result<()> {
    let child = &start.child;
    if instances::incarnation(tx, child)?.is_none() {
        instance_locks::revoke(tx, child)?;
        rests::end(tx, child)?;
    }
    orchestrator_queue::delete(tx, &[start.id])?;
    // It may have stood for its instance: one that ran before under this id, or one that others sent messages to.
    if orchestrator_queue::choose_head(tx, child)? {
        let now = tx.now;
        tx.effects.turn_claimable_at(now);
    }
    Ok(())
}

/// Remembers starts that cannot be read, and their children, at which no claim looks again.
fn leave_unreadable(tx: &WriterTx<'_>, ids: &[i64], why: &str) {
    let damaged = tx.writer().damaged;
    damaged.leave_messages(ids, why);
    // If the index cannot be read either, claims find out about each child.
    for child in orchestrator_queue::children_of(tx, ids).unwrap_or_default() {
        match instances::incarnation(tx, &child) {
            Ok(None) => damaged.leave_unborn(&child, why),
            Ok(Some(_)) | Err(_) => damaged.add(&child, Damage::Messages(why.to_owned())),
        }
    }
}

/// The same of starts that can be read, and not deleted.
fn leave(tx: &WriterTx<'_>, starts: &[SentStart], why: &str) {
    let damaged = tx.writer().damaged;
    let ids: Vec<i64> = starts.iter().map(|start| start.id).collect();
    damaged.leave_messages(&ids, why);
    for start in starts {
        if let Ok(None) = instances::incarnation(tx, &start.child) {
            damaged.leave_unborn(&start.child, why);
        }
    }
}

/// Ends the leases of children that were claimed for their first turn, and whose starts are still to go. A start of
/// anybody that cannot be read is remembered, and passed over by the next transaction.
pub(super) fn revoke_leases(tx: &WriterTx<'_>, parent: Incarnation) -> Result<()> {
    let damaged = tx.writer().damaged;
    let mut met = Ok(());
    let mut revoked = Vec::new();
    for child in orchestrator_queue::leased_with_start(tx)? {
        if damaged.has_unreadable_messages(&child) {
            continue;
        }
        match orchestrator_queue::has_sent_start(tx, parent, &child) {
            Ok(true) => revoked.push(child),
            Ok(false) => {}
            Err(SqliteError::Damaged { detail }) => {
                damaged.add(&child, Damage::Messages(detail.clone()));
                met = Err(SqliteError::Damaged { detail });
            }
            Err(error) => return Err(error),
        }
    }
    met?;
    for child in &revoked {
        if instances::incarnation(tx, child)?.is_none() {
            instance_locks::revoke(tx, child)?;
        }
    }
    Ok(())
}
