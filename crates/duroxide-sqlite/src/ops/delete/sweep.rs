//! What is left of a deleted instance goes, some in each transaction. In: an id, and how many rows may go. Out: what
//! went. Never a row of the next instance of the id.

use duroxide_core::provider::DeleteInstanceResult;

use super::{as_u64, going, unborn};
use crate::error::Result;
use crate::tables::deletions::{self, Left};
use crate::tables::{executions, heartbeats, history, kv};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// What one sweep deleted.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) rows: usize,
    pub(crate) counts: DeleteInstanceResult,
    pub(crate) still: Still,
}

/// What a sweep leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Still {
    #[default]
    Nothing,
    /// Rows for the next sweep, perhaps.
    Some,
    /// Only rows that cannot be read, or not deleted beside such a row: they stay until a backup is restored.
    Unreadable,
}

impl Swept {
    /// Whether the next sweep finds less.
    pub(crate) fn comes_further(&self) -> bool {
        self.rows > 0 || self.still != Still::Unreadable
    }
}

/// Deletes some of what is left of an instance that was deleted before.
///
/// Looks inside the transaction whether anything is left: the caller read that before, and by now another sweep may be
/// through, and the rows under this id may belong to the next instance of the id or to one that was restored.
///
/// Passes over what cannot be read. A transaction that meets it for the first time fails, and the next one comes
/// further.
pub(crate) fn sweep(tx: &mut WriterTx<'_>, instance: &str, rows_max: usize) -> Result<Swept> {
    let Some(all) = deletions::of(tx, instance)? else {
        return Ok(Swept::default());
    };
    let damaged = tx.writer().damaged;
    if damaged.contains_leftover(instance) {
        return Ok(Swept {
            still: Still::Unreadable,
            ..Swept::default()
        });
    }
    damaged.remembering(
        || sweep_readable(tx, instance, all, rows_max),
        |why| damaged.add_leftover(instance, why),
    )
}

/// As [`sweep`], and nothing if the id is being restored by now: what was left of the deletion is gone then.
pub(crate) fn sweep_deleted(
    tx: &mut WriterTx<'_>,
    instance: &str,
    rows_max: usize,
) -> Result<Swept> {
    if deletions::of(tx, instance)?.is_some_and(|left| left.is_restore()) {
        return Ok(Swept::default());
    }
    sweep(tx, instance, rows_max)
}

fn sweep_readable(
    tx: &mut WriterTx<'_>,
    instance: &str,
    all: Left,
    rows_max: usize,
) -> Result<Swept> {
    let mut left = rows_max;
    let gone = some(tx, instance, all, &mut left)?;
    let still = if left == 0 {
        Still::Some
    } else if gone.still == Left::default() {
        Still::Nothing
    } else {
        Still::Unreadable
    };
    if still == Still::Nothing {
        deletions::remove(tx, instance)?;
        // A new instance of this id may wait for it.
        let now = tx.now;
        tx.effects.turn_claimable_at(now);
    } else if gone.still != all {
        deletions::set(tx, instance, gone.still)?;
    }
    Ok(Swept {
        rows: rows_max - left,
        counts: gone.counts,
        still,
    })
}

/// Deletes activities that are left of a deleted instance, as many as are left to the transaction.
pub(crate) fn sweep_activities(tx: &WriterTx<'_>, instance: &str, left: &mut usize) -> Result<()> {
    let Some(all) = deletions::of(tx, instance)? else {
        return Ok(());
    };
    let Some(last) = all.work_to else {
        return Ok(());
    };
    if going::activities(tx, instance, last, left)?.is_all {
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

/// Deletes of an instance what is left to the transaction. If the transaction may delete more, nothing is left of the
/// instance but what `still` names, and that cannot be read.
pub(super) fn some(
    tx: &mut WriterTx<'_>,
    instance: &str,
    all: Left,
    left: &mut usize,
) -> Result<Gone> {
    let mut still = Left::default();
    let mut queued = 0;
    // First: what a restore has here is its token, which any sweep takes away.
    if let Some(last) = all.queued_to {
        let messages = going::messages(tx, instance, last, left)?;
        still.queued_to = all.queued_to.filter(|_| !messages.is_all);
        queued += messages.rows;
    }
    if let Some(life) = all.life {
        let starts = unborn::delete(tx, life, left)?;
        still.life = all.life.filter(|_| !starts.is_all);
        queued += starts.rows;
    }
    if let Some(last) = all.work_to {
        let activities = going::activities(tx, instance, last, left)?;
        still.work_to = all.work_to.filter(|_| !activities.is_all);
        queued += activities.rows;
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
