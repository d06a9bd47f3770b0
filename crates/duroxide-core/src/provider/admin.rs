//! What operators ask of a store.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};

use std::time::Duration;

use async_trait::async_trait;

use super::{
    CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, InstanceCount, InstanceFilter,
    InstanceInfo, InstanceQuery, InstanceStatus, InstanceSummary, InstanceTree, Labelling,
    NodeInfo, NodeTerm, Page, Pausing, PendingWork, ProviderError, PruneOptions, PruneResult,
    QueueDepths, ReadyWork, Requeue, SeenNode, StoreReadings, SystemMetrics,
};
use crate::event::{Event, EventKind};
use crate::label::{LabelChange, Labels, labels_after};
use crate::start::StartExtras;

/// Administration of a store: look, delete, prune.
#[async_trait]
pub trait ProviderAdmin: Any + Send + Sync {
    /// All instances, newest first.
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError>;

    /// Instances whose current execution has this status, newest first.
    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError>;

    /// Executions that still exist, ascending.
    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError>;

    /// History of one execution.
    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError>;

    /// History of the latest execution.
    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError>;

    /// The highest execution id, 1 for an unknown instance.
    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError>;

    /// One instance; permanent error `Instance {id} not found` if unknown.
    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError>;

    /// One execution; permanent error `Execution {n} not found for instance {id}` if unknown.
    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError>;

    /// Totals.
    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError>;

    /// How many instances run. Asked for regularly, to show it as a gauge.
    ///
    /// Default: taken from [`get_system_metrics`](Self::get_system_metrics), which may have to count much more.
    async fn count_running_instances(&self) -> Result<u64, ProviderError> {
        Ok(self.get_system_metrics().await?.running_instances)
    }

    /// How the store itself is doing. Asked for regularly, to show it as gauges.
    ///
    /// Default: nothing is known.
    async fn readings(&self) -> Result<StoreReadings, ProviderError> {
        Ok(StoreReadings::default())
    }

    /// What waits in the queues.
    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError>;

    /// Direct children.
    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError>;

    /// The parent, `None` for a root; permanent error `Instance {id} not found` if unknown.
    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError>;

    /// Deletes these instances together or not at all. Without `force` a running one is an error; leaving a child
    /// behind is always one.
    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError>;

