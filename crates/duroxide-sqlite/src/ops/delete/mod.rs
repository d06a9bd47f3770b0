//! Deletes instances. All checks happen inside the transaction that deletes. Removing the lease makes a commit that
//! is under way fail, so that a deleted instance cannot come back.
//!
//! One transaction deletes all that makes the instances visible, the leases of what they gave others to do, and what
//! else fits: heartbeats, messages, activities, starts of children that have not begun, key-values, executions and
//! events have one budget, in which a large payload counts for more than one row. The rest goes afterwards
//! (`sweep.rs`), a bounded number of rows at a time, so that turns are not held up behind it; if the process dies
//! meanwhile, the next one that opens the store goes on with it, and so does a claim that meets a new instance of the
//! id, an activity that is left, or a child that is not to begin (`unborn.rs`). None of what is left is shown or handed
//! out. Messages that came after the deletion are for the new instance and stay. A message or an activity that cannot
//! be read stays too, and is left of the instance for good (`going.rs`).

mod going;
mod sweep;
mod unborn;

pub(crate) use sweep::{Still, Swept, sweep, sweep_activities, sweep_deleted};

use std::collections::HashSet;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{DeleteInstanceResult, InstanceFilter};

use crate::error::Result;
use crate::ops::inspect::{descend, descend_up_to};
use crate::ops::steps::{INSTANCE_ROWS, STEP_INSTANCES, STEP_ROWS};
use crate::tables::deletions::{self, Left};
use crate::tables::{
    executions, heartbeats, instance_locks, instances, orchestrator_queue, pauses, readable, rests,
};
use crate::tx::{InstanceChange, Tx, stored_ms};
use crate::writer_tx::WriterTx;

/// What one transaction deleted.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    pub(crate) counts: DeleteInstanceResult,
    /// Instances of which something is left, for [`sweep_deleted`].
    pub(crate) left_of: Vec<String>,
}

impl Deleted {
    pub(crate) fn add(&mut self, other: Self) {
        add(&mut self.counts, &other.counts);
        self.left_of.extend(other.left_of);
    }
}

/// Deletes these instances together or not at all.
pub(crate) fn atomic(tx: &mut WriterTx<'_>, ids: &[String], force: bool) -> Result<Deleted> {
    let listed: HashSet<&str> = ids.iter().map(String::as_str).collect();
    for id in ids {
        if !force && instances::is_live(tx, id)? {
            return Err(Refusal::StillRunning {
                instance: id.clone(),
            }
            .into());
        }
        for child in instances::children(tx, id)? {
            if !listed.contains(child.as_str()) {
                return Err(Refusal::ChildLeftBehind {
                    parent: id.clone(),
                    child,
                }
                .into());
            }
        }
    }
    let mut left = STEP_ROWS;
    remove(tx, ids, &mut left)
}

/// Roots that match the filter, oldest first; those of a tree in which something runs included.
pub(crate) fn bulk_roots(tx: &Tx<'_>, filter: &InstanceFilter) -> Result<Vec<String>> {
    let completed_before = filter.completed_before.map(stored_ms);
    let Some(ids) = &filter.instance_ids else {
        return instances::finished_roots(tx, completed_before);
    };
    let mut roots = Vec::new();
    for id in ids {
        // One that cannot be read is left alone.
        let is_one = instances::is_finished_root(tx, id, completed_before);
        if readable::unless_damaged(is_one)?.unwrap_or(false) {
            roots.push(id.clone());
        }
    }
    Ok(roots)
}

/// What one step of a bulk deletion did.
#[derive(Debug, Default)]
pub(crate) struct BulkStep {
    /// How many of the roots are done with, deleted or left alone.
    pub(crate) looked_at: usize,
    /// How many of them went.
    pub(crate) deleted: usize,
    pub(crate) gone: Deleted,
    /// The first root that was not looked at has a family too large for one transaction: it goes by
    /// [`delete_family`](super::delete_family).
    pub(crate) is_too_large: bool,
}

