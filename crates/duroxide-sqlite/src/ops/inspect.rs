//! What operators look at: instances, executions, totals.

use std::collections::HashSet;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{
    ExecutionInfo, InstanceInfo, InstanceTree, QueueDepths, SystemMetrics,
};

use crate::error::{Result, SqliteError};
use crate::tables::{
    deletions, executions, history, instances, orchestrator_queue, readable, worker_queue,
};
use crate::tx::{Tx, unsigned};

pub(crate) fn instance(tx: &Tx<'_>, instance: &str) -> Result<InstanceInfo> {
    instances::info(tx, instance)?.ok_or_else(|| not_found(instance))
}

pub(crate) fn execution(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<ExecutionInfo> {
    let found = if deletions::contains(tx, instance)? {
        None
    } else {
        executions::info(tx, instance, execution_id)?
    };
    let mut info = found.ok_or_else(|| {
        SqliteError::Contract(Refusal::ExecutionNotFound {
            instance: instance.to_owned(),
            execution_id,
        })
    })?;
    info.event_count = history::count(tx, instance, execution_id)?;
    Ok(info)
}

pub(crate) fn metrics(tx: &Tx<'_>) -> Result<SystemMetrics> {
    readable::or_one_by_one(all_metrics(tx), || metrics_one_by_one(tx))
}

fn all_metrics(tx: &Tx<'_>) -> Result<SystemMetrics> {
    let mut metrics = instances::metrics(tx)?;
    metrics.total_executions = executions::count(tx)?;
    metrics.total_events = history::count_all(tx)?;
    Ok(metrics)
}

/// Totals; of an instance that cannot be read only that it is there.
fn metrics_one_by_one(tx: &Tx<'_>) -> Result<SystemMetrics> {
    let mut metrics = SystemMetrics::default();
    for id in readable::ids(tx)? {
        metrics.total_instances += 1;
        let status = readable::unless_damaged(instances::status(tx, &id))?.flatten();
        match status.as_deref() {
            Some("Running") => metrics.running_instances += 1,
            Some("Completed") => metrics.completed_instances += 1,
            Some("Failed") => metrics.failed_instances += 1,
            Some(_) | None => {}
        }
        let executions = count_of(
            tx,
            "SELECT COUNT(*) FROM executions WHERE instance_id = ?1",
            &id,
        );
        metrics.total_executions += readable::unless_damaged(executions)?.unwrap_or(0);
        let events = count_of(
            tx,
            "SELECT COUNT(*) FROM history WHERE instance_id = ?1",
            &id,
        );
        metrics.total_events += readable::unless_damaged(events)?.unwrap_or(0);
    }
    Ok(metrics)
}

fn count_of(tx: &Tx<'_>, sql: &'static str, instance: &str) -> Result<u64> {
    tx.one(sql, [instance], |row| unsigned(row, 0))
}

pub(crate) fn queue_depths(tx: &Tx<'_>) -> Result<QueueDepths> {
    let (orchestrator_queue, timer_queue) = orchestrator_queue::depths(tx)?;
    Ok(QueueDepths {
        orchestrator_queue,
        worker_queue: worker_queue::depth(tx)?,
        timer_queue,
    })
}

pub(crate) fn parent(tx: &Tx<'_>, instance: &str) -> Result<Option<String>> {
    instances::parent(tx, instance)?.ok_or_else(|| not_found(instance))
}

/// The instance and all its descendants, parents first, as one snapshot.
pub(crate) fn tree(tx: &Tx<'_>, root: &str) -> Result<InstanceTree> {
    Ok(InstanceTree {
        root_id: root.to_owned(),
        all_ids: descend(tx, root)?,
    })
}

/// The instance and all its descendants, parents first.
pub(crate) fn descend(tx: &Tx<'_>, root: &str) -> Result<Vec<String>> {
    let all = descend_up_to(tx, root, usize::MAX)?;
    Ok(all.unwrap_or_default())
}

/// The same; `None` if there are more than `max`.
pub(crate) fn descend_up_to(tx: &Tx<'_>, root: &str, max: usize) -> Result<Option<Vec<String>>> {
    let mut found = vec![root.to_owned()];
    // A parent link that leads in a circle cannot be written by the engine, but a person with a shell can.
    let mut seen = HashSet::from([root.to_owned()]);
    let mut at = 0;
    while let Some(id) = found.get(at) {
        for child in instances::children(tx, id)? {
            if seen.insert(child.clone()) {
                found.push(child);
            }
        }
        if found.len() > max {
            return Ok(None);
        }
        at += 1;
    }
    Ok(Some(found))
}

pub(crate) fn not_found(instance: &str) -> SqliteError {
    SqliteError::Contract(Refusal::InstanceNotFound {
        instance: instance.to_owned(),
    })
}

/// How large the database is and how much of it is free, in bytes.
pub(crate) fn file(tx: &Tx<'_>) -> Result<(u64, u64)> {
    let number = |pragma: &'static str| tx.one(pragma, [], |row| unsigned(row, 0));
    let page = number("PRAGMA page_size")?;
    let (pages, free) = (
        number("PRAGMA page_count")?,
        number("PRAGMA freelist_count")?,
    );
    Ok((pages * page, free * page))
}
