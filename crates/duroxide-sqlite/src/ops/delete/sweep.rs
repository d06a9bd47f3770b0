//! What is left of a deleted instance goes, some in each transaction. In: an id, and how many rows may go. Out: what
//! went. Never a row of the next instance of the id.

use duroxide_core::provider::DeleteInstanceResult;

use super::{as_u64, unborn};
use crate::error::Result;
use crate::tables::deletions::{self, Left};
use crate::tables::{executions, heartbeats, history, kv, orchestrator_queue, worker_queue};
use crate::tx::Tx;

/// What one sweep deleted.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) rows: usize,
    pub(crate) counts: DeleteInstanceResult,
}

/// Deletes some of what is left of an instance that was deleted before. Less than is allowed is the last of it.
///
/// Looks inside the transaction whether anything is left: the caller read that before, and by now another sweep may be
/// through, and the rows under this id may belong to the next instance of the id or to one that was restored.
pub(crate) fn sweep(tx: &mut Tx<'_>, instance: &str, rows_max: usize) -> Result<Swept> {
    let Some(all) = deletions::of(tx, instance)? else {
        return Ok(Swept::default());
    };
    let mut left = rows_max;
    let gone = some(tx, instance, all, &mut left)?;
    if left > 0 {
        deletions::remove(tx, instance)?;
        // A new instance of this id may wait for it.
        let now = tx.now;
        tx.effects.turn_claimable_at(now);
    } else {
        deletions::set(tx, instance, gone.still)?;
    }
    Ok(Swept {
        rows: rows_max - left,
        counts: gone.counts,
    })
}

/// Deletes some of what is left of an instance, if anything is; returns whether nothing is then.
pub(crate) fn sweep_left(tx: &mut Tx<'_>, instance: &str, rows_max: usize) -> Result<bool> {
    sweep(tx, instance, rows_max)?;
    Ok(!deletions::contains(tx, instance)?)
}

/// Deletes activities that are left of a deleted instance, as many as are left to the transaction.
pub(crate) fn sweep_activities(tx: &Tx<'_>, instance: &str, left: &mut usize) -> Result<()> {
    let Some(all) = deletions::of(tx, instance)? else {
        return Ok(());
    };
    let Some(last) = all.work_to else {
        return Ok(());
    };
    let (_, is_all) = worker_queue::delete_up_to(tx, instance, last, left)?;
    if is_all {
        let still = Left {
            work_to: None,
            ..all
        };
        deletions::set(tx, instance, still)?;
    }
    Ok(())
}

/// What went of an instance, and what may still be there.
pub(super) struct Gone {
    pub(super) counts: DeleteInstanceResult,
    pub(super) still: Left,
}

/// Deletes of an instance what is left to the transaction. Nothing is left of the instance if the transaction may
/// delete more.
pub(super) fn some(tx: &mut Tx<'_>, instance: &str, all: Left, left: &mut usize) -> Result<Gone> {
    let mut still = Left::default();
    let mut queued = 0;
    // First: what a restore has here is its token, which any sweep takes away.
    if let Some(last) = all.queued_to {
        let (messages, is_all) = orchestrator_queue::delete_up_to(tx, instance, last, left)?;
        still.queued_to = all.queued_to.filter(|_| !is_all);
        queued += messages;
    }
    if let Some(life) = all.life {
        let (starts, is_all) = unborn::delete(tx, life, left)?;
        still.life = all.life.filter(|_| !is_all);
        queued += starts;
    }
    if let Some(last) = all.work_to {
        let (activities, is_all) = worker_queue::delete_up_to(tx, instance, last, left)?;
        still.work_to = all.work_to.filter(|_| !is_all);
        queued += activities;
    }
    kv::delete_instance(tx, instance, left)?;
    let mut counts = records(tx, instance, left)?;
    counts.queue_messages_deleted = as_u64(queued);
    Ok(Gone { counts, still })
}

/// Deletes executions and events of an instance, as many as are left to the transaction.
fn records(tx: &Tx<'_>, instance: &str, left: &mut usize) -> Result<DeleteInstanceResult> {
    heartbeats::delete_some(tx, instance, &heartbeats::ALL, left)?;
    let executions = executions::delete_instance(tx, instance, left)?;
    let events = history::delete_instance(tx, instance, left)?;
    Ok(DeleteInstanceResult {
        executions_deleted: as_u64(executions),
        events_deleted: as_u64(events),
        ..DeleteInstanceResult::default()
    })
}
