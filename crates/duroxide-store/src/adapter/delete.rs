//! Deleting instances. What is deleted is read first; the batch is guarded by what was read, so a child or a status
//! that appears in between is noticed and the whole is tried again.

use std::collections::BTreeSet;

use duroxide_core::defect::Defect;
use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{DeleteInstanceResult, InstanceFilter};

use super::closing;
use super::error::{Error, Result};
use super::inspect::{self, Listed};
use super::names::{self, INSTANCES, RUNNING_INSTANCES, TURNS, WORK};
use super::rows::{ExecutionRow, InstanceRow};
use super::unborn::{self, Unborn};
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::record::Entry;
use crate::{EventStore, StoreError};

/// How often a deletion is planned again because the data changed.
pub(super) const TRIES: usize = 16;
/// Instances a bulk call looks at, unless the caller sets another limit.
const DEFAULT_LIMIT: u32 = 1000;

pub(super) async fn run<S: EventStore>(
    store: &S,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    run_if(store, ids, force, |_| true).await
}

/// Deletes these instances if each is as it should be when it goes; one that is not is reported as running.
async fn run_if<S: EventStore>(
    store: &S,
    ids: &[String],
    force: bool,
    is_meant: impl Fn(&Found) -> bool,
) -> Result<DeleteInstanceResult> {
    let ids: BTreeSet<&String> = ids.iter().collect();
    let mut last = String::new();
    for tried in 0..TRIES {
        let mut plan = Plan::default();
        for found in Found::read(store, &ids).await? {
            found.check(&ids, force)?;
            if !is_meant(&found) {
                return Err(Error::still_running(found.id));
            }
            plan.add(found, force);
        }
        match closing::commit(store, plan.batch).await {
            Ok(counts) => return Ok(tally(&plan.counted, &counts, plan.instances)),
            Err(Error::Store(StoreError::Conflict(reason))) => last = reason,
            Err(error) => return Err(error),
        }
        pause(tried).await;
    }
    Err(Error::Contended(last))
}

/// What deletes an instance that has ended with its tree; `None` if anything of the tree is live or its parent is
/// there.
pub(super) async fn finished_tree<S: EventStore>(store: &S, root: &str) -> Result<Option<Batch>> {
    for tried in 0..TRIES {
        if inspect::parent(store, root).await?.is_some() {
            return Ok(None);
        }
        let tree = tree(store, root).await?;
        let ids: BTreeSet<&String> = tree.iter().collect();
        let mut plan = Plan::default();
        let mut grown = false;
        for found in Found::read(store, &ids).await? {
            match found.check(&ids, false) {
                Ok(()) => plan.add(found, false),
                Err(Error::Refused(Refusal::StillRunning { .. })) => return Ok(None),
                // A child began since the tree was read.
                Err(Error::Refused(Refusal::ChildLeftBehind { .. })) => grown = true,
                Err(error) => return Err(error),
            }
        }
        if !grown {
            return Ok(Some(plan.batch));
        }
        pause(tried).await;
    }
    Err(Error::Contended(format!("the tree of {root} grows")))
}

/// A little longer after each try, so that what is busy can end.
pub(super) async fn pause(tried: usize) {
    let ms = 1_u64 << tried.min(6);
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}

/// What is known about an instance before it is deleted.
#[derive(Debug)]
struct Found {
    id: String,
    /// As it is stored; whether it decodes does not matter.
    row: Option<Vec<u8>>,
    instance: Option<InstanceRow>,
    executions: u64,
    /// The current execution.
    current: Option<ExecutionRow>,
    /// Those of earlier lives included.
    children: Vec<Entry>,
    /// Listed as asked for, and not begun. A turn that asks for another one meanwhile changes the list.
    asked: Vec<String>,
    /// Asked for, and not begun.
    unborn: Vec<Unborn>,
}

