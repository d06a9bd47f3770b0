//! The administrative half: look, delete, prune.

use std::collections::HashMap;

use async_trait::async_trait;
use duroxide_core::provider::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics, SystemStats, rules,
};
use duroxide_core::{Event, WorkItem};

use super::provider::TinyProvider;
use super::state::{Instance, Result, State};

const BULK_LIMIT: u32 = 1000;

fn not_found(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("Instance {instance} not found"))
}

impl State {
    /// All values as a client sees them: the running execution's changes over the rest.
    pub(crate) fn values(&self, instance: &str) -> HashMap<String, String> {
        let Some(row) = self.instances.get(instance) else {
            return HashMap::new();
        };
        let mut all = row.kv_base.clone();
        for (key, entry) in &row.kv_delta {
            match entry {
                Some(entry) => drop(all.insert(key.clone(), entry.clone())),
                None => drop(all.remove(key)),
            }
        }
        all.into_iter()
            .map(|(key, entry)| (key, entry.value))
            .collect()
    }

    pub(crate) fn stats(&self, instance: &str) -> Result<Option<SystemStats>> {
        let Some(execution) = self.current(instance) else {
            return Ok(None);
        };
        let row = &self.instances[instance];
        let history = self.read_execution(instance, row.execution)?;
        let started = history.first().map(|event| &event.kind);
        let carried = started.map_or(0, rules::carried_messages);
        let values = self.values(instance);
        Ok(Some(SystemStats {
            history_event_count: execution.events.len() as u64,
            history_size_bytes: execution
                .events
                .values()
                .map(|json| json.len() as u64)
                .sum(),
            queue_pending_count: carried as u64,
            kv_user_key_count: values.len() as u64,
            kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
        }))
    }

    fn newest_first(&self, wanted: impl Fn(&str, &Instance) -> bool) -> Vec<String> {
        let rows = self.instances.iter().filter(|(id, row)| wanted(id, row));
        let mut rows: Vec<_> = rows.map(|(id, row)| (row.row, id.clone())).collect();
        rows.sort_by(|a, b| b.cmp(a));
        rows.into_iter().map(|(_, id)| id).collect()
    }

    fn status(&self, instance: &str) -> &str {
        self.current(instance)
            .map_or("Unknown", |execution| execution.status.as_str())
    }

    fn executions_of(&self, instance: &str) -> Vec<u64> {
        let all = self
            .executions
            .range((instance.to_owned(), 0)..=(instance.to_owned(), u64::MAX));
        all.map(|((_, execution), _)| *execution).collect()
    }

    fn children(&self, instance: &str) -> Vec<String> {
        self.newest_first(|_, row| row.parent.as_deref() == Some(instance))
    }

    fn tree(&self, instance: &str) -> Vec<String> {
        let mut all = vec![instance.to_owned()];
        let mut next = 0;
        while let Some(id) = all.get(next) {
            let children = self.children(id);
            all.extend(children);
            next += 1;
        }
        all
    }

    fn delete(&mut self, ids: &[String], force: bool) -> Result<DeleteInstanceResult> {
        let refuse = |text: String| Err(ProviderError::permanent("delete_instances_atomic", text));
        if let Some(id) = ids.iter().find(|id| !force && self.status(id) == "Running") {
            return refuse(format!("Instance {id} is still running"));
        }
        let stays = |id: &String| !ids.contains(id);
        if let Some(child) = ids.iter().flat_map(|id| self.children(id)).find(stays) {
            return refuse(format!(
                "child {child} would be left behind; delete the whole tree"
            ));
        }
        let mut deleted = DeleteInstanceResult::default();
        for id in ids {
            deleted.instances_deleted += u64::from(self.instances.remove(id).is_some());
            self.leases.remove(id);
            for execution in self.executions_of(id) {
                let gone = self.executions.remove(&(id.clone(), execution));
                deleted.executions_deleted += 1;
                deleted.events_deleted += gone.map_or(0, |execution| execution.events.len() as u64);
            }
            let before = self.messages.len() + self.activities.len();
            self.messages.retain(|_, message| message.instance != *id);
            self.activities
                .retain(|_, activity| activity.item.target_instance() != id);
            let after = self.messages.len() + self.activities.len();
            deleted.queue_messages_deleted += (before - after) as u64;
        }
        Ok(deleted)
    }

    /// Whether everything in the tree has ended for good.
    fn is_over(&self, root: &str) -> bool {
        let over = |id: &String| matches!(self.status(id), "Completed" | "Failed");
        self.tree(root).iter().all(over)
    }

    fn matching(&self, filter: &InstanceFilter) -> Vec<String> {
        let listed = |id: &str| {
            let ids = filter.instance_ids.as_ref();
            ids.is_none_or(|ids| ids.iter().any(|wanted| wanted == id))
        };
        let ended = |id: &str| {
            let completed_at = self
                .current(id)
                .and_then(|execution| execution.completed_at);
            filter
                .completed_before
                .is_none_or(|time| completed_at.is_some_and(|at| at < time))
        };
        // Oldest first, so that whoever cleans up in steps comes to an end.
        let mut matching = self.newest_first(|id, _| listed(id) && ended(id));
        matching.reverse();
        matching
    }

