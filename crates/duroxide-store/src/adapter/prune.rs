//! Pruning: deleting old executions of an instance, never its current one nor one that runs.

use duroxide_core::provider::{InstanceFilter, PruneOptions, PruneResult};

use super::delete::{self, TRIES};
use super::error::{Error, Result};
use super::names::{self, INSTANCES};
use super::read;
use super::rows::{ExecutionRow, InstanceRow, RUNNING};
use crate::atomic::{Batch, Operation};
use crate::{EventStore, StoreError};

/// Executions that one commit deletes at most.
const STEP: usize = 64;

pub(super) async fn run<S: EventStore>(
    store: &S,
    instance: &str,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let mut total = PruneResult {
        instances_processed: 1,
        ..PruneResult::default()
    };
    while let (deleted @ 1.., events) = step(store, instance, options).await? {
        total.executions_deleted += deleted;
        total.events_deleted += events;
    }
    Ok(total)
}

/// Deletes some of the executions that are to go; returns how many, and how many events with them.
async fn step<S: EventStore>(
    store: &S,
    instance: &str,
    options: &PruneOptions,
) -> Result<(u64, u64)> {
    let mut last = String::new();
    for tried in 0..TRIES {
        let row = store
            .get(INSTANCES, instance)
            .await?
            .ok_or_else(|| Error::InstanceNotFound(instance.to_owned()))?;
        let executions = read::executions(store, instance).await?;
        let newest = executions.last().map_or(0, |(id, _)| *id);
        // A row that does not decode names no current execution; the newest is taken for it.
        let current = InstanceRow::read(&row).map_or(newest, |row| row.execution);
        let mut chosen = choose(&executions, current, options);
        chosen.truncate(STEP);
        if chosen.is_empty() {
            return Ok((0, 0));
        }
        let batch = Batch::of(deletions(instance, &chosen))
            .guarded_by(names::unchanged(instance, Some(&row)));
        match store.commit(batch).await {
            Ok(counts) => return Ok((chosen.len() as u64, counts.iter().step_by(2).sum())),
            Err(StoreError::Conflict(reason)) => last = reason,
            Err(error) => return Err(error.into()),
        }
        delete::pause(tried).await;
    }
    Err(Error::Contended(last))
}

fn choose(executions: &[(u64, ExecutionRow)], current: u64, options: &PruneOptions) -> Vec<u64> {
    let keep = options.keep_last.unwrap_or(1).max(1) as usize;
    let old = executions.len().saturating_sub(keep);
    let candidates = executions.iter().take(old).filter(|(id, row)| {
        let old_enough = options
            .completed_before
            .is_none_or(|before| row.completed_at.is_some_and(|ended| ended < before));
        *id != current && row.status != RUNNING && old_enough
    });
    candidates.map(|(id, _)| *id).collect()
}

/// Two operations per execution: its events, then its row.
fn deletions(instance: &str, executions: &[u64]) -> Vec<Operation> {
    let pairs = executions.iter().flat_map(|execution| {
        [
            Operation::DeletePartition {
                entity: instance.to_owned(),
                partition: *execution,
            },
            Operation::Delete {
                scope: names::executions(instance),
                key: names::execution_key(*execution),
            },
        ]
    });
    pairs.collect()
}

pub(super) async fn bulk<S: EventStore>(
    store: &S,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let mut total = PruneResult::default();
    let all = delete::oldest_first(store, filter).await?.into_iter();
    let matching = all.filter(|one| delete::selects(filter, one));
    for one in matching.take(delete::limit(filter)) {
        let pruned = match run(store, &one.id, options).await {
            Ok(pruned) => pruned,
            // Deleted since the list was read.
            Err(Error::InstanceNotFound(_)) => continue,
            Err(error) => return Err(error),
        };
        total.instances_processed += pruned.instances_processed;
        total.executions_deleted += pruned.executions_deleted;
        total.events_deleted += pruned.events_deleted;
    }
    Ok(total)
}
