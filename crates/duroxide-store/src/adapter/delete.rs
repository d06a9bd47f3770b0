//! Deleting instances. What is deleted is read first; the batch is guarded by what was read, so a child or a status
//! that appears in between is noticed and the whole is tried again.

use std::collections::BTreeSet;

use duroxide_core::provider::{DeleteInstanceResult, InstanceFilter};

use super::error::{Error, Result};
use super::inspect::{self, Listed};
use super::names::{self, INSTANCES, TURNS, WORK};
use super::read;
use super::rows::InstanceRow;
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::metadata::Entry;
use crate::{EventStore, StoreError};

/// How often a deletion is planned again because the data changed.
pub(super) const TRIES: usize = 16;
/// Instances a bulk call looks at, unless told otherwise.
const DEFAULT_LIMIT: u32 = 1000;

pub(super) async fn run<S: EventStore>(
    store: &S,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    let ids: BTreeSet<&String> = ids.iter().collect();
    let mut last = String::new();
    for _ in 0..TRIES {
        let mut plan = Plan::default();
        for id in &ids {
            let found = Found::read(store, id).await?;
            found.check(&ids, force)?;
            plan.add(id, found);
        }
        match store.commit(plan.batch).await {
            Ok(counts) => return Ok(tally(&plan.counted, &counts, plan.instances)),
            Err(StoreError::Conflict(reason)) => last = reason,
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Contended(last))
}

/// What is known about an instance before it is deleted.
#[derive(Debug)]
struct Found {
    id: String,
    row: Option<(Vec<u8>, InstanceRow)>,
    executions: Vec<Entry>,
    /// Those of earlier lives included.
    children: Vec<Entry>,
}

impl Found {
    async fn read<S: EventStore>(store: &S, id: &str) -> Result<Self> {
        let queries = vec![
            Query::Entry {
                scope: INSTANCES.to_owned(),
                key: id.to_owned(),
            },
            Query::all_entries(names::executions(id)),
            Query::all_entries(names::children(id)),
        ];
        let answers = store.query(queries).await?;
        let [row, executions, children] =
            <[_; 3]>::try_from(answers).map_err(|_| missing_answer())?;
        let row = match row.into_entry()? {
            Some(bytes) => {
                let row = read::decode_instance(id, &bytes)?;
                Some((bytes, row))
            }
            None => None,
        };
        Ok(Self {
            id: id.to_owned(),
            row,
            executions: executions.into_entries()?,
            children: children.into_entries()?,
        })
    }

    fn check(&self, ids: &BTreeSet<&String>, force: bool) -> Result<()> {
        let life = self.row.as_ref().and_then(|(_, row)| row.life());
        let mut own = self.children.iter();
        let left_out =
            |child: &&Entry| names::is_child(&child.value, life) && !ids.contains(&child.key);
        if let Some(child) = own.find(left_out) {
            return Err(Error::WouldOrphan {
                parent: self.id.clone(),
                child: child.key.clone(),
            });
        }
        let Some(current) = self.executions.last() else {
            return Ok(());
        };
        let current = read::decode_execution(&self.id, &current.key, &current.value)?;
        if current.is_live() && !force {
            return Err(Error::Running(self.id.clone()));
        }
        Ok(())
    }

    fn exists(&self) -> bool {
        self.row.is_some() || !self.executions.is_empty()
    }
}

fn missing_answer() -> Error {
    Error::Store(StoreError::Permanent(
        "the store gave too few answers".to_owned(),
    ))
}

/// Which total an operation's count adds to.
#[derive(Debug, Clone, Copy)]
enum Counted {
    Nothing,
    Executions,
    Events,
    Messages,
}

#[derive(Debug, Default)]
struct Plan {
    batch: Batch,
    counted: Vec<Counted>,
    instances: u64,
}

impl Plan {
    fn add(&mut self, id: &str, found: Found) {
        self.instances += u64::from(found.exists());
        self.guard(id, &found);
        let scope = INSTANCES.to_owned();
        let key = id.to_owned();
        self.push(Counted::Nothing, Operation::Delete { scope, key });
        if let Some(parent) = found.row.and_then(|(_, row)| row.parent) {
            let scope = names::children(&parent);
            let key = id.to_owned();
            self.push(Counted::Nothing, Operation::Delete { scope, key });
        }
        let scope = names::executions(id);
        self.push(Counted::Executions, Operation::DeleteScope { scope });
        for scope in [names::children(id), names::kv_base(id), names::kv_delta(id)] {
            self.push(Counted::Nothing, Operation::DeleteScope { scope });
        }
        let entity = id.to_owned();
        self.push(Counted::Events, Operation::DeleteEntity { entity });
        for queue in [TURNS, WORK] {
            let group = id.to_owned();
            self.push(Counted::Messages, Operation::DeleteGroup { queue, group });
        }
        self.batch.topics.push(id.to_owned());
    }

    fn guard(&mut self, id: &str, found: &Found) {
        let scope = INSTANCES.to_owned();
        let key = id.to_owned();
        self.batch.guards.push(match &found.row {
            Some((value, _)) => Guard::Equals {
                scope,
                key,
                value: value.clone(),
            },
            None => Guard::Absent { scope, key },
        });
        self.batch.guards.push(Guard::Keys {
            scope: names::children(id),
            keys: found
                .children
                .iter()
                .map(|child| child.key.clone())
                .collect(),
        });
        let keys = found.executions.iter().map(|entry| entry.key.clone());
        self.batch.guards.push(Guard::Keys {
            scope: names::executions(id),
            keys: keys.collect(),
        });
        if let Some(current) = found.executions.last() {
            self.batch.guards.push(Guard::Equals {
                scope: names::executions(id),
                key: current.key.clone(),
                value: current.value.clone(),
            });
        }
    }

    fn push(&mut self, counted: Counted, operation: Operation) {
        self.counted.push(counted);
        self.batch.operations.push(operation);
    }
}

fn tally(counted: &[Counted], counts: &[u64], instances: u64) -> DeleteInstanceResult {
    let mut result = DeleteInstanceResult {
        instances_deleted: instances,
        ..DeleteInstanceResult::default()
    };
    for (counted, count) in counted.iter().zip(counts) {
        match counted {
            Counted::Nothing => {}
            Counted::Executions => result.executions_deleted += count,
            Counted::Events => result.events_deleted += count,
            Counted::Messages => result.queue_messages_deleted += count,
        }
    }
    result
}

/// Deletes finished roots that match, each with its tree; a tree in which anything runs is left alone.
pub(super) async fn bulk<S: EventStore>(
    store: &S,
    filter: &InstanceFilter,
) -> Result<DeleteInstanceResult> {
    let mut total = DeleteInstanceResult::default();
    let mut matching = 0;
    for root in inspect::all(store).await? {
        if root.row.parent.is_some() || !is_finished(&root) || !selects(filter, &root) {
            continue;
        }
        if matching >= limit(filter) {
            break;
        }
        matching += 1;
        let tree = tree(store, &root.id).await?;
        match run(store, &tree, false).await {
            Ok(deleted) => {
                total.instances_deleted += deleted.instances_deleted;
                total.executions_deleted += deleted.executions_deleted;
                total.events_deleted += deleted.events_deleted;
                total.queue_messages_deleted += deleted.queue_messages_deleted;
            }
            // Something in the tree runs, or was started since the tree was read.
            Err(Error::Running(_) | Error::WouldOrphan { .. }) => matching -= 1,
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

async fn tree<S: EventStore>(store: &S, root: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(id) = open.pop() {
        open.extend(inspect::children(store, &id).await?);
        all.push(id);
    }
    Ok(all)
}

fn is_finished(one: &Listed) -> bool {
    one.current
        .as_ref()
        .is_some_and(|current| !current.is_live())
}

/// Whether an instance meets the filter's criteria, the limit aside.
pub(super) fn selects(filter: &InstanceFilter, one: &Listed) -> bool {
    let named = filter
        .instance_ids
        .as_ref()
        .is_none_or(|ids| ids.contains(&one.id));
    let ended_at = one
        .current
        .as_ref()
        .and_then(|current| current.completed_at);
    let old_enough = filter
        .completed_before
        .is_none_or(|before| ended_at.is_some_and(|ended| ended < before));
    named && old_enough
}

pub(super) fn limit(filter: &InstanceFilter) -> usize {
    filter.limit.unwrap_or(DEFAULT_LIMIT) as usize
}
