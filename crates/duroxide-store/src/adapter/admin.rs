//! The administrative trait, as a table of contents.

use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{
    BlockNote, Closing, DeadLetter, DeleteInstanceResult, ExecutionInfo, HeldIds, Incarnation,
    InstanceFilter, InstanceInfo, InstanceSnapshot, Labelling, NodeInfo, NodeTerm, Pausing,
    PendingWork, ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork,
    Requeue, Restoring, SeenNode, SystemMetrics,
};
use duroxide_core::{Event, LabelChange, Labels};

use super::provider::at;
use super::{
    StoreProvider, blocked, closing, dead_letters, delete, duties, inspect, labels, nodes, pause,
    pending, prune, read, snapshot,
};
use crate::EventStore;

type Answer<T> = Result<T, ProviderError>;

#[async_trait]
impl<S: EventStore + 'static> ProviderAdmin for StoreProvider<S> {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        let all = at("list_instances", inspect::all(&*self.store).await)?;
        Ok(all.into_iter().map(|one| one.id).collect())
    }

    async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
        let ids = inspect::ids_by_status(&*self.store, status).await;
        at("list_instances_by_status", ids)
    }

    async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
        let executions = read::executions(&*self.store, instance).await;
        let executions = at("list_executions", executions)?;
        Ok(executions.into_iter().map(|(id, _)| id).collect())
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Vec<Event>> {
        let history = read::history(&*self.store, instance, execution_id).await;
        at("read_history_with_execution_id", history)
    }

    async fn read_history(&self, instance: &str) -> Answer<Vec<Event>> {
        let history = read::latest_history(&*self.store, instance).await;
        at("read_history", history)
    }

    async fn latest_execution_id(&self, instance: &str) -> Answer<u64> {
        let latest = read::latest_execution(&*self.store, instance).await;
        at("latest_execution_id", latest)
    }

    async fn get_instance_info(&self, instance: &str) -> Answer<InstanceInfo> {
        let info = inspect::instance(&*self.store, instance).await;
        at("get_instance_info", info)
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Answer<ExecutionInfo> {
        let info = inspect::execution(&*self.store, instance, execution_id).await;
        at("get_execution_info", info)
    }

    async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
        at("get_system_metrics", inspect::totals(&*self.store).await)
    }

    async fn count_running_instances(&self) -> Answer<u64> {
        let running = inspect::running(&*self.store).await;
        at("count_running_instances", running)
    }

    async fn block_note(&self, instance: &str) -> Answer<Option<BlockNote>> {
        at("block_note", blocked::of(&*self.store, instance).await)
    }

    async fn list_ready_work(&self, limit: u32) -> Answer<Option<Vec<ReadyWork>>> {
        let ready = inspect::ready_work(&*self.store, limit).await;
        at("list_ready_work", ready).map(Some)
    }

    async fn pending_work(&self, instance: &str) -> Answer<Option<PendingWork>> {
        let pending = pending::run(&*self.store, instance).await;
        at("pending_work", pending).map(Some)
    }

    async fn pause_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        let paused = pause::pause(&*self.store, instance, None).await;
        at("pause_instance", paused).map(Some)
    }

    async fn resume_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        let resumed = pause::resume(&*self.store, instance, None).await;
        at("resume_instance", resumed).map(Some)
    }

    async fn pause_life(&self, instance: &str, life: Incarnation) -> Answer<Option<Pausing>> {
        let paused = pause::pause(&*self.store, instance, Some(life)).await;
        at("pause_life", paused).map(Some)
    }

    async fn resume_life(&self, instance: &str, life: Incarnation) -> Answer<Option<Pausing>> {
        let resumed = pause::resume(&*self.store, instance, Some(life)).await;
        at("resume_life", resumed).map(Some)
    }

    async fn incarnation(&self, instance: &str) -> Answer<Option<Incarnation>> {
        let found = at("incarnation", pause::find(&*self.store, instance).await)?;
        Ok(found.and_then(|found| found.row.incarnation()))
    }

    async fn paused_since(&self, instance: &str) -> Answer<Option<u64>> {
        let since = pause::since(&*self.store, instance).await;
        at("paused_since", since)
    }

    fn can_rewind(&self) -> bool {
        true
    }

    async fn labels(&self, instance: &str) -> Answer<Labels> {
        at("labels", labels::of(&*self.store, instance).await)
    }

    async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Answer<Option<Labelling>> {
        let changed = labels::change(&*self.store, instance, changes).await;
        at("change_labels", changed).map(Some)
    }

    async fn announce_node(&self, node: &NodeInfo, term: NodeTerm) -> Answer<bool> {
        let announced = nodes::announce(&*self.store, node, term).await;
        at("announce_node", announced).map(|()| true)
    }

    async fn forget_node(&self, id: &str) -> Answer<()> {
        at("forget_node", nodes::forget(&*self.store, id).await)
    }

    async fn list_nodes(&self) -> Answer<Option<Vec<SeenNode>>> {
        at("list_nodes", nodes::list(&*self.store).await).map(Some)
    }

    async fn hold_duty(&self, duty: &str, holder: &str, time: Duration) -> Answer<Option<bool>> {
        let held = duties::hold(&*self.store, duty, holder, time).await;
        at("hold_duty", held).map(Some)
    }

    async fn held_ids(&self, after: Option<&str>, limit: u32) -> Answer<Option<HeldIds>> {
        let held = snapshot::held(&*self.store, after, limit).await;
        at("held_ids", held).map(Some)
    }

    async fn snapshot_instance(&self, instance: &str) -> Answer<Option<InstanceSnapshot>> {
        let taken = snapshot::take(&*self.store, instance).await;
        at("snapshot_instance", taken).map(Some)
    }

    async fn snapshot_family(&self, instance: &str) -> Answer<Option<Vec<InstanceSnapshot>>> {
        let taken = snapshot::family(&*self.store, instance).await;
        at("snapshot_family", taken).map(Some)
    }

    async fn restore_instance(
        &self,
        wanted: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Answer<Option<Restoring>> {
        let _one_at_a_time = self.requeue.lock().await;
        let restored = snapshot::restore(&*self.store, wanted, closed).await;
        at("restore_instance", restored).map(Some)
    }

    async fn close_store(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Answer<Option<Closing>> {
        let closed = closing::set(&*self.store, expected, reason).await;
        at("close_store", closed).map(Some)
    }

    async fn closed_because(&self) -> Answer<Option<String>> {
        at("closed_because", closing::reason(&*self.store).await)
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        at("get_queue_depths", inspect::depths(&*self.store).await)
    }

    async fn list_children(&self, instance_id: &str) -> Answer<Vec<String>> {
        let children = inspect::children(&*self.store, instance_id).await;
        at("list_children", children)
    }

    async fn get_parent_id(&self, instance_id: &str) -> Answer<Option<String>> {
        let parent = inspect::parent(&*self.store, instance_id).await;
        at("get_parent_id", parent)
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Answer<DeleteInstanceResult> {
        let deleted = delete::run(&*self.store, ids, force).await;
        at("delete_instances_atomic", deleted)
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        let deleted = delete::bulk(&*self.store, &filter).await;
        at("delete_instance_bulk", deleted)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        let pruned = prune::run(&*self.store, instance_id, &options).await;
        at("prune_executions", pruned)
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        let pruned = prune::bulk(&*self.store, &filter, &options).await;
        at("prune_executions_bulk", pruned)
    }

    async fn list_dead_letters(&self, limit: u32) -> Answer<Vec<DeadLetter>> {
        let letters = dead_letters::list(&*self.store, limit).await;
        at("list_dead_letters", letters)
    }

    async fn get_dead_letter(&self, id: u64) -> Answer<Option<DeadLetter>> {
        let found = dead_letters::get(&*self.store, id).await;
        at("get_dead_letter", found)
    }

    async fn requeue_dead_letter(&self, id: u64) -> Answer<Option<Requeue>> {
        let _one_at_a_time = self.requeue.lock().await;
        let done = dead_letters::requeue(&*self.store, id).await;
        at("requeue_dead_letter", done).map(Some)
    }

    async fn delete_dead_letter(&self, id: u64) -> Answer<bool> {
        let deleted = dead_letters::delete(&*self.store, id).await;
        at("delete_dead_letter", deleted)
    }
}
