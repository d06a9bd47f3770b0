//! The administrative contract over the store: one delegating step per method, as in `provider.rs`. In: arguments of
//! operators. Out: what `ops/` answers. What works in steps is in `deleting.rs` and `restoring.rs`.

use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::{
    BlockNote, Closing, CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, GivenBack,
    HeldIds, Incarnation, InstanceCount, InstanceFilter, InstanceInfo, InstanceQuery,
    InstanceSnapshot, InstanceSummary, InstanceTree, Labelling, NodeInfo, NodeTerm, Page, Pausing,
    PendingWork, Provider, ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths,
    ReadyWork, Requeue, Restoring, SeenNode, StoreReadings, SystemMetrics, walk,
};
use duroxide_core::{INITIAL_EXECUTION_ID, LabelChange, Labels};

use crate::error::AtOperation as _;
use crate::handle::SqliteProvider;
use crate::ops::{
    delete, inspect, label, pause, pending, query, read_history, ready, requeue, snapshot, space,
};
use crate::provider::decoded;
use crate::requests::LeaseView;
use crate::store::ReadView;
use crate::tables::{
    blocked, closing, dead_letters, deletions, duties, executions, instances, labels, nodes,
    pauses, whole_instance,
};
use crate::tx::{Tx, shown_ms};
use crate::writer_tx::WriterTx;

type Answer<T> = Result<T, ProviderError>;

