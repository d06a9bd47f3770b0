//! Pruning: deleting old executions of an instance, never its current one nor one that runs.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{InstanceFilter, PruneOptions, PruneResult};

use super::delete::{self, TRIES};
use super::error::{Error, Result};
use super::names::{self, INSTANCES};
use super::rows::{ExecutionRow, InstanceRow, RUNNING};
use super::{closing, read};
use crate::atomic::{Batch, Operation, Query};
use crate::{EventStore, StoreError};

/// Executions that one commit deletes at most.
const STEP: usize = 64;

/// Looks at the executions once, and deletes those that are to go a few at a time.
pub(super) async fn run<S: EventStore>(
    store: &S,
    instance: &str,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let mut total = PruneResult {
        instances_processed: 1,
        ..PruneResult::default()
    };
    let row = row(store, instance).await?;
    let executions = read::executions(store, instance).await?;
    let newest = executions.last().map_or(0, |(id, _)| *id);
    // A row that does not decode names no current execution; the newest is taken for it.
    let current = InstanceRow::read(&row).map_or(newest, |row| row.execution);
    let chosen = choose(&executions, current, options);
    drop(executions);
    for some in chosen.chunks(STEP) {
        let Some(events) = step(store, instance, &row, some).await? else {
            break;
        };
        total.executions_deleted += some.len() as u64;
        total.events_deleted += events;
    }
    Ok(total)
}

async fn row<S: EventStore>(store: &S, instance: &str) -> Result<Vec<u8>> {
    let row = store.get(INSTANCES, instance).await?;
    row.ok_or_else(|| Error::instance_not_found(instance))
}

/// Whether two rows are of one life of the instance. The current execution only grows within a life.
fn is_same_incarnation(one: &[u8], other: &[u8]) -> bool {
    one == other
        || match (InstanceRow::read(one), InstanceRow::read(other)) {
            (Ok(one), Ok(other)) => {
                one.incarnation() == other.incarnation() && one.execution <= other.execution
            }
            _ => false,
        }
}

/// Deletes these executions; returns how many events went, or nothing if the instance is not the one they were chosen
/// of.
async fn step<S: EventStore>(
    store: &S,
    instance: &str,
    chosen_of: &[u8],
    chosen: &[u64],
) -> Result<Option<u64>> {
    let mut last = String::new();
    for tried in 0..TRIES {
        let row = row(store, instance).await?;
        if !is_same_incarnation(chosen_of, &row) {
            return Ok(None);
        }
        let mut operations = deletions(instance, chosen);
        let counted = operations.len();
        operations.extend(heartbeats(store, instance, chosen).await?);
        let batch = Batch::of(operations).guarded_by(names::unchanged(instance, Some(&row)));
        match closing::commit(store, batch).await {
            Ok(counts) => return Ok(Some(counts.iter().take(counted).step_by(2).sum())),
            Err(Error::Store(StoreError::Conflict(reason))) => last = reason,
            Err(error) => return Err(error),
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

/// What the activities of these executions said last. They have ended, so nothing is added any more.
async fn heartbeats<S: EventStore>(
    store: &S,
    instance: &str,
    executions: &[u64],
) -> Result<Vec<Operation>> {
    let scope = names::heartbeats(instance);
    let said = store.query_one(Query::all_entries(scope.clone())).await?;
    let mut deletions = Vec::new();
    for entry in said.into_entries()? {
        if executions.contains(&names::execution_of_heartbeat(&entry.key)?) {
            let (scope, key) = (scope.clone(), entry.key);
            deletions.push(Operation::Delete { scope, key });
        }
    }
    Ok(deletions)
}

/// Prunes instances that match, oldest first. What is wrong with one is logged and stops no other; a store that is away
/// ends the call.
pub(super) async fn bulk<S: EventStore>(
    store: &S,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let mut total = PruneResult::default();
    for one in delete::oldest_first(store, filter).await? {
        if total.instances_processed >= delete::limit(filter) as u64 {
            break;
        }
        if !delete::selects(filter, &one) {
            continue;
        }
        let pruned = match run(store, &one.id, options).await {
            Ok(pruned) => pruned,
            // Deleted since the list was read.
            Err(Error::Refused(Refusal::InstanceNotFound { .. })) => continue,
            Err(error) => {
                delete::passed_over(&one.id, "pruned", error)?;
                continue;
            }
        };
        total.instances_processed += pruned.instances_processed;
        total.executions_deleted += pruned.executions_deleted;
        total.events_deleted += pruned.events_deleted;
    }
    Ok(total)
}
