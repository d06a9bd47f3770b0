//! What operators ask of a store: the administrative half of the contract. In: ids, queries, snapshots. Out: what the
//! store holds, or a change under the rules that each method states. No turn runs for any of it, and no claim is
//! needed.

mod defaults;
pub mod walk;

use std::any::Any;
use std::collections::BTreeMap;

use std::time::Duration;

use async_trait::async_trait;

use self::defaults::{admitted, existing, largest_first, summary_of};
use super::rules::Refusal;
use super::{
    BlockNote, Closing, CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, GivenBack,
    HeldIds, Incarnation, InstanceCount, InstanceFilter, InstanceInfo, InstanceQuery,
    InstanceSnapshot, InstanceStatus, InstanceSummary, InstanceTree, Labelling, NodeInfo, NodeTerm,
    Page, Pausing, PendingWork, ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork,
    Requeue, Restoring, SeenNode, StoreReadings, SystemMetrics,
};
use crate::event::Event;
use crate::label::{LabelChange, Labels, labels_after};

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

    /// Totals over the store.
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
            let refusal = Refusal::NotARoot {
                instance: instance_id.to_owned(),
                parent,
            };
            return Err(refusal.into_provider_error("delete_instance"));
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

    /// Dead letters, oldest first.
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

    /// Puts the message of a dead letter back into its queue, as a new message, and forgets the letter: both or
    /// neither, and only if [`DeadLetterOrigin::refusal`](super::DeadLetterOrigin::refusal) has nothing against it,
    /// judged in the same transaction.
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
    /// queued, or come back to the queue, wait. The pause outlives crashes and continue-as-new; it ends when the
    /// instance ends or is deleted. A request to terminate is handed out in spite of it, with the messages that wait; a
    /// request to cancel waits like any other message, however old it is.
    ///
    /// Default: `None`, the store cannot do that.
    async fn pause_instance(&self, instance: &str) -> Result<Option<Pausing>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Ends a pause: messages and activities that waited can be claimed at once, in their order, and the wait counts as
    /// no attempt.
    ///
    /// Default: `None`, the store cannot do that.
    async fn resume_instance(&self, instance: &str) -> Result<Option<Pausing>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// As [`pause_instance`](Self::pause_instance) for this life of the id alone, judged in the same transaction:
    /// another life is no such instance.
    ///
    /// Default: `None`, the store cannot do that.
    async fn pause_life(
        &self,
        instance: &str,
        life: Incarnation,
    ) -> Result<Option<Pausing>, ProviderError> {
        let _ = (instance, life);
        Ok(None)
    }

    /// As [`resume_instance`](Self::resume_instance) for this life of the id alone.
    ///
    /// Default: `None`, the store cannot do that.
    async fn resume_life(
        &self,
        instance: &str,
        life: Incarnation,
    ) -> Result<Option<Pausing>, ProviderError> {
        let _ = (instance, life);
        Ok(None)
    }

    /// Which life of its id an instance is.
    ///
    /// Default: `None`, the store cannot tell.
    async fn incarnation(&self, instance: &str) -> Result<Option<Incarnation>, ProviderError> {
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

    /// What a node noted with [`Provider::note_blocked`](super::Provider::note_blocked), as long as it holds: the
    /// instance is the same life, has not ended, and has no event that it did not have then.
    ///
    /// Default: `None`, the store keeps no notes.
    async fn block_note(&self, instance: &str) -> Result<Option<BlockNote>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Whether an instance whose execution failed can begin another one that shares a part of the failed record, by a
    /// commit like any other: see [`Rewound`](crate::Rewound). Beyond what the published contract asks of a store, that
    /// takes this:
    ///
    /// - changes that an execution made to key-values become the base of later ones when it completes or continues as
    ///   new, and not when it fails: [`merges_key_values`](super::rules::merges_key_values). Clients read them in any
    ///   case;
    /// - a commit that [begins a later execution](super::rules::begins_later_execution) drops changes that are not
    ///   merged;
    /// - custom status and labels follow [`last_custom_status`](super::rules::last_custom_status) and
    ///   [`label_changes`](crate::label_changes), which know rewound executions.
    ///
    /// Default: `false`.
    fn can_rewind(&self) -> bool {
        false
    }

    /// The labels of an instance; none if there is no such instance.
    ///
    /// A commit changes them by [`label_changes`](crate::label_changes): those that a new instance begins with, and
    /// those that its code sets and removes. They last as long as the instance, over all its executions. Where a store
    /// keeps them, they are no key-values: [`is_label_key`](crate::is_label_key) recognises them.
    ///
    /// Default: read off the history of the latest execution.
    async fn labels(&self, instance: &str) -> Result<Labels, ProviderError> {
        let history = existing(self.read_history(instance).await)?;
        Ok(labels_after(&history.unwrap_or_default()))
    }

    /// Changes labels of an instance, whether it runs or has ended, all together or none; see [`Labelling`]. The caller
    /// has checked them. The code of the instance does not hear of it.
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

    /// How many of the instances that a query admits have each value of a label; the largest group first, then by
    /// value. Instances without the label are not counted.
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

    /// Keeps what a node says of itself, in place of what it said before, and forgets nodes that were gone for too
    /// long. Returns whether the store keeps nodes at all. Times are those of the store.
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

    /// Takes a duty for a while, keeps it, or gives it back with a time of zero; returns whether the holder has it
    /// then. One holder at a time has a duty: another one gets it after it was given back, or when its time is over by
    /// the clock of the store.
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

    /// Ids that the store holds anything of, a page at a time: instances, oldest first as far as the store knows, then
    /// ids of which only messages, activities or dead letters are there. `after` is what the page before returned as
    /// its next, `None` for the first page. An id may come twice; one that is there from the first page to the last
    /// comes at least once.
    ///
    /// Default: `None`, the store cannot tell.
    async fn held_ids(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Option<HeldIds>, ProviderError> {
        let _ = (after, limit);
        Ok(None)
    }

    /// Everything that the store holds of one instance, read as one state; an empty snapshot for an unknown id. What is
    /// claimed is reported as if it were not: leases, sessions and rests are no part of a snapshot.
    ///
    /// Default: `None`, the store cannot do that.
    async fn snapshot_instance(
        &self,
        instance: &str,
    ) -> Result<Option<InstanceSnapshot>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Snapshots of an instance and all its descendants, parents before children, read as one state: what a child sent
    /// is either in its own queue or with its parent, and never in neither. Children that were asked for and have not
    /// begun belong to it, by [`awaited_children`](InstanceSnapshot::awaited_children). Nothing for an unknown id.
    ///
    /// Default: `None`, the store cannot do that.
    async fn snapshot_family(
        &self,
        instance: &str,
    ) -> Result<Option<Vec<InstanceSnapshot>>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// Brings an instance into the store as a snapshot has it, with its queues and lives: all of it or nothing, and
    /// only if the store holds nothing of its id, and is closed with exactly this reason (`None`: is open) at that
    /// moment, judged in the same transaction. It goes on from there: what was ready can be claimed at once, what was
    /// delayed when it is due, in the same order, with the same attempts. A snapshot of it equals the one that was
    /// restored, if that was [`settled`](InstanceSnapshot::settled). The parent may come later.
    ///
    /// Default: `None`, the store cannot do that.
    ///
    /// # Errors
    ///
    /// A permanent one if [`InstanceSnapshot::check`] has something against it.
    async fn restore_instance(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Result<Option<Restoring>, ProviderError> {
        let _ = (snapshot, closed);
        Ok(None)
    }

    /// Closes the store for the engine, its clients and its operators, changes why it is closed, or (a reason of
    /// `None`) opens it again; all this only if it is closed with exactly the `expected` reason (`None`: is open) at
    /// that moment. The answer says who lost a race.
    ///
    /// From then on everything that would change an instance fails for good, with the reason in the error, also for
    /// those that had the store open before: messages, claims, commits, results, turns and activities that are given
    /// back, heartbeats, dead letters, deletions, prunings, labels, pauses, duties. What was in flight when it returns
    /// is committed or refused. Reads, snapshots, renewals of leases, announcements of nodes and
    /// [`restore_instance`](Self::restore_instance) go on. A claim fails also if there is nothing to claim. What waits
    /// for others to end waits for a moment only; a call that failed does not close the store later.
    ///
    /// Default: `None`, the store cannot do that.
    async fn close_store(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Result<Option<Closing>, ProviderError> {
        let _ = (expected, reason);
        Ok(None)
    }

    /// Why the store is closed; `None` if it is open.
    ///
    /// Default: `None`.
    async fn closed_because(&self) -> Result<Option<String>, ProviderError> {
        Ok(None)
    }

    /// Gives some of the space that deletions left back to the file system, in a step that blocks other calls only
    /// briefly.
    ///
    /// Default: `None`, the store looks after its space itself.
    async fn give_back_space(&self) -> Result<Option<GivenBack>, ProviderError> {
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