#[async_trait]
impl ProviderAdmin for SqliteProvider {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        let step = |tx: &mut Tx<'_>| instances::list(tx);
        self.reading("list_instances", step).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
        let status = status.to_owned();
        let step = move |tx: &mut Tx<'_>| instances::list_by_status(tx, &status);
        self.reading("list_instances_by_status", step).await
    }

    async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| {
            if deletions::contains(tx, &id)? {
                Ok(Vec::new())
            } else {
                executions::list(tx, &id)
            }
        };
        self.reading("list_executions", step).await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Vec<Event>> {
        const OPERATION: &str = "read_history_with_execution_id";
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| read_history::of_execution(tx, &id, execution_id);
        let rows = self.reading_alone(OPERATION, step).await?;
        decoded(OPERATION, instance, &rows)
    }

    async fn read_history(&self, instance: &str) -> Answer<Vec<Event>> {
        self.read(instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Answer<u64> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| {
            if deletions::contains(tx, &id)? {
                Ok(INITIAL_EXECUTION_ID)
            } else {
                executions::latest_id(tx, &id)
            }
        };
        self.reading("latest_execution_id", step).await
    }

    async fn get_instance_info(&self, instance: &str) -> Answer<InstanceInfo> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| inspect::instance(tx, &id);
        self.reading("get_instance_info", step).await
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Answer<ExecutionInfo> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| inspect::execution(tx, &id, execution_id);
        self.reading("get_execution_info", step).await
    }

    async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
        let step = |tx: &mut Tx<'_>| inspect::metrics(tx);
        self.reading("get_system_metrics", step).await
    }

    async fn count_running_instances(&self) -> Answer<u64> {
        let step = |tx: &mut Tx<'_>| executions::count_running(tx);
        self.reading("count_running_instances", step).await
    }

    async fn readings(&self) -> Answer<StoreReadings> {
        let mut readings = self.store.readings();
        let step = |tx: &mut Tx<'_>| inspect::file(tx);
        let (file, free) = self.reading("readings", step).await?;
        readings.file_bytes = Some(file);
        readings.free_bytes = Some(free);
        Ok(readings)
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        let step = |tx: &mut Tx<'_>| inspect::queue_depths(tx);
        self.reading("get_queue_depths", step).await
    }

    async fn list_children(&self, instance_id: &str) -> Answer<Vec<String>> {
        let id = instance_id.to_owned();
        let step = move |tx: &mut Tx<'_>| instances::children(tx, &id);
        self.reading("list_children", step).await
    }

    async fn get_parent_id(&self, instance_id: &str) -> Answer<Option<String>> {
        let id = instance_id.to_owned();
        let step = move |tx: &mut Tx<'_>| inspect::parent(tx, &id);
        self.reading("get_parent_id", step).await
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Answer<InstanceTree> {
        let id = instance_id.to_owned();
        let step = move |tx: &mut Tx<'_>| inspect::tree(tx, &id);
        self.reading("get_instance_tree", step).await
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Answer<DeleteInstanceResult> {
        const OPERATION: &str = "delete_instances_atomic";
        let ids = ids.to_vec();
        let step = move |tx: &mut WriterTx<'_>| delete::atomic(tx, &ids, force);
        let deleted = self.writing(OPERATION, LeaseView::Needed, step).await?;
        Ok(self.sweep_left_of(OPERATION, deleted).await)
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        self.delete_in_bulk(filter).await
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        self.prune_one(instance_id, &options).await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        self.prune_in_bulk(filter, &options).await
    }

    async fn list_dead_letters(&self, limit: u32) -> Answer<Vec<DeadLetter>> {
        let step = move |tx: &mut Tx<'_>| dead_letters::list(tx, limit);
        self.reading("list_dead_letters", step).await
    }

    async fn list_ready_work(&self, limit: u32) -> Answer<Option<Vec<ReadyWork>>> {
        let step = move |tx: &mut Tx<'_>| ready::run(tx, limit);
        self.reading("list_ready_work", step).await.map(Some)
    }

    async fn pending_work(&self, instance: &str) -> Answer<Option<PendingWork>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| pending::run(tx, &id);
        // A turn that was handed out early may ask for a start in the open transaction.
        let pending = self.store.read(ReadView::OpenTransaction, step).await;
        pending.at("pending_work").map(Some)
    }

    async fn pause_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        let id = instance.to_owned();
        let step = move |tx: &mut WriterTx<'_>| pause::pause(tx, &id, None);
        let paused = self.writing("pause_instance", LeaseView::Needed, step);
        paused.await.map(Some)
    }

    async fn resume_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        let id = instance.to_owned();
        let step = move |tx: &mut WriterTx<'_>| pause::resume(tx, &id, None);
        let resumed = self.writing("resume_instance", LeaseView::Needed, step);
        resumed.await.map(Some)
    }

    async fn pause_life(&self, instance: &str, life: Incarnation) -> Answer<Option<Pausing>> {
        let id = instance.to_owned();
        let step = move |tx: &mut WriterTx<'_>| pause::pause(tx, &id, Some(life));
        let paused = self.writing("pause_life", LeaseView::Needed, step);
        paused.await.map(Some)
    }

    async fn resume_life(&self, instance: &str, life: Incarnation) -> Answer<Option<Pausing>> {
        let id = instance.to_owned();
        let step = move |tx: &mut WriterTx<'_>| pause::resume(tx, &id, Some(life));
        let resumed = self.writing("resume_life", LeaseView::Needed, step);
        resumed.await.map(Some)
    }

    async fn incarnation(&self, instance: &str) -> Answer<Option<Incarnation>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| instances::incarnation(tx, &id);
        self.reading("incarnation", step).await
    }

    async fn paused_since(&self, instance: &str) -> Answer<Option<u64>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| pauses::since(tx, &id);
        let since = self.reading("paused_since", step).await?;
        Ok(since.map(shown_ms))
    }

    fn can_rewind(&self) -> bool {
        true
    }

    async fn labels(&self, instance: &str) -> Answer<Labels> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| labels::of(tx, &id);
        self.reading("labels", step).await
    }

    async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Answer<Option<Labelling>> {
        let (id, changes) = (instance.to_owned(), changes.to_vec());
        let step = move |tx: &mut WriterTx<'_>| label::change(tx, &id, &changes);
        let changed = self.writing("change_labels", LeaseView::Needed, step);
        changed.await.map(Some)
    }

    async fn count_instances_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Answer<Vec<InstanceCount>> {
        if query.waiting_for.is_some() {
            return walk::count_by_label(self, query, key).await;
        }
        let (query, key) = (query.clone(), key.to_owned());
        let step = move |tx: &mut Tx<'_>| query::counts_by_label(tx, &query, &key);
        self.reading("count_instances_by_label", step).await
    }

    async fn announce_node(&self, node: &NodeInfo, term: NodeTerm) -> Answer<bool> {
        let json = serde_json::to_string(node).map_err(|error| {
            ProviderError::permanent(
                "announce_node",
                format!("a node cannot be written: {error}"),
            )
        })?;
        let id = node.id.clone();
        let step = move |tx: &mut WriterTx<'_>| nodes::announce(tx, &id, &json, term);
        let announced = self.writing_always("announce_node", LeaseView::Needed, step);
        announced.await.map(|()| true)
    }

    async fn forget_node(&self, id: &str) -> Answer<()> {
        let id = id.to_owned();
        let step = move |tx: &mut WriterTx<'_>| nodes::forget(tx, &id);
        self.writing_always("forget_node", LeaseView::Needed, step)
            .await
    }

    async fn list_nodes(&self) -> Answer<Option<Vec<SeenNode>>> {
        let step = |tx: &mut Tx<'_>| nodes::list(tx);
        self.reading("list_nodes", step).await.map(Some)
    }

    async fn hold_duty(&self, duty: &str, holder: &str, time: Duration) -> Answer<Option<bool>> {
        let (duty, holder) = (duty.to_owned(), holder.to_owned());
        let step = move |tx: &mut WriterTx<'_>| duties::hold(tx, &duty, &holder, time);
        let held = self.writing("hold_duty", LeaseView::Needed, step).await?;
        Ok(Some(held))
    }

    async fn held_ids(&self, after: Option<&str>, limit: u32) -> Answer<Option<HeldIds>> {
        const OPERATION: &str = "held_ids";
        let position = snapshot::position(after).at(OPERATION)?;
        let step = move |tx: &mut Tx<'_>| whole_instance::held(tx, &position, limit);
        self.reading(OPERATION, step).await.map(Some)
    }

    async fn snapshot_instance(&self, instance: &str) -> Answer<Option<InstanceSnapshot>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| whole_instance::read(tx, &id);
        self.reading("snapshot_instance", step).await.map(Some)
    }

    async fn snapshot_family(&self, instance: &str) -> Answer<Option<Vec<InstanceSnapshot>>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| snapshot::family(tx, &id);
        self.reading("snapshot_family", step).await.map(Some)
    }

    async fn restore_instance(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Answer<Option<Restoring>> {
        self.restore(snapshot, closed).await.map(Some)
    }

    async fn close_store(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Answer<Option<Closing>> {
        let (expected, reason) = (expected.map(str::to_owned), reason.map(str::to_owned));
        let step =
            move |tx: &mut WriterTx<'_>| closing::set(tx, expected.as_deref(), reason.as_deref());
        let closed = self.writing_always("close_store", LeaseView::Needed, step);
        closed.await.map(Some)
    }

    async fn closed_because(&self) -> Answer<Option<String>> {
        let step = |tx: &mut Tx<'_>| closing::reason(tx);
        self.reading("closed_because", step).await
    }

    async fn give_back_space(&self) -> Answer<Option<GivenBack>> {
        let step = |tx: &mut WriterTx<'_>| space::give_back(tx);
        let given = self.writing_always("give_back_space", LeaseView::NotNeeded, step);
        given.await.map(Some)
    }

    async fn query_instances(&self, query: &InstanceQuery) -> Answer<Page<InstanceSummary>> {
        if query.waiting_for.is_some() {
            return walk::page(self, query).await;
        }
        let (query, position) = (query.clone(), query.position()?);
        let step = move |tx: &mut Tx<'_>| query::page(tx, &query, position.as_ref());
        self.reading("query_instances", step).await
    }

    async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Answer<Vec<InstanceCount>> {
        if query.waiting_for.is_some() {
            return walk::count(self, query, by).await;
        }
        let query = query.clone();
        let step = move |tx: &mut Tx<'_>| query::counts(tx, &query, by);
        self.reading("count_instances", step).await
    }

    async fn block_note(&self, instance: &str) -> Answer<Option<BlockNote>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| blocked::of(tx, &id);
        self.reading("block_note", step).await
    }

    async fn get_dead_letter(&self, id: u64) -> Answer<Option<DeadLetter>> {
        let step = move |tx: &mut Tx<'_>| dead_letters::get(tx, id);
        self.reading("get_dead_letter", step).await
    }

    async fn count_dead_letters(&self) -> Answer<u64> {
        let step = |tx: &mut Tx<'_>| dead_letters::count(tx);
        self.reading("count_dead_letters", step).await
    }

    async fn list_dead_letters_of(&self, instance: &str, limit: u32) -> Answer<Vec<DeadLetter>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| dead_letters::list_of(tx, &id, limit);
        self.reading("list_dead_letters_of", step).await
    }

    async fn requeue_dead_letter(&self, id: u64) -> Answer<Option<Requeue>> {
        let step = move |tx: &mut WriterTx<'_>| requeue::run(tx, id);
        self.writing("requeue_dead_letter", LeaseView::Needed, step)
            .await
            .map(Some)
    }

    async fn delete_dead_letter(&self, id: u64) -> Answer<bool> {
        let step = move |tx: &mut WriterTx<'_>| dead_letters::delete(tx, id);
        self.writing("delete_dead_letter", LeaseView::Needed, step)
            .await
    }
}