    fn delete_bulk(&mut self, filter: &InstanceFilter) -> Result<DeleteInstanceResult> {
        let limit = filter.limit.unwrap_or(BULK_LIMIT) as usize;
        let mut roots = self.matching(filter);
        roots.retain(|id| self.instances[id].parent.is_none() && self.is_over(id));
        roots.truncate(limit);
        let mut total = DeleteInstanceResult::default();
        for root in roots {
            let deleted = self.delete(&self.tree(&root), false)?;
            total.instances_deleted += deleted.instances_deleted;
            total.executions_deleted += deleted.executions_deleted;
            total.events_deleted += deleted.events_deleted;
            total.queue_messages_deleted += deleted.queue_messages_deleted;
        }
        Ok(total)
    }

    fn prune(&mut self, instance: &str, options: &PruneOptions) -> Result<PruneResult> {
        let Some(row) = self.instances.get(instance) else {
            return Err(not_found("prune_executions", instance));
        };
        let current = row.execution;
        let all = self.executions_of(instance);
        let keep = options.keep_last.unwrap_or(1).max(1) as usize;
        let old = &all[..all.len().saturating_sub(keep)];
        let mut result = PruneResult {
            instances_processed: 1,
            ..PruneResult::default()
        };
        for execution in old.iter().filter(|execution| **execution != current) {
            let key = (instance.to_owned(), *execution);
            let ended = self.executions[&key].completed_at;
            let before = options.completed_before;
            let is_old = before.is_none_or(|time| ended.is_some_and(|at| at < time));
            if self.executions[&key].status != "Running" && is_old {
                let gone = self.executions.remove(&key);
                result.executions_deleted += 1;
                result.events_deleted += gone.map_or(0, |execution| execution.events.len() as u64);
            }
        }
        Ok(result)
    }

    fn depths(&self, now: u64) -> QueueDepths {
        let leased = |id: &str| self.leases.get(id).filter(|lease| lease.until > now);
        let mut depths = QueueDepths::default();
        for message in self.messages.values() {
            let holder = leased(&message.instance).map(|lease| &lease.token);
            let is_timer = matches!(message.item, WorkItem::TimerFired { .. });
            if message.token.is_some() && message.token.as_ref() == holder {
                continue;
            } else if is_timer && message.visible_at > now {
                depths.timer_queue += 1;
            } else {
                depths.orchestrator_queue += 1;
            }
        }
        let waiting = self.activities.values().filter(|a| a.locked_until <= now);
        depths.worker_queue = waiting.count();
        depths
    }

    fn metrics(&self) -> SystemMetrics {
        let count = |status: &str| {
            let with = self.instances.keys().filter(|id| self.status(id) == status);
            with.count() as u64
        };
        SystemMetrics {
            total_instances: self.instances.len() as u64,
            total_executions: self.executions.len() as u64,
            running_instances: count("Running"),
            completed_instances: count("Completed"),
            failed_instances: count("Failed"),
            total_events: self
                .executions
                .values()
                .map(|e| e.events.len() as u64)
                .sum(),
        }
    }
}

#[async_trait]
impl ProviderAdmin for TinyProvider {
    async fn list_instances(&self) -> Result<Vec<String>> {
        Ok(self.step(|state, _| state.newest_first(|_, _| true)))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>> {
        Ok(self.step(|state, _| state.newest_first(|id, _| state.status(id) == status)))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>> {
        Ok(self.step(|state, _| state.executions_of(instance)))
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>> {
        self.step(|state, _| state.read_execution(instance, execution_id))
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>> {
        self.step(|state, _| state.read(instance))
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64> {
        Ok(self.step(|state, _| state.latest(instance).unwrap_or(1)))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo> {
        self.step(|state, _| {
            let row = state.instances.get(instance);
            let row = row.ok_or_else(|| not_found("get_instance_info", instance))?;
            Ok(InstanceInfo {
                instance_id: instance.to_owned(),
                orchestration_name: row.name.clone(),
                orchestration_version: row.version.clone(),
                current_execution_id: row.execution,
                status: state.status(instance).to_owned(),
                output: state.current(instance).and_then(|e| e.output.clone()),
                created_at: row.created_at,
                updated_at: row.updated_at,
                parent_instance_id: row.parent.clone(),
            })
        })
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo> {
        self.step(|state, _| {
            let found = state.execution(instance, execution_id).ok_or_else(|| {
                let text = format!("Execution {execution_id} not found for instance {instance}");
                ProviderError::permanent("get_execution_info", text)
            })?;
            Ok(ExecutionInfo {
                execution_id,
                status: found.status.clone(),
                output: found.output.clone(),
                started_at: found.started_at,
                completed_at: found.completed_at,
                event_count: found.events.len(),
            })
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics> {
        Ok(self.step(|state, _| state.metrics()))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths> {
        Ok(self.step(|state, now| state.depths(now)))
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>> {
        Ok(self.step(|state, _| state.children(instance_id)))
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>> {
        self.step(|state, _| {
            let row = state.instances.get(instance_id);
            let row = row.ok_or_else(|| not_found("get_parent_id", instance_id))?;
            Ok(row.parent.clone())
        })
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult> {
        self.step(|state, _| state.delete(ids, force))
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult> {
        self.step(|state, _| state.delete_bulk(&filter))
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult> {
        self.step(|state, _| state.prune(instance_id, &options))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult> {
        self.step(|state, _| {
            let mut total = PruneResult::default();
            let limit = filter.limit.unwrap_or(BULK_LIMIT) as usize;
            for instance in state.matching(&filter).into_iter().take(limit) {
                let pruned = state.prune(&instance, &options)?;
                total.instances_processed += 1;
                total.executions_deleted += pruned.executions_deleted;
                total.events_deleted += pruned.events_deleted;
            }
            Ok(total)
        })
    }
}
