//! What operators ask about all instances: lists, infos, totals, depths, families.

use std::collections::BTreeSet;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{
    ExecutionInfo, HandlerKind, InstanceInfo, QueueDepths, ReadyWork, SystemMetrics,
};

use super::error::{Error, Result};
use super::names::{self, INSTANCES, RUNNING_INSTANCES, TIMER, TURNS, WORK};
use super::rows::{COMPLETED, ExecutionRow, FAILED, InstanceRow, RUNNING};
use super::{kinds, read};
use crate::EventStore;
use crate::atomic::Query;

/// Questions asked in one call, so that a long list does not hold a store up.
const PAGE: usize = 500;

/// Ready work of one handler that is counted at most.
const COUNT_MAX: u64 = 10_000;

/// An instance with its current execution, if that has a row.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) row: InstanceRow,
    pub(super) current: Option<ExecutionRow>,
}

/// All instances, newest first. A row that does not decode stands for an instance about which nothing is known.
pub(super) async fn all<S: EventStore>(store: &S) -> Result<Vec<Listed>> {
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = Query::Entries {
            scope: INSTANCES.to_owned(),
            after,
            limit: PAGE,
        };
        let page = store.query_one(page).await?.into_entries()?;
        after = page.last().map(|entry| entry.key.clone());
        let rows = page.into_iter().map(|entry| (entry.key, entry.value));
        listed.extend(list(store, rows.collect()).await?);
        if after.is_none() {
            break;
        }
    }
    listed.sort_by_key(|one| std::cmp::Reverse(one.row.created_at));
    Ok(listed)
}

/// Those of these instances that exist, newest first.
pub(super) async fn some<S: EventStore>(store: &S, ids: &[String]) -> Result<Vec<Listed>> {
    let ids: BTreeSet<&String> = ids.iter().collect();
    let ids: Vec<&String> = ids.into_iter().collect();
    let mut listed = Vec::new();
    for page in ids.chunks(PAGE) {
        let queries = page.iter().map(|id| Query::Entry {
            scope: INSTANCES.to_owned(),
            key: (*id).clone(),
        });
        let answers = store.query(queries.collect()).await?;
        let mut rows = Vec::with_capacity(page.len());
        for (id, answer) in page.iter().zip(answers) {
            rows.extend(answer.into_entry()?.map(|row| ((*id).clone(), row)));
        }
        listed.extend(list(store, rows).await?);
    }
    listed.sort_by_key(|one| std::cmp::Reverse(one.row.created_at));
    Ok(listed)
}

/// Rows with their current execution; only those of an earlier release have to be asked for it.
async fn list<S: EventStore>(store: &S, rows: Vec<(String, Vec<u8>)>) -> Result<Vec<Listed>> {
    let mut listed: Vec<Listed> = Vec::with_capacity(rows.len());
    let mut untold = Vec::new();
    let mut queries = Vec::new();
    for (id, bytes) in rows {
        let row = InstanceRow::read(&bytes);
        if let Ok(InstanceRow {
            execution,
            current: None,
            ..
        }) = &row
        {
            untold.push(listed.len());
            queries.push(Query::Entry {
                scope: names::executions(&id),
                key: names::execution_key(*execution),
            });
        }
        let row = row.unwrap_or_else(|_| InstanceRow::unknown());
        let current = row.current.clone();
        listed.push(Listed { id, row, current });
    }
    if !queries.is_empty() {
        for (position, answer) in untold.into_iter().zip(store.query(queries).await?) {
            let row = answer.into_entry()?;
            let row = row.and_then(|row| serde_json::from_slice(&row).ok());
            listed[position].current = row;
        }
    }
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
        .ok_or_else(|| Error::instance_not_found(id))?;
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
        .ok_or_else(|| Refusal::ExecutionNotFound {
            instance: instance.to_owned(),
            execution_id: execution,
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
        running_instances: with_status(RUNNING),
        completed_instances: with_status(COMPLETED),
        failed_instances: with_status(FAILED),
        total_events: store.query_one(Query::EventCount).await?.into_count()?,
        total_executions: 0,
    };
    for page in all.chunks(PAGE) {
        let executions = page.iter().map(|one| Query::Count {
            scope: names::executions(&one.id),
        });
        for answer in store.query(executions.collect()).await? {
            metrics.total_executions += answer.into_count()?;
        }
    }
    Ok(metrics)
}

/// How many instances run: the entries of one scope, without their content.
pub(super) async fn running<S: EventStore>(store: &S) -> Result<u64> {
    let scope = RUNNING_INSTANCES.to_owned();
    Ok(store
        .query_one(Query::Count { scope })
        .await?
        .into_count()?)
}

/// Ready work by the handler it needs, longest waiting first. What needs no code is left out, and more than
/// [`COUNT_MAX`] of one handler are not counted.
pub(super) async fn ready_work<S: EventStore>(store: &S, limit: u32) -> Result<Vec<ReadyWork>> {
    // What needs no code comes as two kinds of its own.
    let ask = |queue| Query::Backlog {
        queue,
        limit: (limit as usize).saturating_add(2),
        count_max: COUNT_MAX,
    };
    let answers = store.query(vec![ask(TURNS), ask(WORK)]).await?;
    let kinds = [HandlerKind::Orchestration, HandlerKind::Activity];
    let mut ready = Vec::new();
    for (kind, answer) in kinds.into_iter().zip(answers) {
        for backlog in answer.into_backlog()? {
            let label = backlog.kind.as_deref();
            let handler = match kind {
                HandlerKind::Orchestration => label.and_then(kinds::parse),
                HandlerKind::Activity => label.map(|name| (name, None)),
            };
            ready.extend(handler.map(|(name, version)| ReadyWork {
                kind,
                name: name.to_owned(),
                version: version.map(str::to_owned),
                count: backlog.count,
                ready_since_ms: backlog.since_ms,
            }));
        }
    }
    ready.sort_by_key(|work| work.ready_since_ms);
    ready.truncate(limit as usize);
    Ok(ready)
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

/// The row of an instance in its family. One that does not decode has no parent and is of an unknown life: it can be
/// deleted, and stands in the way of no other.
async fn member<S: EventStore>(store: &S, instance: &str) -> Result<Option<InstanceRow>> {
    let row = store.get(INSTANCES, instance).await?;
    let decoded = row.map(|row| InstanceRow::read(&row));
    Ok(decoded.map(|row| row.unwrap_or_else(|_| InstanceRow::unknown())))
}

pub(super) async fn children<S: EventStore>(store: &S, instance: &str) -> Result<Vec<String>> {
    let row = member(store, instance).await?;
    let incarnation = row.and_then(|row| row.incarnation());
    let entries = store.entries(&names::children(instance)).await?.into_iter();
    let own = entries.filter(|entry| names::is_child(&entry.value, incarnation));
    Ok(own.map(|entry| entry.key).collect())
}

pub(super) async fn parent<S: EventStore>(store: &S, instance: &str) -> Result<Option<String>> {
    match member(store, instance).await? {
        Some(row) => living_parent(store, row).await,
        None => Err(Error::instance_not_found(instance)),
    }
}

/// The parent that started an instance; none once that was deleted, whether or not its id lives again.
pub(super) async fn living_parent<S: EventStore>(
    store: &S,
    row: InstanceRow,
) -> Result<Option<String>> {
    let (Some(parent), Some(incarnation)) = (&row.parent, row.parent_incarnation()) else {
        return Ok(row.parent);
    };
    let found = member(store, parent).await?;
    let lives = found.is_some_and(|found| found.incarnation() == Some(incarnation));
    Ok(row.parent.filter(|_| lives))
}
