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
        if instances::is_finished_root(tx, id, completed_before)? {
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
    pub(crate) counts: DeleteInstanceResult,
}

/// Deletes some of these roots with their trees, at most `limit` of them, until the rows of one transaction are used up. A
/// tree in which anything is live is left alone, and so is a root that came back to life since it was chosen.
pub(crate) fn bulk_step(tx: &mut WriterTx<'_>, roots: &[String], limit: usize) -> Result<BulkStep> {
    let mut done = BulkStep::default();
    let mut left = STEP_ROWS;
    for root in roots {
        if done.deleted == limit || left == 0 {
            break;
        }
        done.looked_at += 1;
        if !instances::is_finished_root(tx, root, None)? {
            continue;
        }
        let tree = descend(tx, root)?;
        if any_live(tx, &tree)? {
            continue;
        }
        add(&mut done.counts, &remove(tx, &tree, &mut left)?);
        done.deleted += 1;
    }
    Ok(done)
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

/// Deletes these instances; `left` is how many rows the transaction may still delete. What makes an instance visible goes
/// in any case, of its history as much as is left.
fn remove(tx: &mut WriterTx<'_>, ids: &[String], left: &mut usize) -> Result<DeleteInstanceResult> {
    let mut total = DeleteInstanceResult::default();
    for id in ids {
        let messages = unborn_children(tx, id)?
            + orchestrator_queue::delete_instance(tx, id)?
            + worker_queue::delete_instance(tx, id)?;
        instance_locks::revoke(tx, id)?;
        kv::delete_instance(tx, id)?;
        let executions = executions::delete_instance(tx, id)?;
        *left = left.saturating_sub(1 + messages + executions);
        let mut events = 0;
        if *left > 0 {
            events = history::delete_instance(tx, id, *left)?;
            *left -= events;
        }
        if *left == 0 {
            deletions::add(tx, id)?;
        }
        add(
            &mut total,
            &DeleteInstanceResult {
                events_deleted: as_u64(events),
                executions_deleted: as_u64(executions),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::LastShutdown;
    use crate::connection::database::open_memory;
    use crate::connection::statements::Statements;
    use crate::damage::DamagedRows;
    use crate::early::{CrashCaution, InFlight, RecentInstances};
    use crate::tx::Reading;
    use crate::watch::Watches;
    use crate::writer_tx::WriterState;

    #[test]
    fn one_step_of_a_bulk_deletion_deletes_a_bounded_number_of_rows() {
        let conn = open_memory().unwrap();
        conn.execute_batch(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300)
                 SELECT x FROM n;
             INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at)
                 SELECT 'i' || x, 'o', 0, 0 FROM n WHERE x <= 20;
             INSERT INTO executions (instance_id, execution_id, status, started_at, completed_at)
                 SELECT 'i' || x, 1, 'Completed', 0, 0 FROM n WHERE x <= 20;
             INSERT INTO history SELECT 'i' || a.x, 1, b.x, 'e', '{}', 0 FROM n AS a, n AS b WHERE a.x <= 20;",
        )
        .unwrap();
        let statements = Statements::new(&conn);
        let (watches, in_flight) = (Watches::default(), InFlight::default());
        let (recent, damaged) = (RecentInstances::default(), DamagedRows::default());
        let caution = CrashCaution::new(LastShutdown::Clean, 0);
        let state = WriterState {
            watches: &watches,
            in_flight: &in_flight,
            recent: &recent,
            caution: &caution,
            damaged: &damaged,
        };
        let all: Vec<String> = (1..=20).map(|n| format!("i{n}")).collect();
        let mut roots = all.as_slice();
        let mut events = 0;
        while !roots.is_empty() {
            let before = conn.total_changes();
            let mut tx = WriterTx::new(&statements, Reading { now: 1, ahead: 0 }, state);
            let done = bulk_step(&mut tx, roots, usize::MAX).unwrap();
            let changes = conn.total_changes() - before;
            assert!(changes <= STEP_ROWS as u64 * 11 / 10, "{changes} rows");
            roots = &roots[done.looked_at..];
            events += done.counts.events_deleted;
            while let Some(left) = deletions::next(&tx, None).unwrap() {
                events += as_u64(sweep(&mut tx, &left, STEP_ROWS).unwrap());
            }
        }
        assert_eq!(events, 20 * 300);
        assert_eq!(
            instances::list(&Tx::new(&statements, 1)).unwrap(),
            Vec::<String>::new()
        );
    }
}
