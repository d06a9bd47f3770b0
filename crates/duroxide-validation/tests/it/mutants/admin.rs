//! Flaws of the administrative half.

use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{
    BlockNote, Closing, CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, HeldIds,
    Incarnation, InstanceCount, InstanceFilter, InstanceInfo, InstanceQuery, InstanceSnapshot,
    InstanceSummary, InstanceTree, Labelling, NodeInfo, NodeTerm, Page, Pausing, PendingWork,
    Provider, ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork,
    Requeue, Restoring, SeenNode, SystemMetrics,
};
use duroxide_core::{Event, LabelChange, Labels};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

impl Mutant {
    pub(super) fn reference(&self) -> &dyn ProviderAdmin {
        self.inner
            .as_management_capability()
            .expect("the reference store has an administrative half")
    }

    fn as_listed(&self, mut ids: Vec<String>) -> Vec<String> {
        if self.has(Flaw::ListsOldestFirst) {
            ids.reverse();
        }
        ids
    }

    async fn delete_everything(&self) -> Result<DeleteInstanceResult> {
        let mut total = DeleteInstanceResult::default();
        for id in self.reference().list_instances().await? {
            if let Ok(deleted) = self.reference().delete_instance(&id, true).await {
                total.instances_deleted += deleted.instances_deleted;
            }
        }
        Ok(total)
    }
}

