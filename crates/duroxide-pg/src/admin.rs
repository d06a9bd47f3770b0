//! The administrative contract: a table of contents. Each method delegates to its operation in `ops/`.

use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::{
    BlockNote, Closing, CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, HeldIds,
    Incarnation, InstanceCount, InstanceFilter, InstanceInfo, InstanceQuery, InstanceSnapshot,
    InstanceSummary, InstanceTree, Labelling, NodeInfo, NodeTerm, Page, Pausing, PendingWork,
    Provider, ProviderAdmin, PruneOptions, PruneResult, QueueDepths, ReadyWork, Requeue, Restoring,
    SeenNode, SystemMetrics, walk,
};
use duroxide_core::{LabelChange, Labels};

use crate::error::{Answer, named};
use crate::handle::PostgresProvider;

#[async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        named("list_instances")(self.store.instance_ids().await)
    }

    async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
        named("list_instances_by_status")(self.store.ids_with_status(status).await)
    }

    async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
        named("list_executions")(self.store.executions(instance).await)
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Vec<Event>> {
        self.read_with_execution(instance, execution_id).await
    }

    async fn read_history(&self, instance: &str) -> Answer<Vec<Event>> {
        self.read(instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Answer<u64> {
        named("latest_execution_id")(self.store.latest_execution(instance).await)
    }

    async fn get_instance_info(&self, instance: &str) -> Answer<InstanceInfo> {
        named("get_instance_info")(self.store.instance_info(instance).await)
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Answer<ExecutionInfo> {
        named("get_execution_info")(self.store.execution_info(instance, execution_id).await)
    }

    async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
        named("get_system_metrics")(self.store.metrics().await)
    }

    async fn count_running_instances(&self) -> Answer<u64> {
        named("count_running_instances")(self.store.running().await)
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        named("get_queue_depths")(self.store.queue_depths().await)
    }

    async fn list_children(&self, instance_id: &str) -> Answer<Vec<String>> {
        named("list_children")(self.store.children(instance_id).await)
    }

    async fn get_parent_id(&self, instance_id: &str) -> Answer<Option<String>> {
        named("get_parent_id")(self.store.parent(instance_id).await)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Answer<InstanceTree> {
        named("get_instance_tree")(self.store.tree(instance_id).await)
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Answer<DeleteInstanceResult> {
        named("delete_instances_atomic")(self.store.delete_together(ids, force).await)
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        named("delete_instance_bulk")(self.store.delete_bulk(&filter).await)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        named("prune_executions")(self.store.prune_known(instance_id, &options).await)
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        named("prune_executions_bulk")(self.store.prune_bulk(&filter, &options).await)
    }

    async fn held_ids(&self, after: Option<&str>, limit: u32) -> Answer<Option<HeldIds>> {
        named("held_ids")(self.store.held(after, limit).await).map(Some)
    }

    async fn snapshot_instance(&self, instance: &str) -> Answer<Option<InstanceSnapshot>> {
        named("snapshot_instance")(self.store.snapshot(instance).await).map(Some)
    }

    async fn snapshot_family(&self, instance: &str) -> Answer<Option<Vec<InstanceSnapshot>>> {
        named("snapshot_family")(self.store.family(instance).await).map(Some)
    }

    async fn restore_instance(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Answer<Option<Restoring>> {
        named("restore_instance")(self.store.restore(snapshot, closed).await).map(Some)
    }

    async fn close_store(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Answer<Option<Closing>> {
        named("close_store")(self.store.close_or_open(expected, reason).await).map(Some)
    }

    async fn closed_because(&self) -> Answer<Option<String>> {
        named("closed_because")(self.store.closing().await)
    }

    async fn list_dead_letters(&self, limit: u32) -> Answer<Vec<DeadLetter>> {
        named("list_dead_letters")(self.store.dead_letters(limit).await)
    }

    async fn delete_dead_letter(&self, id: u64) -> Answer<bool> {
        named("delete_dead_letter")(self.store.delete_dead_letter(id).await)
    }

    async fn requeue_dead_letter(&self, id: u64) -> Answer<Option<Requeue>> {
        named("requeue_dead_letter")(self.store.requeue(id).await).map(Some)
    }

    async fn pending_work(&self, instance: &str) -> Answer<Option<PendingWork>> {
        named("pending_work")(self.store.pending(instance).await).map(Some)
    }

    async fn pause_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        named("pause_instance")(self.store.pause(instance).await).map(Some)
    }

    async fn resume_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        named("resume_instance")(self.store.resume(instance).await).map(Some)
    }

    async fn pause_life(&self, instance: &str, life: Incarnation) -> Answer<Option<Pausing>> {
        named("pause_life")(self.store.pause_life(instance, life).await).map(Some)
    }

    async fn resume_life(&self, instance: &str, life: Incarnation) -> Answer<Option<Pausing>> {
        named("resume_life")(self.store.resume_life(instance, life).await).map(Some)
    }

    async fn incarnation(&self, instance: &str) -> Answer<Option<Incarnation>> {
        named("incarnation")(self.store.incarnation_of(instance).await)
    }

    async fn paused_since(&self, instance: &str) -> Answer<Option<u64>> {
        named("paused_since")(self.store.pause_of(instance).await)
    }

    fn can_rewind(&self) -> bool {
        true
    }

    async fn labels(&self, instance: &str) -> Answer<Labels> {
        named("labels")(self.store.labels_of(instance).await)
    }

    async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Answer<Option<Labelling>> {
        named("change_labels")(self.store.label(instance, changes).await).map(Some)
    }

    async fn count_instances_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Answer<Vec<InstanceCount>> {
        if query.waiting_for.is_some() {
            return walk::count_by_label(self, query, key).await;
        }
        named("count_instances_by_label")(self.store.counts_by_label(query, key).await)
    }

    async fn announce_node(&self, node: &NodeInfo, term: NodeTerm) -> Answer<bool> {
        let announced = self.store.node_announced(node, term).await;
        named("announce_node")(announced).map(|()| true)
    }

    async fn forget_node(&self, id: &str) -> Answer<()> {
        named("forget_node")(self.store.node_forgotten(id).await)
    }

    async fn list_nodes(&self) -> Answer<Option<Vec<SeenNode>>> {
        named("list_nodes")(self.store.nodes().await).map(Some)
    }

    async fn hold_duty(&self, duty: &str, holder: &str, time: Duration) -> Answer<Option<bool>> {
        named("hold_duty")(self.store.duty_held(duty, holder, time).await).map(Some)
    }

    async fn query_instances(&self, query: &InstanceQuery) -> Answer<Page<InstanceSummary>> {
        if query.waiting_for.is_some() {
            return walk::page(self, query).await;
        }
        let position = query.position()?;
        named("query_instances")(self.store.page(query, position.as_ref()).await)
    }

    async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Answer<Vec<InstanceCount>> {
        if query.waiting_for.is_some() {
            return walk::count(self, query, by).await;
        }
        named("count_instances")(self.store.counts(query, by).await)
    }

    async fn block_note(&self, instance: &str) -> Answer<Option<BlockNote>> {
        named("block_note")(self.store.block_note_of(instance).await)
    }

    async fn list_ready_work(&self, limit: u32) -> Answer<Option<Vec<ReadyWork>>> {
        named("list_ready_work")(self.store.ready_work(limit).await).map(Some)
    }
}
