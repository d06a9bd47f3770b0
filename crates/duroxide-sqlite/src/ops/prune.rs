//! Deletes old executions. The current one, running ones and everything outside histories are never touched. Works in
//! steps of a bounded number of rows, each a transaction of its own, so that turns are not held up behind it: an
//! execution goes when its last events go.

use duroxide_core::provider::{InstanceFilter, PruneOptions, PruneResult};

use crate::error::Result;
use crate::ops::inspect::not_found;
use crate::ops::steps::{BULK_LIMIT, STEP_ROWS};
use crate::tables::{executions, heartbeats, history, instances, readable};
use crate::tx::{Tx, stored_ms};

/// How many instances one transaction of a bulk operation looks at.
pub(crate) const BULK_STEP: usize = 32;

/// What one step did.
pub(crate) struct Step {
    pub(crate) result: PruneResult,
    pub(crate) is_done: bool,
}

/// One step of pruning an instance.
pub(crate) fn step(tx: &Tx<'_>, instance: &str, options: &PruneOptions) -> Result<Step> {
    let mut left = STEP_ROWS;
    step_within(tx, instance, options, &mut left)
}

/// As [`step`], within what the transaction may still delete.
fn step_within(
    tx: &Tx<'_>,
    instance: &str,
    options: &PruneOptions,
    left: &mut usize,
) -> Result<Step> {
    let current = instances::current_execution(tx, instance)?.ok_or_else(|| not_found(instance))?;
    let mut result = PruneResult::default();
    let old = executions::prunable(
        tx,
        instance,
        current,
        options.keep_last.unwrap_or(0),
        options.completed_before.map(stored_ms),
        // Each one costs a row at least: more than that cannot go in this transaction.
        *left,
    )?;
    for execution_id in old {
        let deleted = history::delete_some(tx, instance, execution_id, left)?;
        result.events_deleted += as_u64(deleted);
        heartbeats::delete_some(tx, instance, &(execution_id..=execution_id), left)?;
        if *left == 0 {
            return Ok(Step {
                result,
                is_done: false,
            });
        }
        result.executions_deleted += as_u64(executions::delete(tx, instance, execution_id)?);
        *left -= 1;
        if *left == 0 {
            return Ok(Step {
                result,
                is_done: false,
            });
        }
    }
    result.instances_processed = 1;
    Ok(Step {
        result,
        is_done: true,
    })
}

/// Instances of any status that match the filter.
pub(crate) fn bulk_instances(tx: &Tx<'_>, filter: &InstanceFilter) -> Result<Vec<String>> {
    let limit = filter.limit.unwrap_or(BULK_LIMIT);
    let before = filter.completed_before.map(stored_ms);
    let Some(ids) = &filter.instance_ids else {
        return instances::list_completed_before(tx, before, limit);
    };
    let mut chosen = Vec::new();
    for id in ids {
        if chosen.len() == usize::try_from(limit).unwrap_or(usize::MAX) {
            break;
        }
        // One that cannot be read is left alone.
        let matches = instances::matches_completed_before(tx, id, before);
        if readable::unless_damaged(matches)?.unwrap_or(false) {
            chosen.push(id.clone());
        }
    }
    Ok(chosen)
}

/// Prunes the last of these instances and takes them off the list, as many as one step can; one that was deleted
/// meanwhile is skipped. Returns those that are left.
pub(crate) fn bulk_step(
    tx: &Tx<'_>,
    mut ids: Vec<String>,
    options: &PruneOptions,
) -> Result<(Vec<String>, PruneResult)> {
    let mut total = PruneResult::default();
    let mut left = STEP_ROWS;
    for _ in 0..BULK_STEP {
        let Some(id) = ids.last() else {
            break;
        };
        if instances::current_execution(tx, id)?.is_some() {
            let step = step_within(tx, id, options, &mut left)?;
            add(&mut total, &step.result);
            if !step.is_done {
                break;
            }
        }
        ids.pop();
    }
    Ok((ids, total))
}

pub(crate) fn add(total: &mut PruneResult, one: &PruneResult) {
    total.instances_processed += one.instances_processed;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::database::open_memory;
    use crate::connection::statements::Statements;

    #[test]
    fn the_heartbeats_of_an_old_execution_go_in_bounded_steps() {
        let conn = open_memory().unwrap();
        conn.execute_batch(
            "INSERT INTO instances (instance_id, orchestration_name, current_execution_id, created_at, updated_at)
                 VALUES ('i', 'o', 2, 0, 0);
             INSERT INTO executions (instance_id, execution_id, status, started_at)
                 VALUES ('i', 1, 'ContinuedAsNew', 0), ('i', 2, 'Running', 0);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
                 INSERT INTO heartbeats SELECT 'i', 1, x, '{}', 0 FROM n UNION ALL SELECT 'i', 2, 1, '{}', 0;",
        )
        .unwrap();
        let statements = Statements::new(&conn);
        let options = PruneOptions {
            keep_last: Some(1),
            ..PruneOptions::default()
        };
        let mut is_done = false;
        while !is_done {
            let before = conn.total_changes();
            is_done = step(&Tx::new(&statements, 1), "i", &options)
                .unwrap()
                .is_done;
            let changes = conn.total_changes() - before;
            assert!(changes <= STEP_ROWS as u64 * 11 / 10, "{changes} rows");
        }
        let left = |table| -> i64 {
            let sql = format!("SELECT COUNT(*) FROM {table}");
            conn.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((left("heartbeats"), left("executions")), (1, 1));
    }
}