/// Deletes some of these roots with their trees, at most `limit` of them, until the rows of one transaction are used
/// up. A tree in which anything is live is left alone, and so is a root that came back to life since it was chosen, or
/// is another one by now that ended later than asked for.
pub(crate) fn bulk_step(
    tx: &mut WriterTx<'_>,
    roots: &[String],
    ended_before: Option<i64>,
    limit: usize,
) -> Result<BulkStep> {
    let mut done = BulkStep::default();
    let mut left = STEP_ROWS;
    for root in roots {
        if done.deleted == limit || left == 0 {
            break;
        }
        if !instances::is_finished_root(tx, root, ended_before)? {
            done.looked_at += 1;
            continue;
        }
        let Some(tree) = descend_up_to(tx, root, STEP_INSTANCES)? else {
            done.is_too_large = true;
            break;
        };
        done.looked_at += 1;
        if any_live(tx, &tree)? {
            continue;
        }
        done.gone.add(remove(tx, &tree, &mut left)?);
        done.deleted += 1;
    }
    Ok(done)
}

/// Deletes these instances and as much of what they hold as fits; the caller has made sure that they can go.
pub(super) fn some(tx: &mut WriterTx<'_>, ids: &[String]) -> Result<Deleted> {
    let mut left = STEP_ROWS;
    remove(tx, ids, &mut left)
}

/// Deletes an instance that has ended with its tree; `false` and nothing, if anything of the tree is live or its parent
/// is there.
pub(crate) fn finished_tree(tx: &mut WriterTx<'_>, root: &str) -> Result<bool> {
    if !instances::is_finished_root(tx, root, None)? {
        return Ok(false);
    }
    let tree = descend(tx, root)?;
    if any_live(tx, &tree)? {
        return Ok(false);
    }
    let mut left = STEP_ROWS;
    remove(tx, &tree, &mut left)?;
    Ok(true)
}

fn any_live(tx: &Tx<'_>, ids: &[String]) -> Result<bool> {
    for id in ids {
        if instances::is_live(tx, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes these instances; `left` is how many rows the transaction may still delete. What makes an instance visible
/// goes in any case, and so do the leases of its activities and of first turns of its children; of all else that it
/// holds or gave others to do as much as is left.
fn remove(tx: &mut WriterTx<'_>, ids: &[String], left: &mut usize) -> Result<Deleted> {
    let mut total = Deleted::default();
    for id in ids {
        deletions::end_restore(tx, id)?;
        instance_locks::revoke(tx, id)?;
        rests::end(tx, id)?;
        pauses::remove(tx, id)?;
        *left = left.saturating_sub(INSTANCE_ROWS);
        let current = match instances::current_execution(tx, id)? {
            Some(current) => current_execution(tx, id, current, left)?,
            None => 0,
        };
        let all = Left {
            queued_to: orchestrator_queue::last_id(tx, id)?,
            work_to: going::last_activity(tx, id)?,
            life: instances::incarnation(tx, id)?,
        };
        let mut gone = sweep::some(tx, id, all, left)?;
        if *left == 0 || gone.still != Left::default() {
            if let Some(life) = gone.still.life {
                unborn::revoke_leases(tx, life)?;
            }
            let held = going::held_activities(tx, id)?;
            gone.counts.queue_messages_deleted += as_u64(held);
            deletions::add(tx, id, gone.still)?;
            tx.writer().unswept.add(id);
            total.left_of.push(id.clone());
        }
        gone.counts.executions_deleted += as_u64(current);
        gone.counts.instances_deleted = u64::from(instances::delete(tx, id)?);
        add(&mut total.counts, &gone.counts);
        tx.writer().memory.forget(id);
        tx.effects.instance_changed(id, InstanceChange::Unknown);
    }
    Ok(total)
}

/// Nothing counts the current execution as running any more. Returns whether it is gone, as a number.
fn current_execution(tx: &Tx<'_>, id: &str, current: u64, left: &mut usize) -> Result<usize> {
    heartbeats::delete_some(tx, id, &(current..=current), left)?;
    if *left > 0 {
        return executions::delete(tx, id, current);
    }
    executions::mark_over(tx, id, current)?;
    Ok(0)
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

#[cfg(test)]
mod given_tests;
#[cfg(test)]
mod tests;
