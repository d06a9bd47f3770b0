//! Deletes old executions. The current one, running ones and everything outside histories are never touched.

use duroxide_core::provider::{InstanceFilter, PruneOptions, PruneResult};

use crate::ops::delete::BULK_LIMIT;
use crate::ops::inspect::not_found;
use crate::tables::{executions, history, instances};
use crate::tx::{Result, Tx, stored_ms};

pub(crate) fn run(tx: &Tx<'_>, instance: &str, options: &PruneOptions) -> Result<PruneResult> {
    let current = instances::current_execution(tx, instance)?.ok_or_else(|| not_found(instance))?;
    let mut result = PruneResult {
        instances_processed: 1,
        ..PruneResult::default()
    };
    let old = executions::prunable(
        tx,
        instance,
        current,
        options.keep_last.unwrap_or(0),
        options.completed_before.map(stored_ms),
    )?;
    for execution_id in old {
        result.events_deleted += as_u64(history::delete_execution(tx, instance, execution_id)?);
        result.executions_deleted += as_u64(executions::delete(tx, instance, execution_id)?);
    }
    Ok(result)
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
        if instances::matches_completed_before(tx, id, before)? {
            chosen.push(id.clone());
        }
    }
    Ok(chosen)
}

/// Prunes these instances; one that was deleted meanwhile is skipped.
pub(crate) fn bulk_step(
    tx: &Tx<'_>,
    ids: &[String],
    options: &PruneOptions,
) -> Result<PruneResult> {
    let mut total = PruneResult::default();
    for id in ids {
        if instances::current_execution(tx, id)?.is_some() {
            add(&mut total, &run(tx, id, options)?);
        }
    }
    Ok(total)
}

pub(crate) fn add(total: &mut PruneResult, one: &PruneResult) {
    total.instances_processed += one.instances_processed;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