    /// An instance with all its descendants, parents first.
    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        let mut all_ids = Vec::new();
        let mut open = vec![instance_id.to_owned()];
        while let Some(id) = open.pop() {
            open.extend(self.list_children(&id).await?);
            all_ids.push(id);
        }
        Ok(InstanceTree {
            root_id: instance_id.to_owned(),
            all_ids,
        })
    }

    /// Deletes a root instance with its whole tree.
    async fn delete_instance(
        &self,
        instance_id: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        if let Some(parent) = self.get_parent_id(instance_id).await? {
            return Err(ProviderError::permanent(
                "delete_instance",
                format!(
                    "Cannot delete sub-orchestration {instance_id} directly (parent {parent}); delete the root instance instead"
                ),
            ));
        }
        let tree = self.get_instance_tree(instance_id).await?;
        self.delete_instances_atomic(&tree.all_ids, force).await
    }

    /// Deletes finished root instances that match, each with its tree. Trees in which anything runs are skipped.
    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError>;

    /// Deletes old executions of one instance, never the current or a running one.
    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError>;

    /// Deletes old executions of all instances that match.
    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError>;

    /// What was set aside because it could not be understood or was tried too often, oldest first.
    ///
    /// Default: nothing, the store keeps no dead letters.
    async fn list_dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, ProviderError> {
        let _ = limit;
        Ok(Vec::new())
    }

    /// One dead letter; `None` if there is none with this number.
    ///
    /// Default: looks through all of them.
    async fn get_dead_letter(&self, id: u64) -> Result<Option<DeadLetter>, ProviderError> {
        let letters = self.list_dead_letters(u32::MAX).await?;
        Ok(letters.into_iter().find(|letter| letter.id == id))
    }

    /// How many dead letters there are.
    ///
    /// Default: counts the list.
    async fn count_dead_letters(&self) -> Result<u64, ProviderError> {
        Ok(self.list_dead_letters(u32::MAX).await?.len() as u64)
    }

    /// The newest dead letters that name an instance, at most `limit`, newest first.
    ///
    /// Default: looks through all of them.
    async fn list_dead_letters_of(
        &self,
        instance: &str,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, ProviderError> {
        let mut letters = self.list_dead_letters(u32::MAX).await?;
        letters.retain(|letter| letter.instance_id.as_deref() == Some(instance));
        letters.reverse();
        letters.truncate(limit as usize);
        Ok(letters)
    }

    /// Puts the message of a dead letter back into its queue, as a new message, and forgets the letter: both or neither, and only if
    /// [`LetterOrigin::refusal`](super::LetterOrigin::refusal) has nothing against it, judged in the same transaction.
    ///
    /// Default: `None`, the store cannot do that in one step.
    async fn requeue_dead_letter(&self, id: u64) -> Result<Option<Requeue>, ProviderError> {
        let _ = id;
        Ok(None)
    }

    /// Forgets one dead letter; returns whether it existed.
    ///
    /// Default: `false`.
    async fn delete_dead_letter(&self, id: u64) -> Result<bool, ProviderError> {
        let _ = id;
        Ok(false)
    }

    /// Work that is ready and that no node has claimed, by the handler it needs; at most `limit` handlers, those that
    /// wait longest first. Work that stays here for long needs code that no node has.
    ///
    /// Default: `None`, the store cannot tell.
    async fn list_ready_work(&self, limit: u32) -> Result<Option<Vec<ReadyWork>>, ProviderError> {
        let _ = limit;
        Ok(None)
    }

    /// Pauses an instance: its messages are kept, and nothing of it is handed out until
    /// [`resume_instance`](Self::resume_instance).
    ///
    /// What a node has claimed before, it may finish: a turn commits, an activity is acknowledged. Activities that are
    /// queued, or come back to the queue, wait. The pause outlives crashes and continue-as-new; it ends when the instance
    /// ends or is deleted. A request to terminate is handed out in spite of it, with the messages that wait; a request to
    /// cancel waits like any other message, however old it is.
    ///
    /// Default: `None`, the store cannot do that.
    async fn pause_instance(&self, instance: &str) -> Result<Option<Pausing>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Ends a pause: messages and activities that waited can be claimed at once, in their order, and the wait counts as no
    /// attempt.
    ///
    /// Default: `None`, the store cannot do that.
    async fn resume_instance(&self, instance: &str) -> Result<Option<Pausing>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Since when an instance is paused, in milliseconds since the Unix epoch; `None` if it is not, or does not exist.
    ///
    /// Default: `None`.
    async fn paused_since(&self, instance: &str) -> Result<Option<u64>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Whether an instance whose execution failed can begin another one that shares a part of the failed record, by a commit like any
    /// other: see [`Rewound`](crate::Rewound). Beyond what the published contract asks of a store, that takes this:
    ///
    /// - changes that an execution made to key-values become the base of later ones when it completes or continues as new, and not when
    ///   it fails: [`merges_key_values`](super::rules::merges_key_values). Clients read them in any case;
    /// - a commit that [begins a later execution](super::rules::begins_later_execution) drops changes that are not merged;
    /// - custom status and labels follow [`last_custom_status`](super::rules::last_custom_status) and
    ///   [`label_changes`](crate::label_changes), which know rewound executions.
    ///
    /// Default: `false`.
    fn can_rewind(&self) -> bool {
        false
    }

    /// The labels of an instance; none if there is no such instance.
    ///
    /// A commit changes them by [`label_changes`](crate::label_changes): those that a new instance begins with, and those that its code
    /// sets and removes. They last as long as the instance, over all its executions. Where a store keeps them, they are no key-values:
    /// [`is_label_key`](crate::is_label_key) tells.
    ///
    /// Default: read off the history of the latest execution.
    async fn labels(&self, instance: &str) -> Result<Labels, ProviderError> {
        let history = existing(self.read_history(instance).await)?;
        Ok(labels_after(&history.unwrap_or_default()))
    }

    /// Changes labels of an instance, whether it runs or has ended, all together or none; see [`Labelling`]. The caller has checked
    /// them. The code of the instance does not hear of it.
    ///
    /// Default: `None`, the store cannot do that.
    async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Result<Option<Labelling>, ProviderError> {
        let _ = (instance, changes);
        Ok(None)
    }

    /// How many of the instances that a query admits have each value of a label; the largest group first, then by value. Instances
    /// without the label are not counted.
    ///
    /// Default: looks at every instance, as [`query_instances`](Self::query_instances).
    async fn count_instances_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Result<Vec<InstanceCount>, ProviderError> {
        let mut counts = BTreeMap::<String, u64>::new();
        for info in admitted(self, query).await? {
            if let Some(value) = self.labels(&info.instance_id).await?.remove(key) {
                *counts.entry(value).or_default() += 1;
            }
        }
        Ok(largest_first(counts))
    }

    /// Keeps what a node says of itself, in place of what it said before, and forgets nodes that were gone for too long. Returns
    /// whether the store keeps nodes at all. Times are those of the store.
    ///
    /// Default: `false`.
    async fn announce_node(&self, node: &NodeInfo, term: NodeTerm) -> Result<bool, ProviderError> {
        let _ = (node, term);
        Ok(false)
    }

    /// A node shuts down: it is not listed any more.
    ///
    /// Default: nothing.
    async fn forget_node(&self, id: &str) -> Result<(), ProviderError> {
        let _ = id;
        Ok(())
    }

    /// The nodes that announced themselves, by name and id, those that are gone included.
    ///
    /// Default: `None`, the store keeps no nodes.
    async fn list_nodes(&self) -> Result<Option<Vec<SeenNode>>, ProviderError> {
        Ok(None)
    }

    /// Takes a duty for a while, keeps it, or gives it back with a time of zero; returns whether the holder has it then. One holder at
    /// a time has a duty: another one gets it after it was given back, or when its time is over by the clock of the store.
    ///
    /// Default: `None`, the store knows no duties.
    async fn hold_duty(
        &self,
        duty: &str,
        holder: &str,
        time: Duration,
    ) -> Result<Option<bool>, ProviderError> {
        let _ = (duty, holder, time);
        Ok(None)
    }

    /// What lies in the queues for one instance; nothing for an unknown one.
    ///
    /// Default: `None`, the store cannot tell.
    async fn pending_work(&self, instance: &str) -> Result<Option<PendingWork>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// One page of the instances that a query admits, in its order.
    ///
    /// A permanent error if the query's cursor was not made by a store, or for another order.
    ///
    /// Default: looks at every instance by the methods above; correct, and as slow as the store is large.
    async fn query_instances(
        &self,
        query: &InstanceQuery,
    ) -> Result<Page<InstanceSummary>, ProviderError> {
        let page = query.page_of(admitted(self, query).await?)?;
        let mut items = Vec::with_capacity(page.items.len());
        for info in page.items {
            if let Some(summary) = existing(summary_of(self, info).await)? {
                items.push(summary);
            }
        }
        let next = page.next;
        Ok(Page { items, next })
    }

    /// How many instances a query admits, whatever its page, in groups; the largest group first, then by key.
    ///
    /// Default: looks at every instance, as [`query_instances`](Self::query_instances).
    async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Result<Vec<InstanceCount>, ProviderError> {
        let mut counts = BTreeMap::<String, u64>::new();
        for info in admitted(self, query).await? {
            let key = match by {
                CountBy::Nothing => String::new(),
                CountBy::Status => InstanceStatus::of_stored(&info.status).as_str().to_owned(),
                CountBy::Name => info.orchestration_name,
                CountBy::Version => info.orchestration_version,
            };
            *counts.entry(key).or_default() += 1;
        }
        if by == CountBy::Nothing {
            counts.entry(String::new()).or_default();
        }
        Ok(largest_first(counts))
    }
}