impl Found {
    /// All of them, from one state.
    async fn read<S: EventStore>(store: &S, ids: &BTreeSet<&String>) -> Result<Vec<Self>> {
        let queries = ids.iter().flat_map(|id| {
            [
                Query::Entry {
                    scope: INSTANCES.to_owned(),
                    key: (*id).clone(),
                },
                Query::Count {
                    scope: names::executions(id),
                },
                Query::all_entries(names::children(id)),
                Query::all_entries(names::asked(id)),
            ]
        });
        let mut answers = store.query(queries.collect()).await?.into_iter();
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            let mut next = || answers.next().ok_or_else(missing_answer);
            let row = next()?.into_entry()?;
            let instance = row.as_deref().and_then(|row| InstanceRow::read(row).ok());
            let mut found = Self {
                id: (*id).clone(),
                row,
                current: instance.as_ref().and_then(|row| row.current.clone()),
                instance,
                executions: next()?.into_count()?,
                children: next()?.into_entries()?,
                asked: keys_of(next()?.into_entries()?),
                unborn: Vec::new(),
            };
            // In a store without incarnations the parent's life of a child is unknown.
            let mut incarnation = found.instance.as_ref().and_then(InstanceRow::incarnation);
            if Defect::UnbornOutlivesParent.is_on() || Defect::OtherLifeAccepted.is_on() {
                incarnation = None;
            }
            if let Some(incarnation) = incarnation {
                found.unborn = unborn::of(store, id, &found.asked, incarnation).await?;
            }
            if found.current.is_none() && found.executions > 0 {
                let executions = super::read::executions(store, id).await?;
                found.current = executions.into_iter().last().map(|(_, row)| row);
            }
            all.push(found);
        }
        Ok(all)
    }

    fn check(&self, ids: &BTreeSet<&String>, force: bool) -> Result<()> {
        let incarnation = self.instance.as_ref().and_then(InstanceRow::incarnation);
        let mut own = self.children.iter();
        let left_out = |child: &&Entry| {
            names::is_child(&child.value, incarnation) && !ids.contains(&child.key)
        };
        if let Some(child) = own.find(left_out) {
            return Err(Error::Refused(Refusal::ChildLeftBehind {
                parent: self.id.clone(),
                child: child.key.clone(),
            }));
        }
        let live = self.current.as_ref().is_some_and(ExecutionRow::is_live);
        if live && !force {
            Err(Error::still_running(self.id.clone()))
        } else {
            Ok(())
        }
    }

    fn exists(&self) -> bool {
        self.row.is_some() || self.executions > 0
    }

    /// What must still hold. By force only the sets of children must, those that have begun and those that have not: a
    /// busy instance never stands still.
    fn guards(&self, force: bool) -> Vec<Guard> {
        let children = Guard::Keys {
            scope: names::children(&self.id),
            keys: keys_of(self.children.clone()),
        };
        let asked = Guard::Keys {
            scope: names::asked(&self.id),
            keys: self.asked.clone(),
        };
        let row = match &self.row {
            Some(_) if force => Guard::Present {
                scope: INSTANCES.to_owned(),
                key: self.id.clone(),
            },
            row => names::unchanged(&self.id, row.as_ref()),
        };
        vec![row, children, asked]
    }
}

