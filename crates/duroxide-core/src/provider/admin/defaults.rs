//! What the administrative contract answers for a store that has only the published methods: correct, and as slow as
//! the store is large.

use std::collections::{BTreeMap, HashSet};

use super::ProviderAdmin;
use crate::event::{Event, EventKind};
use crate::provider::{
    InstanceCount, InstanceInfo, InstanceQuery, InstanceStatus, InstanceSummary, ProviderError,
    RefusalKind, WaitingFor,
};
use crate::start::StartExtras;

pub(super) fn largest_first(counts: BTreeMap<String, u64>) -> Vec<InstanceCount> {
    let count = |(key, count)| InstanceCount { key, count };
    let mut counts: Vec<_> = counts.into_iter().map(count).collect();
    // Stable: equal groups stay in the order of their keys.
    counts.sort_by_key(|one| std::cmp::Reverse(one.count));
    counts
}

/// Whether an execution waits for something. One whose history cannot be read is not known to wait: it must not hide
/// the others.
pub(super) async fn waits_in<A: ProviderAdmin + ?Sized>(
    admin: &A,
    instance: &str,
    execution_id: u64,
    waiting: &WaitingFor,
) -> Result<bool, ProviderError> {
    let history = admin.read_history_with_execution_id(instance, execution_id);
    match existing(history.await) {
        Ok(history) => Ok(history.is_some_and(|history| waiting.is_open_in(&history))),
        Err(error) if error.is_retryable() || error.is_store_closed() => Err(error),
        Err(_) => Ok(false),
    }
}

/// The instances that a query admits, in no order.
pub(super) async fn admitted<A: ProviderAdmin + ?Sized>(
    admin: &A,
    query: &InstanceQuery,
) -> Result<Vec<InstanceInfo>, ProviderError> {
    let mut ids = match (&query.root, &query.parent) {
        (Some(root), _) => {
            let tree = existing(admin.get_instance_tree(root).await)?;
            tree.map(|tree| tree.all_ids).unwrap_or_default()
        }
        (None, Some(parent)) => existing(admin.list_children(parent).await)?.unwrap_or_default(),
        (None, None) => admin.list_instances().await?,
    };
    if query.has_dead_letters {
        let letters = admin.list_dead_letters(u32::MAX).await?;
        let named: HashSet<_> = letters.into_iter().filter_map(|l| l.instance_id).collect();
        ids.retain(|id| named.contains(id));
    }
    ids.retain(|id| query.admits_id(id));
    let mut admitted = Vec::new();
    for id in ids {
        let Some(mut info) = existing(admin.get_instance_info(&id).await)? else {
            continue;
        };
        if info.parent_instance_id.is_some() {
            // One whose parent was deleted has none, also if the id lives again.
            info.parent_instance_id = existing(admin.get_parent_id(&id).await)?.flatten();
        }
        if !query.admits(&info) {
            continue;
        }
        if query.ended.is_bounded() {
            match existing(ended_at(admin, &info).await)?.flatten() {
                Some(at) if query.ended.contains(at) => {}
                _ => continue,
            }
        }
        if let Some(wanted) = query.paused {
            let paused_at = admin.paused_since(&info.instance_id).await?;
            if paused_at.is_some() != wanted {
                continue;
            }
        }
        if let Some(wanted) = query.blocked {
            let note = admin.block_note(&info.instance_id).await?;
            if note.is_some() != wanted {
                continue;
            }
        }
        if let Some(waiting) = &query.waiting_for {
            let runs = InstanceStatus::of_stored(&info.status) == InstanceStatus::Running;
            let (id, execution) = (&info.instance_id, info.current_execution_id);
            if !runs || !waits_in(admin, id, execution, waiting).await? {
                continue;
            }
        }
        if !query.labels.is_empty() {
            let labels = admin.labels(&info.instance_id).await?;
            let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
            if !query.labels.iter().all(has) {
                continue;
            }
        }
        admitted.push(info);
    }
    Ok(admitted)
}

/// When the current execution completed or failed.
async fn ended_at<A: ProviderAdmin + ?Sized>(
    admin: &A,
    info: &InstanceInfo,
) -> Result<Option<u64>, ProviderError> {
    if !InstanceStatus::of_stored(&info.status).is_ended() {
        return Ok(None);
    }
    let (id, execution) = (&info.instance_id, info.current_execution_id);
    Ok(admin.get_execution_info(id, execution).await?.completed_at)
}

pub(super) async fn summary_of<A: ProviderAdmin + ?Sized>(
    admin: &A,
    info: InstanceInfo,
) -> Result<InstanceSummary, ProviderError> {
    let ended_at_ms = ended_at(admin, &info).await?;
    let (id, execution) = (&info.instance_id, info.current_execution_id);
    let history = admin.read_history_with_execution_id(id, execution).await?;
    let paused_at_ms = admin.paused_since(id).await?;
    let labels = admin.labels(id).await?;
    let incarnation = admin.incarnation(id).await?;
    Ok(InstanceSummary {
        incarnation,
        status: InstanceStatus::of_stored(&info.status),
        custom_status: history.iter().rev().find_map(status_set_by).flatten(),
        execution_id: execution,
        created_at_ms: info.created_at,
        updated_at_ms: info.updated_at,
        ended_at_ms,
        paused_at_ms,
        labels,
        memo: history
            .first()
            .and_then(|first| StartExtras::recorded_in(&first.kind).memo),
        event_count: history.len() as u64,
        parent: info.parent_instance_id.clone(),
        ..InstanceSummary::new(id, &info.orchestration_name, &info.orchestration_version)
    })
}

/// The custom status that an event left behind, if it touched it.
fn status_set_by(event: &Event) -> Option<Option<String>> {
    match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.clone()),
        EventKind::OrchestrationStarted {
            initial_custom_status,
            ..
        } => Some(initial_custom_status.clone()),
        _ => None,
    }
}

/// `None` for an instance that was deleted while it was looked at.
pub(super) fn existing<T>(answer: Result<T, ProviderError>) -> Result<Option<T>, ProviderError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.refusal_about("") {
            Some(RefusalKind::InstanceNotFound | RefusalKind::ExecutionNotFound) => Ok(None),
            _ => Err(error),
        },
    }
}
