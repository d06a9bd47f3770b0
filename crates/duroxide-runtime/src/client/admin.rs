//! Looking after a store: list, inspect, delete, prune.

use duroxide_core::Event;
use duroxide_core::provider::{
    DeadLetter, DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree,
    PendingWork, ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork,
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

    /// Dead letters: messages that did not decode or were tried too often.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn list_dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, ClientError> {
        Ok(self.admin()?.list_dead_letters(limit).await?)
    }

    /// One dead letter; `None` if there is none with this number.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn get_dead_letter(&self, id: u64) -> Result<Option<DeadLetter>, ClientError> {
        Ok(self.admin()?.get_dead_letter(id).await?)
    }

    /// How many dead letters there are.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn count_dead_letters(&self) -> Result<u64, ClientError> {
        Ok(self.admin()?.count_dead_letters().await?)
    }

    /// Forgets one dead letter; returns whether it existed.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn delete_dead_letter(&self, id: u64) -> Result<bool, ClientError> {
        let was_there = self.admin()?.delete_dead_letter(id).await?;
        if was_there {
            let detail = format!("dead letter {id}");
            self.audit(Change::of("delete-dead-letter", "").because(&detail));
        }
        Ok(was_there)
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
        self.audit(Change::of("delete", "").because(&detail));
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
        self.audit(Change::of("prune", "").because(&detail));
        Ok(pruned)
    }
}

/// A store can only say why in words; this function knows the words of the contract. Ids are taken out first: they are
/// the user's, and may say anything.
fn of_instance(error: ProviderError, instance_id: &str) -> ClientError {
    let text = without_word(&error.message, instance_id).to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let instance_id = instance_id.to_owned();
    if says(&["delete sub-orchestration", "delete the root"]) {
        ClientError::CannotDeleteSubOrchestration { instance_id }
    } else if says(&["not found"]) {
        ClientError::InstanceNotFound { instance_id }
    } else if says(&["still running", "is running", "are running"]) {
        ClientError::InstanceStillRunning { instance_id }
    } else {
        ClientError::Provider(error)
    }
}

/// The text without an id that stands in it as a word of its own.
fn without_word(text: &str, id: &str) -> String {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(id).filter(|_| !id.is_empty()) {
        let (before, after) = (&rest[..at], &rest[at + id.len()..]);
        kept.push_str(before);
        let stands_alone = is_apart(kept.chars().next_back()) && is_apart(after.chars().next());
        if !stands_alone {
            kept.push_str(id);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_takes_no_letters_out_of_words() {
        assert_eq!(
            without_word("Instance i is running", "i"),
            "Instance  is running"
        );
    }

    #[test]
    fn what_an_id_says_is_not_taken_for_the_words_of_the_store() {
        for id in ["job-running-1", "sub-orchestration-1", "is running"] {
            let error = ProviderError::permanent("get", format!("Instance {id} not found"));
            let answer = of_instance(error, id);
            assert!(
                matches!(answer, ClientError::InstanceNotFound { .. }),
                "{answer}"
            );
        }
        let error = ProviderError::permanent("delete", "Instance not found is still running");
        let answer = of_instance(error, "not found");
        assert!(
            matches!(answer, ClientError::InstanceStillRunning { .. }),
            "{answer}"
        );
    }
}
