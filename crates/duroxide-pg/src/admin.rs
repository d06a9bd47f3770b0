//! The administrative contract over the store: each method delegates to its operation.

use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::{
    Closing, CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, HeldIds, InstanceCount,
    InstanceFilter, InstanceInfo, InstanceQuery, InstanceSnapshot, InstanceSummary, InstanceTree,
    Labelling, NodeInfo, NodeTerm, Page, Pausing, PendingWork, Provider, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork, Requeue, Restoring, SeenNode,
    SystemMetrics,
};
use duroxide_core::{LabelChange, Labels};
use tokio_postgres::types::Type;

use crate::ops::ask::only;
use crate::ops::inspect::not_found;
use crate::provider::{Answer, PostgresProvider, named};
use crate::text;
use crate::time::shown_ms;

#[async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        let sql = "SELECT instance_id FROM {s}.instances ORDER BY number DESC";
        named("list_instances")(self.store.ids(sql, &[]).await)
    }

    async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
        let sql = "SELECT i.instance_id FROM {current} WHERE e.status = $1 ORDER BY i.number DESC";
        let status = text::owned(status);
        named("list_instances_by_status")(self.store.ids(sql, &[(&status, Type::TEXT)]).await)
    }

    async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
        const OPERATION: &str = "list_executions";
        let id = text::owned(instance);
        let sql =
            "SELECT execution_id FROM {s}.executions WHERE instance_id = $1 ORDER BY execution_id";
        let rows = named(OPERATION)(self.store.ask(sql, &[(&id, Type::TEXT)]).await)?;
        let read = rows.iter().map(|row| Ok(shown_ms(row.try_get(0)?)));
        named(OPERATION)(read.collect())
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
        const OPERATION: &str = "latest_execution_id";
        let id = text::owned(instance);
        let sql =
            "SELECT coalesce(max(execution_id), 1) FROM {s}.executions WHERE instance_id = $1";
        let rows = named(OPERATION)(self.store.ask(sql, &[(&id, Type::TEXT)]).await)?;
        let read = only(&rows).and_then(|row| Ok(shown_ms(row.try_get(0)?)));
        named(OPERATION)(read)
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
        const OPERATION: &str = "count_running_instances";
        let sql = "SELECT count(*) FROM {s}.executions WHERE status = 'Running'";
        let rows = named(OPERATION)(self.store.ask(sql, &[]).await)?;
        let read = only(&rows).and_then(|row| Ok(shown_ms(row.try_get(0)?)));
        named(OPERATION)(read)
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        named("get_queue_depths")(self.store.queue_depths().await)
    }

    async fn list_children(&self, instance_id: &str) -> Answer<Vec<String>> {
        let id = text::owned(instance_id);
        let sql = "SELECT c.instance_id FROM {s}.instances AS c LEFT JOIN {s}.instances AS p
                ON p.instance_id = c.parent_instance_id
            WHERE c.parent_instance_id = $1
              AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation)
            ORDER BY c.number";
        named("list_children")(self.store.ids(sql, &[(&id, Type::TEXT)]).await)
    }

    async fn get_parent_id(&self, instance_id: &str) -> Answer<Option<String>> {
        named("get_parent_id")(self.store.parent(instance_id).await)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Answer<InstanceTree> {
        let id = text::owned(instance_id);
        let sql = "SELECT t FROM {s}.instance_tree($1) AS t";
        let ids = self.store.ids(sql, &[(&id, Type::TEXT)]).await;
        Ok(InstanceTree {
            root_id: instance_id.to_owned(),
            all_ids: named("get_instance_tree")(ids)?,
        })
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
        const OPERATION: &str = "prune_executions";
        let pruned = named(OPERATION)(self.store.prune_one(instance_id, &options).await)?;
        let missing = || -> ProviderError { not_found(instance_id).into_provider_error(OPERATION) };
        pruned.ok_or_else(missing)
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
        const OPERATION: &str = "delete_dead_letter";
        let Ok(id) = i64::try_from(id) else {
            return Ok(false);
        };
        let sql = "DELETE FROM {s}.dead_letters WHERE id = $1 RETURNING 1";
        let rows = named(OPERATION)(self.store.ask(sql, &[(&id, Type::INT8)]).await)?;
        Ok(!rows.is_empty())
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
        let position = query.position()?;
        named("query_instances")(self.store.page(query, position.as_ref()).await)
    }

    async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Answer<Vec<InstanceCount>> {
        named("count_instances")(self.store.counts(query, by).await)
    }

    async fn list_ready_work(&self, limit: u32) -> Answer<Option<Vec<ReadyWork>>> {
        named("list_ready_work")(self.store.ready_work(limit).await).map(Some)
    }
}
