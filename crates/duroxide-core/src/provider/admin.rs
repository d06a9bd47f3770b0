//! What operators ask of a store.

use std::any::Any;

use async_trait::async_trait;

use super::{
    DeadLetter, DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree,
    ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork, SystemMetrics,
};
use crate::event::Event;

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
}
