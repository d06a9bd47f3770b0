//! The administrative contract over the store: one delegating step per method.

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

use crate::error::{AtOperation as _, SqliteError};
use crate::handle::SqliteProvider;
use crate::ops::closed::while_open;
use crate::ops::{
    delete, delete_family, inspect, label, pause, pending, prune, query, ready, requeue, snapshot,
    space, steps,
};
use crate::requests::LeaseView;
use crate::store::ReadView;
use crate::tables::{
    blocked, closing, dead_letters, deletions, duties, executions, instances, labels, nodes,
    pauses, whole_instance,
};
use crate::tx::{Tx, shown_ms, stored_ms};
use crate::writer_tx::WriterTx;

type Answer<T> = Result<T, ProviderError>;

/// How many instances one transaction of a bulk operation takes, so that turns are not held up behind it.
const BULK_STEP: usize = 32;

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
        self.read_with_execution(instance, execution_id).await
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
        let mut total = self.writing(OPERATION, LeaseView::Needed, step).await?;
        delete::add(&mut total, &self.sweep_deleted(OPERATION).await);
        Ok(total)
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        const OPERATION: &str = "delete_instance_bulk";
        let mut left = usize::try_from(filter.limit.unwrap_or(steps::BULK_LIMIT)).unwrap_or(0);
        let ended_before = filter.completed_before.map(stored_ms);
        let select = move |tx: &mut Tx<'_>| delete::bulk_roots(tx, &filter);
        let roots = self.reading(OPERATION, select).await?;
        let mut total = DeleteInstanceResult::default();
        let mut roots = roots.as_slice();
        while left > 0 && !roots.is_empty() {
            let part = &roots[..roots.len().min(BULK_STEP)];
            let done = self
                .delete_roots(OPERATION, part, ended_before, left)
                .await?;
            left -= done.deleted;
            roots = &roots[done.looked_at..];
            delete::add(&mut total, &done.counts);
            delete::add(&mut total, &self.sweep_deleted(OPERATION).await);
            if let (true, [root, rest @ ..]) = (done.is_too_large && left > 0, roots) {
                let deleted = self.delete_family(OPERATION, root, ended_before).await;
                let (gone, is_whole) = match deleted {
                    Err(error) if !error.is_retryable() && !error.is_store_closed() => {
                        tracing::error!(target: "duroxide::providers::sqlite", instance_id = %root, %error, "a family cannot be deleted because part of it cannot be read; restore a backup");
                        (DeleteInstanceResult::default(), false)
                    }
                    deleted => deleted?,
                };
                delete::add(&mut total, &gone);
                left -= usize::from(is_whole);
                roots = rest;
            }
        }
        Ok(total)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        let mut total = PruneResult::default();
        loop {
            let (id, options) = (instance_id.to_owned(), options.clone());
            let step = move |tx: &mut WriterTx<'_>| prune::step(tx, &id, &options);
            let step = self
                .writing("prune_executions", LeaseView::Needed, step)
                .await?;
            prune::add(&mut total, &step.result);
            if step.is_done {
                return Ok(total);
            }
        }
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        const OPERATION: &str = "prune_executions_bulk";
        let select = move |tx: &mut Tx<'_>| prune::bulk_instances(tx, &filter);
        let mut ids = self.reading(OPERATION, select).await?;
        let mut total = PruneResult::default();
        while !ids.is_empty() {
            // May run again if the transaction it is part of is begun anew.
            let (left, options) = (std::mem::take(&mut ids), options.clone());
            let step = move |tx: &mut WriterTx<'_>| prune::bulk_step(tx, left.clone(), &options);
            let (left, counts) = self.writing(OPERATION, LeaseView::Needed, step).await?;
            ids = left;
            prune::add(&mut total, &counts);
        }
        Ok(total)
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