fn largest_first(counts: BTreeMap<String, u64>) -> Vec<InstanceCount> {
    let count = |(key, count)| InstanceCount { key, count };
    let mut counts: Vec<_> = counts.into_iter().map(count).collect();
    // Stable: equal groups stay in the order of their keys.
    counts.sort_by_key(|one| std::cmp::Reverse(one.count));
    counts
}

/// The instances that a query admits, in no order.
async fn admitted<A: ProviderAdmin + ?Sized>(
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

async fn summary_of<A: ProviderAdmin + ?Sized>(
    admin: &A,
    info: InstanceInfo,
) -> Result<InstanceSummary, ProviderError> {
    let ended_at_ms = ended_at(admin, &info).await?;
    let (id, execution) = (&info.instance_id, info.current_execution_id);
    let history = admin.read_history_with_execution_id(id, execution).await?;
    let paused_at_ms = admin.paused_since(id).await?;
    let labels = admin.labels(id).await?;
    Ok(InstanceSummary {
        status: InstanceStatus::of_stored(&info.status),
        custom_status: history.iter().rev().find_map(told_status).flatten(),
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
fn told_status(event: &Event) -> Option<Option<String>> {
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
fn existing<T>(answer: Result<T, ProviderError>) -> Result<Option<T>, ProviderError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if !error.is_retryable() && error.message.contains("not found") => Ok(None),
        Err(error) => Err(error),
    }
}