fn keys_of(entries: Vec<Entry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.key).collect()
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
    fn add(&mut self, found: Found, force: bool) {
        self.instances += u64::from(found.exists());
        self.batch.guards.extend(found.guards(force));
        for child in found.unborn {
            self.batch.guards.push(child.guard());
            self.push(Counted::Messages, child.delete());
        }
        let id = found.id;
        for scope in [INSTANCES, RUNNING_INSTANCES] {
            let (scope, key) = (scope.to_owned(), id.clone());
            self.push(Counted::Nothing, Operation::Delete { scope, key });
        }
        if let Some(parent) = found.instance.and_then(|row| row.parent) {
            let scope = names::children(&parent);
            let key = id.clone();
            self.push(Counted::Nothing, Operation::Delete { scope, key });
        }
        let scope = names::executions(&id);
        self.push(Counted::Executions, Operation::DeleteScope { scope });
        for scope in [
            names::children(&id),
            names::asked(&id),
            names::kv_base(&id),
            names::kv_delta(&id),
            names::heartbeats(&id),
        ] {
            self.push(Counted::Nothing, Operation::DeleteScope { scope });
        }
        let entity = id.clone();
        self.push(Counted::Events, Operation::DeleteEntity { entity });
        for queue in [TURNS, WORK] {
            if Defect::DeleteLeavesMessages.is_on() {
                break;
            }
            let group = id.clone();
            self.push(Counted::Messages, Operation::DeleteGroup { queue, group });
        }
        self.batch.topics.push(id);
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

/// Deletes finished roots that match, each with its tree; a tree in which anything runs is left alone. What is wrong
/// with one instance is logged and stops no other; a store that is away ends the call.
pub(super) async fn bulk<S: EventStore>(
    store: &S,
    filter: &InstanceFilter,
) -> Result<DeleteInstanceResult> {
    let mut total = DeleteInstanceResult::default();
    let mut trees = 0;
    for root in oldest_first(store, filter).await? {
        if trees >= limit(filter) {
            break;
        }
        if !is_finished(&root) || !selects(filter, &root) {
            continue;
        }
        match delete_tree(store, filter, &root).await {
            Ok(Some(deleted)) => {
                trees += 1;
                total.instances_deleted += deleted.instances_deleted;
                total.executions_deleted += deleted.executions_deleted;
                total.events_deleted += deleted.events_deleted;
                total.queue_messages_deleted += deleted.queue_messages_deleted;
            }
            Ok(None) => {}
            Err(error) => passed_over(&root.id, "deleted", error)?,
        }
    }
    Ok(total)
}

/// Deletes a finished root with its tree; `None` if it is no root, or something in its tree runs or was started since
/// the tree was read.
async fn delete_tree<S: EventStore>(
    store: &S,
    filter: &InstanceFilter,
    root: &Listed,
) -> Result<Option<DeleteInstanceResult>> {
    if root.row.parent.is_some()
        && inspect::living_parent(store, root.row.clone())
            .await?
            .is_some()
    {
        return Ok(None);
    }
    let tree = tree(store, &root.id).await?;
    // It may be another one by now.
    let is_meant =
        |found: &Found| found.id != root.id || ended_in_time(filter, found.current.as_ref());
    match run_if(store, &tree, false, is_meant).await {
        Ok(deleted) => Ok(Some(deleted)),
        Err(Error::Refused(Refusal::StillRunning { .. } | Refusal::ChildLeftBehind { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A bulk call goes on without an instance, unless the store is at fault: oldest first, it would meet the same one
/// again each time, and never those behind it.
pub(super) fn passed_over(instance: &str, was_to_be: &str, error: Error) -> Result<()> {
    if !error.is_of_one_instance() {
        return Err(error);
    }
    tracing::error!(target: "duroxide::providers::store", %instance, %error, "an instance that was to be {was_to_be} is passed over");
    Ok(())
}

/// The instances that a filter names, or all, oldest first, so that a cleanup in steps comes to an end.
pub(super) async fn oldest_first<S: EventStore>(
    store: &S,
    filter: &InstanceFilter,
) -> Result<Vec<Listed>> {
    let mut listed = match &filter.instance_ids {
        Some(ids) => inspect::some(store, ids).await?,
        None => inspect::all(store).await?,
    };
    listed.reverse();
    Ok(listed)
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
    named && ended_in_time(filter, one.current.as_ref())
}

fn ended_in_time(filter: &InstanceFilter, current: Option<&ExecutionRow>) -> bool {
    let ended_at = current.and_then(|current| current.completed_at);
    let before = filter.completed_before;
    before.is_none_or(|before| ended_at.is_some_and(|ended| ended < before))
}

pub(super) fn limit(filter: &InstanceFilter) -> usize {
    filter.limit.unwrap_or(DEFAULT_LIMIT) as usize
}
