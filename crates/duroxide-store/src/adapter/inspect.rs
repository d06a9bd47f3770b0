//! What operators ask about all instances: lists, infos, totals, depths, families.

use duroxide_core::provider::{ExecutionInfo, InstanceInfo, QueueDepths, SystemMetrics};

use super::error::{Error, Result};
use super::names::{self, INSTANCES, TIMER, TURNS, WORK};
use super::read;
use super::rows::{ExecutionRow, InstanceRow};
use crate::EventStore;
use crate::atomic::Query;

/// Questions asked in one call, so that a long list does not hold a store up.
const PAGE: usize = 500;

/// An instance with its current execution, if that has a row.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) row: InstanceRow,
    pub(super) current: Option<ExecutionRow>,
}

/// All instances, newest first.
pub(super) async fn all<S: EventStore>(store: &S) -> Result<Vec<Listed>> {
    let entries = store.entries(INSTANCES).await?;
    let mut listed = Vec::with_capacity(entries.len());
    for page in entries.chunks(PAGE) {
        let mut rows = Vec::with_capacity(page.len());
        let mut queries = Vec::with_capacity(page.len());
        for entry in page {
            let row = read::decode_instance(&entry.key, &entry.value)?;
            queries.push(Query::Entry {
                scope: names::executions(&entry.key),
                key: names::execution_key(row.execution),
            });
            rows.push((entry.key.clone(), row));
        }
        let answers = store.query(queries).await?;
        for ((id, row), answer) in rows.into_iter().zip(answers) {
            let current = match answer.into_entry()? {
                Some(bytes) => Some(read::decode_execution(
                    &id,
                    &names::execution_key(row.execution),
                    &bytes,
                )?),
                None => None,
            };
            listed.push(Listed { id, row, current });
        }
    }
    listed.sort_by_key(|one| std::cmp::Reverse(one.row.created_at));
    Ok(listed)
}

pub(super) async fn ids_by_status<S: EventStore>(store: &S, status: &str) -> Result<Vec<String>> {
    let all = all(store).await?.into_iter();
    let with_status = all.filter(|one| one.current.as_ref().is_some_and(|e| e.status == status));
    Ok(with_status.map(|one| one.id).collect())
}

pub(super) async fn instance<S: EventStore>(store: &S, id: &str) -> Result<InstanceInfo> {
    let row = read::instance_row(store, id)
        .await?
        .ok_or_else(|| Error::InstanceNotFound(id.to_owned()))?;
    let current = read::execution_row(store, id, row.execution).await?;
    Ok(InstanceInfo {
        instance_id: id.to_owned(),
        orchestration_name: row.name.clone(),
        orchestration_version: row.version.clone(),
        current_execution_id: row.execution,
        status: current
            .as_ref()
            .map_or_else(|| "Unknown".to_owned(), |current| current.status.clone()),
        output: current.and_then(|current| current.output),
        created_at: row.created_at,
        updated_at: row.updated_at,
        parent_instance_id: living_parent(store, row).await?,
    })
}

pub(super) async fn execution<S: EventStore>(
    store: &S,
    instance: &str,
    execution: u64,
) -> Result<ExecutionInfo> {
    let row = read::execution_row(store, instance, execution)
        .await?
        .ok_or_else(|| Error::ExecutionNotFound {
            instance: instance.to_owned(),
            execution,
        })?;
    let sizes = store.partition(instance, execution).await?;
    Ok(ExecutionInfo {
        execution_id: execution,
        status: row.status,
        output: row.output,
        started_at: row.started_at,
        completed_at: row.completed_at,
        event_count: usize::try_from(sizes.events).unwrap_or(usize::MAX),
    })
}

pub(super) async fn totals<S: EventStore>(store: &S) -> Result<SystemMetrics> {
    let all = all(store).await?;
    let with_status = |status: &str| {
        let current = all.iter().filter_map(|one| one.current.as_ref());
        current.filter(|current| current.status == status).count() as u64
    };
    let mut metrics = SystemMetrics {
        total_instances: all.len() as u64,
        running_instances: with_status("Running"),
        completed_instances: with_status("Completed"),
        failed_instances: with_status("Failed"),
        total_events: store.query_one(Query::EventCount).await?.into_count()?,
        total_executions: 0,
    };
    for page in all.chunks(PAGE) {
        let executions = page
            .iter()
            .map(|one| Query::all_entries(names::executions(&one.id)));
        for answer in store.query(executions.collect()).await? {
            metrics.total_executions += answer.into_entries()?.len() as u64;
        }
    }
    Ok(metrics)
}

/// Depths of both queues. A timer counts as a timer until it is due, then as a message.
pub(super) async fn depths<S: EventStore>(store: &S) -> Result<QueueDepths> {
    let both = vec![
        Query::Depths { queue: TURNS },
        Query::Depths { queue: WORK },
    ];
    let mut answers = store.query(both).await?.into_iter();
    let mut depths = QueueDepths::default();
    for depth in answers.next().map_or(Ok(Vec::new()), |a| a.into_depths())? {
        if depth.label.as_deref() == Some(TIMER) {
            depths.orchestrator_queue += to_usize(depth.ready);
            depths.timer_queue += to_usize(depth.delayed);
        } else {
            depths.orchestrator_queue += to_usize(depth.ready + depth.delayed);
        }
    }
    for depth in answers.next().map_or(Ok(Vec::new()), |a| a.into_depths())? {
        depths.worker_queue += to_usize(depth.ready + depth.delayed);
    }
    Ok(depths)
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

pub(super) async fn children<S: EventStore>(store: &S, instance: &str) -> Result<Vec<String>> {
    let row = read::instance_row(store, instance).await?;
    let life = row.and_then(|row| row.life());
    let entries = store.entries(&names::children(instance)).await?.into_iter();
    let own = entries.filter(|entry| names::is_child(&entry.value, life));
    Ok(own.map(|entry| entry.key).collect())
}

pub(super) async fn parent<S: EventStore>(store: &S, instance: &str) -> Result<Option<String>> {
    match read::instance_row(store, instance).await? {
        Some(row) => living_parent(store, row).await,
        None => Err(Error::InstanceNotFound(instance.to_owned())),
    }
}

/// The parent that started an instance; none once that was deleted, whether or not its id lives again.
async fn living_parent<S: EventStore>(store: &S, row: InstanceRow) -> Result<Option<String>> {
    let (Some(parent), Some(life)) = (&row.parent, row.parent_life()) else {
        return Ok(row.parent);
    };
    let found = read::instance_row(store, parent).await?;
    let lives = found.is_some_and(|found| found.life() == Some(life));
    Ok(row.parent.filter(|_| lives))
}
