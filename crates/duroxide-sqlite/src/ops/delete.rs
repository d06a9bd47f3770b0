//! Deletes instances. All checks happen inside the transaction that deletes. Removing the lease makes a commit that
//! is under way fail, so that a deleted instance cannot come back.
//!
//! One transaction deletes all that makes the instances visible, and short histories. Long ones go afterwards, a
//! bounded number of rows at a time, so that turns are not held up behind them; if the process dies meanwhile, the next
//! one that opens the store goes on with it, and so does a claim that meets a new instance of the id.

use std::collections::HashSet;

use duroxide_core::provider::{DeleteInstanceResult, InstanceFilter};

use crate::error::{Result, SqliteError};
use crate::ops::inspect::descend;
use crate::ops::steps::STEP_ROWS;
use crate::tables::{
    deletions, executions, history, instance_locks, instances, kv, orchestrator_queue, worker_queue,
};
use crate::tx::{InstanceChange, Tx, stored_ms};
use crate::writer_tx::WriterTx;

/// Deletes these instances together or not at all.
pub(crate) fn atomic(
    tx: &mut WriterTx<'_>,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    let listed: HashSet<&str> = ids.iter().map(String::as_str).collect();
    for id in ids {
        if !force && instances::is_live(tx, id)? {
            return Err(SqliteError::StillRunning {
                instance: id.clone(),
            });
        }
        for child in instances::children(tx, id)? {
            if !listed.contains(child.as_str()) {
                return Err(SqliteError::ChildLeftBehind {
                    parent: id.clone(),
                    child,
                });
            }
        }
    }
    remove(tx, ids)
}

/// Roots that match the filter, oldest first; those of a tree in which something runs included.
pub(crate) fn bulk_roots(tx: &Tx<'_>, filter: &InstanceFilter) -> Result<Vec<String>> {
    let completed_before = filter.completed_before.map(stored_ms);
    let Some(ids) = &filter.instance_ids else {
        return instances::finished_roots(tx, completed_before);
    };
    let mut roots = Vec::new();
    for id in ids {
        if instances::is_finished_root(tx, id, completed_before)? {
            roots.push(id.clone());
        }
    }
    Ok(roots)
}

/// Deletes some of these roots with their trees, at most `limit` of them. A tree in which anything is live is left
/// alone, and so is a root that came back to life since it was chosen. Returns how many roots went, and the counts.
pub(crate) fn bulk_step(
    tx: &mut WriterTx<'_>,
    roots: &[String],
    limit: usize,
) -> Result<(usize, DeleteInstanceResult)> {
    let mut deleted = 0;
    let mut total = DeleteInstanceResult::default();
    for root in roots {
        if deleted == limit {
            break;
        }
        if !instances::is_finished_root(tx, root, None)? {
            continue;
        }
        let tree = descend(tx, root)?;
        if any_live(tx, &tree)? {
            continue;
        }
        add(&mut total, &remove(tx, &tree)?);
        deleted += 1;
    }
    Ok((deleted, total))
}

fn any_live(tx: &Tx<'_>, ids: &[String]) -> Result<bool> {
    for id in ids {
        if instances::is_live(tx, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes some of the history of an instance that was deleted before; returns how many events went. Fewer than allowed
/// are the last ones.
pub(crate) fn sweep(tx: &mut Tx<'_>, instance: &str, rows_max: usize) -> Result<usize> {
    let deleted = history::delete_instance(tx, instance, rows_max)?;
    if deleted < rows_max {
        deletions::remove(tx, instance)?;
        // A new instance of this id may wait for it.
        let now = tx.now;
        tx.effects.turn_claimable_at(now);
    }
    Ok(deleted)
}

fn remove(tx: &mut WriterTx<'_>, ids: &[String]) -> Result<DeleteInstanceResult> {
    let mut total = DeleteInstanceResult::default();
    let mut left = STEP_ROWS;
    for id in ids {
        let messages = unborn_children(tx, id)?
            + orchestrator_queue::delete_instance(tx, id)?
            + worker_queue::delete_instance(tx, id)?;
        instance_locks::revoke(tx, id)?;
        kv::delete_instance(tx, id)?;
        let events = history::delete_instance(tx, id, left)?;
        left -= events;
        if left == 0 {
            deletions::add(tx, id)?;
        }
        add(
            &mut total,
            &DeleteInstanceResult {
                events_deleted: as_u64(events),
                executions_deleted: as_u64(executions::delete_instance(tx, id)?),
                queue_messages_deleted: as_u64(messages),
                instances_deleted: u64::from(instances::delete(tx, id)?),
            },
        );
        tx.writer().recent.forget(id);
        tx.effects.instance_changed(id, InstanceChange::Unknown);
    }
    Ok(total)
}

/// Deletes the starts of children that have not begun yet: they would come to life without a parent. A first turn of
/// one that is under way cannot commit any more. Returns how many starts went.
fn unborn_children(tx: &Tx<'_>, instance: &str) -> Result<usize> {
    let Some(life) = instances::incarnation(tx, instance)? else {
        return Ok(0);
    };
    for child in orchestrator_queue::unborn_children(tx, life)? {
        if instances::incarnation(tx, &child)?.is_none() {
            instance_locks::revoke(tx, &child)?;
        }
    }
    orchestrator_queue::delete_sent_by(tx, life)
}

pub(crate) fn add(total: &mut DeleteInstanceResult, one: &DeleteInstanceResult) {
    total.instances_deleted += one.instances_deleted;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
    total.queue_messages_deleted += one.queue_messages_deleted;
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
