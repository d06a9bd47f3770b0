//! Looking after a store: list, inspect, delete, prune. In: ids and options. Out: what the administrative half of the
//! store answers, or `ManagementNotAvailable` where it has none; what changes something leaves a line in the audit
//! trail.

use duroxide_core::Event;
use duroxide_core::provider::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, PendingWork,
    ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork, RefusalKind,
    SystemMetrics, SystemStats,
};

use super::audit::Change;
use super::{Client, ClientError};

impl Client {
    /// Whether the store can be administered.
    #[must_use]
    pub fn has_management_capability(&self) -> bool {
        self.store.as_management_capability().is_some()
    }

    pub(super) fn admin(&self) -> Result<&dyn ProviderAdmin, ClientError> {
        self.store
            .as_management_capability()
            .ok_or(ClientError::ManagementNotAvailable)
    }

    /// All instances, newest first.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn list_all_instances(&self) -> Result<Vec<String>, ClientError> {
        Ok(self.admin()?.list_instances().await?)
    }

    /// Instances whose current execution is `Running`, `Completed`, `Failed` or `ContinuedAsNew`.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ClientError> {
        Ok(self.admin()?.list_instances_by_status(status).await?)
    }

    /// One instance.
    ///
    /// # Errors
    ///
    /// `InstanceNotFound`, `ManagementNotAvailable`, or what the store says.
    pub async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ClientError> {
        self.admin()?
            .get_instance_info(instance)
            .await
            .map_err(|e| of_instance(e, instance))
    }

    /// One execution.
    ///
    /// # Errors
    ///
    /// `InstanceNotFound`, `ManagementNotAvailable`, or what the store says.
    pub async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ClientError> {
        let admin = self.admin()?;
        match admin.get_execution_info(instance, execution_id).await {
            Ok(info) => Ok(info),
            Err(error) => {
                self.get_instance_info(instance).await?;
                Err(error.into())
            }
        }
    }

    /// Executions of an instance, ascending.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ClientError> {
        Ok(self.admin()?.list_executions(instance).await?)
    }

    /// History of one execution.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn read_execution_history(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ClientError> {
        Ok(self
            .admin()?
            .read_history_with_execution_id(instance, execution_id)
            .await?)
    }

    /// Totals over the store.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn get_system_metrics(&self) -> Result<SystemMetrics, ClientError> {
        Ok(self.admin()?.get_system_metrics().await?)
    }

    /// What waits in the queues.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn get_queue_depths(&self) -> Result<QueueDepths, ClientError> {
        Ok(self.admin()?.get_queue_depths().await?)
    }

    /// An instance with all its descendants.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ClientError> {
        Ok(self.admin()?.get_instance_tree(instance_id).await?)
    }

    /// Sizes of one instance; `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn get_orchestration_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ClientError> {
        Ok(self.store.get_instance_stats(instance).await?)
    }

    /// Work that is ready and that no node has claimed, by the handler it needs; at most `limit` handlers, those that
    /// wait longest first. What stays here needs code that no running node has. `None` if the store cannot tell.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn list_ready_work(&self, limit: u32) -> Result<Option<Vec<ReadyWork>>, ClientError> {
        Ok(self.admin()?.list_ready_work(limit).await?)
    }

    /// What lies in the queues for one instance: messages, timers, activities. `None` if the store cannot tell.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn pending_work(&self, instance: &str) -> Result<Option<PendingWork>, ClientError> {
        Ok(self.admin()?.pending_work(instance).await?)
    }

    /// Deletes a root instance with its descendants. `force` deletes running ones too; it does not stop running code.
    ///
    /// # Errors
    ///
    /// `InstanceNotFound`, `InstanceStillRunning`, `CannotDeleteSubOrchestration`, or what the store says.
    pub async fn delete_instance(
        &self,
        instance_id: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ClientError> {
        let deleted = self
            .admin()?
            .delete_instance(instance_id, force)
            .await
            .map_err(|e| of_instance(e, instance_id))?;
        tracing::info!(target: "duroxide::runtime", instance_id, ?deleted, "deleted instance");
        self.audit(Change::of("delete", instance_id));
        Ok(deleted)
    }

    /// Deletes finished root instances with their descendants.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ClientError> {
        let deleted = self.admin()?.delete_instance_bulk(filter).await?;
        tracing::info!(target: "duroxide::runtime", ?deleted, "deleted instances");
        let detail = format!("{} finished instances", deleted.instances_deleted);
        self.audit(Change::of("delete", "").with_detail(&detail));
        Ok(deleted)
    }

    /// Deletes old executions of one instance.
    ///
    /// # Errors
    ///
    /// `InstanceNotFound`, `ManagementNotAvailable`, or what the store says.
    pub async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ClientError> {
        let pruned = self
            .admin()?
            .prune_executions(instance_id, options)
            .await
            .map_err(|e| of_instance(e, instance_id))?;
        tracing::info!(target: "duroxide::runtime", instance_id, ?pruned, "pruned executions");
        self.audit(Change::of("prune", instance_id));
        Ok(pruned)
    }

    /// Deletes old executions of all instances that match.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ClientError> {
        let pruned = self.admin()?.prune_executions_bulk(filter, options).await?;
        tracing::info!(target: "duroxide::runtime", ?pruned, "pruned executions");
        let detail = format!("{} executions", pruned.executions_deleted);
        self.audit(Change::of("prune", "").with_detail(&detail));
        Ok(pruned)
    }
}

/// What the store says of this instance, as the published error of the client.
fn of_instance(error: ProviderError, instance_id: &str) -> ClientError {
    let refusal = error.refusal_about(instance_id);
    let instance_id = instance_id.to_owned();
    match refusal {
        Some(RefusalKind::NotARoot) => ClientError::CannotDeleteSubOrchestration { instance_id },
        Some(RefusalKind::InstanceNotFound | RefusalKind::ExecutionNotFound) => {
            ClientError::InstanceNotFound { instance_id }
        }
        Some(RefusalKind::StillRunning) => ClientError::InstanceStillRunning { instance_id },
        _ => ClientError::Provider(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_core::provider::rules::Refusal;

    fn answered(refusal: Refusal) -> ClientError {
        of_instance(refusal.into_provider_error("op"), "i")
    }

    #[test]
    fn refusals_about_an_instance_become_errors_of_the_client() {
        let instance = || "i".to_owned();
        let missing = answered(Refusal::InstanceNotFound {
            instance: instance(),
        });
        assert!(matches!(missing, ClientError::InstanceNotFound { .. }));
        let execution = answered(Refusal::ExecutionNotFound {
            instance: instance(),
            execution_id: 3,
        });
        assert!(matches!(execution, ClientError::InstanceNotFound { .. }));
        let running = answered(Refusal::StillRunning {
            instance: instance(),
        });
        assert!(matches!(running, ClientError::InstanceStillRunning { .. }));
        let child = answered(Refusal::NotARoot {
            instance: instance(),
            parent: "p".to_owned(),
        });
        let is_child = matches!(child, ClientError::CannotDeleteSubOrchestration { .. });
        assert!(is_child, "{child}");
    }

    #[test]
    fn other_refusals_keep_their_code() {
        let left = Refusal::ChildLeftBehind {
            parent: "i".to_owned(),
            child: "c".to_owned(),
        };
        let code = left.code();
        assert_eq!(answered(left).code(), code);
    }

    #[test]
    fn what_a_store_can_only_say_in_its_own_words_is_understood() {
        let words = ProviderError::permanent("delete", "order-1 is still running");
        let running = of_instance(words, "order-1");
        assert!(matches!(running, ClientError::InstanceStillRunning { .. }));
    }
}
