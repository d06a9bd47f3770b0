//! Pruning: deleting old executions of an instance, never its current one nor one that runs.

use duroxide_core::provider::{InstanceFilter, PruneOptions, PruneResult};

use super::delete::{self, TRIES};
use super::error::{Error, Result};
use super::names::{self, INSTANCES};
use super::rows::{ExecutionRow, RUNNING};
use super::{inspect, read};
use crate::atomic::{Batch, Guard, Operation};
use crate::{EventStore, StoreError};

pub(super) async fn run<S: EventStore>(
    store: &S,
    instance: &str,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let row = store
            .get(INSTANCES, instance)
            .await?
            .ok_or_else(|| Error::InstanceNotFound(instance.to_owned()))?;
        let current = read::decode_instance(instance, &row)?.execution;
        let executions = read::executions(store, instance).await?;
        let chosen = choose(&executions, current, options);
        let executions_deleted = chosen.len() as u64;
        let batch = Batch::of(deletions(instance, &chosen)).guarded_by(Guard::Equals {
            scope: INSTANCES.to_owned(),
            key: instance.to_owned(),
            value: row,
        });
        match store.commit(batch).await {
            Ok(counts) => {
                return Ok(PruneResult {
                    instances_processed: 1,
                    executions_deleted,
                    events_deleted: counts.iter().step_by(2).sum(),
                });
            }
            Err(StoreError::Conflict(reason)) => last = reason,
            Err(error) => return Err(error.into()),
        }
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
    let all = inspect::all(store).await?.into_iter();
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