impl SqliteProvider {
    /// Deletes some roots with their trees. One that cannot be read costs only itself.
    async fn delete_roots(
        &self,
        operation: &str,
        roots: &[String],
        ended_before: Option<i64>,
        limit: usize,
    ) -> Answer<delete::BulkStep> {
        let all = roots.to_vec();
        let step = move |tx: &mut WriterTx<'_>| delete::bulk_step(tx, &all, ended_before, limit);
        let error = match self.store.write(LeaseView::Needed, while_open(step)).await {
            Err(error @ SqliteError::Damaged { .. }) => error,
            done => return done.at(operation),
        };
        let mut total = delete::BulkStep::default();
        if let [root] = roots {
            tracing::error!(target: "duroxide::providers::sqlite", instance_id = %root, %error, "an instance cannot be deleted because part of it cannot be read; restore a backup");
            total.looked_at = 1;
            return Ok(total);
        }
        for root in roots.chunks(1) {
            let left = limit - total.deleted;
            let one = Box::pin(self.delete_roots(operation, root, ended_before, left));
            let one = one.await?;
            total.looked_at += one.looked_at;
            total.deleted += one.deleted;
            delete::add(&mut total.counts, &one.counts);
            if one.is_too_large || one.looked_at == 0 {
                total.is_too_large = one.is_too_large;
                break;
            }
        }
        Ok(total)
    }

    /// Deletes a finished family that is too large for one transaction, step by step; returns what went, and whether
    /// that was all of it.
    async fn delete_family(
        &self,
        operation: &str,
        root: &str,
        ended_before: Option<i64>,
    ) -> Answer<(DeleteInstanceResult, bool)> {
        let mut total = DeleteInstanceResult::default();
        let id = root.to_owned();
        let look = move |tx: &mut Tx<'_>| delete_family::read(tx, &id, ended_before);
        let Some(mut family) = self.reading(operation, look).await? else {
            return Ok((total, false));
        };
        loop {
            let members = family.next();
            if members.is_empty() {
                return Ok((total, true));
            }
            let (root, ended_before) = family.root();
            let (root, going) = (root.to_owned(), members.clone());
            let step =
                move |tx: &mut WriterTx<'_>| delete_family::step(tx, (&root, ended_before), &going);
            let Some(gone) = self.writing(operation, LeaseView::Needed, step).await? else {
                return Ok((total, false));
            };
            family.gone(&members);
            delete::add(&mut total, &gone);
            delete::add(&mut total, &self.sweep_deleted(operation).await);
        }
    }

    /// Deletes what is left of deleted instances; returns what went. The deletion itself is committed: what
    /// fails here is logged, and goes on with the next deletion, opening or claim of the id.
    pub(crate) async fn sweep_deleted(&self, operation: &str) -> DeleteInstanceResult {
        self.sweep_or_log(operation, deletions::next_deleted).await
    }

    /// As [`sweep_deleted`](Self::sweep_deleted), and also removes what interrupted restores left. Only for opening: no
    /// restore of this process runs then.
    pub(crate) async fn sweep_all(&self, operation: &str) {
        self.sweep_or_log(operation, deletions::next).await;
    }

    async fn sweep_or_log(
        &self,
        operation: &str,
        find: fn(&Tx<'_>, Option<&str>) -> Result<Option<String>, SqliteError>,
    ) -> DeleteInstanceResult {
        let mut gone = DeleteInstanceResult::default();
        let mut after: Option<String> = None;
        loop {
            let from = after.clone();
            // Asked of a reader first: there is rarely anything.
            let next = move |tx: &mut Tx<'_>| find(tx, from.as_deref());
            let next = match self.reading(operation, next).await {
                Ok(Some(next)) => next,
                Ok(None) => return gone,
                Err(error) => {
                    tracing::warn!(target: "duroxide::providers::sqlite", %error, "what is left of deleted instances stays for now");
                    return gone;
                }
            };
            let id = next.clone();
            let step = move |tx: &mut WriterTx<'_>| delete::sweep(tx, &id, steps::STEP_ROWS);
            // Swept in a closed store too: no read shows these rows.
            let swept = self.writing_always(operation, LeaseView::Needed, step);
            match swept.await {
                Ok(swept) => delete::add(&mut gone, &swept.counts),
                Err(error) => {
                    tracing::warn!(target: "duroxide::providers::sqlite", instance_id = %next, %error, "what is left of a deleted instance stays for now");
                    after = Some(next);
                }
            }
        }
    }
}