#[async_trait]
impl ProviderAdmin for Mutant {
    async fn list_instances(&self) -> Result<Vec<String>> {
        Ok(self.as_listed(self.reference().list_instances().await?))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>> {
        Ok(self.as_listed(self.reference().list_instances_by_status(status).await?))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>> {
        self.reference().list_executions(instance).await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>> {
        self.as_read(self.inner.read_with_execution(instance, execution_id).await)
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>> {
        self.as_read(self.inner.read(instance).await)
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64> {
        self.reference().latest_execution_id(instance).await
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo> {
        let mut info = self.reference().get_instance_info(instance).await?;
        if self.has(Flaw::OutputIsEmptyText) {
            info.output = Some(info.output.unwrap_or_default());
        }
        if self.has(Flaw::TimesAreZero) {
            info.created_at = 0;
        }
        Ok(info)
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo> {
        let mut info = self
            .reference()
            .get_execution_info(instance, execution_id)
            .await?;
        if self.has(Flaw::OutputIsEmptyText) {
            info.output = Some(info.output.unwrap_or_default());
        }
        if self.has(Flaw::TimesAreZero) {
            info.started_at = 0;
        }
        Ok(info)
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics> {
        self.reference().get_system_metrics().await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths> {
        let mut depths = self.reference().get_queue_depths().await?;
        if self.has(Flaw::DepthsCountClaimed) {
            depths.orchestrator_queue += self.notes.lock().open_turns.len();
        }
        Ok(depths)
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>> {
        self.children(instance_id).await
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree> {
        let mut tree = self.reference().get_instance_tree(instance_id).await?;
        if self.has(Flaw::TreeIsUnordered)
            && let Some(descendants) = tree.all_ids.get_mut(1..)
        {
            descendants.reverse();
        }
        Ok(tree)
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>> {
        self.reference().get_parent_id(instance_id).await
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult> {
        let force = force || self.has(Flaw::DeletesRunning);
        self.note_deleted(ids).await?;
        if self.has(Flaw::DeletionLeavesMessages) || self.has(Flaw::DeletionTakesMessagesFirst) {
            return self.delete_torn(ids, force).await;
        }
        let deleted = self.reference().delete_instances_atomic(ids, force);
        match self.flaw {
            Flaw::ClosedStoreDeletes => self.as_if_open(deleted).await,
            _ => deleted.await,
        }
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult> {
        if self.has(Flaw::BulkDeletesAll) {
            return self.delete_everything().await;
        }
        if self.has(Flaw::LimitCountsChildren) && filter.limit.is_some() {
            return self.delete_counting_members(filter).await;
        }
        if self.has(Flaw::BulkTakesNewest) {
            return self.delete_newest(filter).await;
        }
        let mut deleted = self.reference().delete_instance_bulk(filter).await?;
        if self.has(Flaw::BulkCountsOneMore) {
            deleted.instances_deleted += 1;
        }
        Ok(deleted)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        mut options: PruneOptions,
    ) -> Result<PruneResult> {
        if self.has(Flaw::PrunesTooMuch) {
            options.keep_last = None;
        }
        self.reference()
            .prune_executions(instance_id, options)
            .await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult> {
        self.reference()
            .prune_executions_bulk(filter, options)
            .await
    }

    async fn list_ready_work(&self, limit: u32) -> Result<Option<Vec<ReadyWork>>> {
        self.ready_work(limit).await
    }

    async fn pending_work(&self, instance: &str) -> Result<Option<PendingWork>> {
        let mut pending = self.inner.pending_work(instance).await?;
        if let (Some(pending), Flaw::PendingForgetsLeases) = (&mut pending, self.flaw) {
            pending.turn_leased_until_ms = None;
            let activities = pending.activities.iter_mut();
            activities.for_each(|activity| activity.leased_until_ms = None);
        }
        if let (Some(pending), Flaw::PendingTellsOneMessage) = (&mut pending, self.flaw) {
            pending.messages.truncate(1);
        }
        if let Some(pending) = &mut pending {
            self.as_pending(pending);
        }
        Ok(pending)
    }

    async fn held_ids(&self, after: Option<&str>, limit: u32) -> Result<Option<HeldIds>> {
        self.held(after, limit).await
    }

    async fn snapshot_instance(&self, instance: &str) -> Result<Option<InstanceSnapshot>> {
        self.taken(instance).await
    }

    async fn snapshot_family(&self, instance: &str) -> Result<Option<Vec<InstanceSnapshot>>> {
        self.taken_family(instance).await
    }

    async fn restore_instance(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Result<Option<Restoring>> {
        self.restored(snapshot, closed).await
    }

    async fn close_store(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Result<Option<Closing>> {
        self.close(expected, reason).await
    }

    async fn closed_because(&self) -> Result<Option<String>> {
        self.closed().await
    }

    async fn list_dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>> {
        if self.has(Flaw::ForgetsDeadLetters) {
            return Ok(Vec::new());
        }
        self.reference().list_dead_letters(limit).await
    }

    async fn requeue_dead_letter(&self, id: u64) -> Result<Option<Requeue>> {
        let letter = self.reference().get_dead_letter(id).await?;
        let Some(letter) = letter.filter(|_| self.has(Flaw::RequeueIgnoresLives)) else {
            let answer = self.reference().requeue_dead_letter(id).await;
            return match answer {
                Ok(Some(Requeue::NoSuchDeadLetter))
                    if self.has(Flaw::RequeueKeepsTheDeadLetter) =>
                {
                    Ok(Some(Requeue::Done))
                }
                other => other,
            };
        };
        let item =
            serde_json::from_str(&letter.payload).expect("the kit sends messages that decode");
        self.inner.enqueue_for_orchestrator(item, None).await?;
        self.reference().delete_dead_letter(id).await?;
        Ok(Some(Requeue::Done))
    }

    async fn pause_instance(&self, instance: &str) -> Result<Option<Pausing>> {
        if !self.has(Flaw::PauseIsOnlyTold) {
            return self.reference().pause_instance(instance).await;
        }
        let info = self.reference().get_instance_info(instance).await;
        Ok(Some(match info {
            Ok(_) => Pausing::Done,
            Err(_) => Pausing::NoSuchInstance,
        }))
    }

    async fn resume_instance(&self, instance: &str) -> Result<Option<Pausing>> {
        if self.has(Flaw::ResumeIsOnlyTold) {
            return Ok(Some(Pausing::Done));
        }
        self.reference().resume_instance(instance).await
    }

    async fn pause_life(&self, instance: &str, life: Incarnation) -> Result<Option<Pausing>> {
        match self.flaw {
            Flaw::PausesReachAnyLife => self.reference().pause_instance(instance).await,
            _ => self.reference().pause_life(instance, life).await,
        }
    }

    async fn resume_life(&self, instance: &str, life: Incarnation) -> Result<Option<Pausing>> {
        self.reference().resume_life(instance, life).await
    }

    async fn incarnation(&self, instance: &str) -> Result<Option<Incarnation>> {
        self.reference().incarnation(instance).await
    }

    async fn paused_since(&self, instance: &str) -> Result<Option<u64>> {
        self.reference().paused_since(instance).await
    }

    async fn block_note(&self, instance: &str) -> Result<Option<BlockNote>> {
        self.told_block(instance).await
    }

    fn can_rewind(&self) -> bool {
        self.reference().can_rewind()
    }

    async fn labels(&self, instance: &str) -> Result<Labels> {
        self.told_labels(instance).await
    }

    async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Result<Option<Labelling>> {
        let relabelled = self.relabel(instance, changes);
        match self.flaw {
            Flaw::ClosedStoreIsLabelled => self.as_if_open(relabelled).await,
            _ => relabelled.await,
        }
    }

    async fn count_instances_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Result<Vec<InstanceCount>> {
        self.count_labels(query, key).await
    }

    async fn announce_node(&self, node: &NodeInfo, term: NodeTerm) -> Result<bool> {
        self.announce(node, term).await
    }

    async fn forget_node(&self, id: &str) -> Result<()> {
        self.leave(id).await
    }

    async fn list_nodes(&self) -> Result<Option<Vec<SeenNode>>> {
        self.nodes().await
    }

    async fn hold_duty(&self, duty: &str, holder: &str, time: Duration) -> Result<Option<bool>> {
        self.duty(duty, holder, time).await
    }

    async fn delete_dead_letter(&self, id: u64) -> Result<bool> {
        self.reference().delete_dead_letter(id).await
    }

    async fn query_instances(&self, query: &InstanceQuery) -> Result<Page<InstanceSummary>> {
        self.query(query).await
    }

    async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Result<Vec<InstanceCount>> {
        self.count(query, by).await
    }
}
