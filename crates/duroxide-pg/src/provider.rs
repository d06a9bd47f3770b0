//! The published contract: a table of contents. Each method delegates to its operation in `ops/` or to a claim in
//! `fetch.rs`, and says its name once.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::{
    BlockedInstance, ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata,
    InstanceOutcome, InstanceWatch, OrchestrationItem, Provider, ProviderAdmin,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnWrites, WorkClaim, WorkItem,
};

use crate::error::{Answer, named, renewed};
use crate::handle::PostgresProvider;

#[async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "postgres"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Answer<Option<(OrchestrationItem, String, u32)>> {
        let claim = TurnClaim::one(lock_timeout, poll_timeout, filter);
        let found = named("fetch_orchestration_item")(self.store.fetch_turns(&claim).await)?;
        Ok(found.into_iter().next().map(ClaimedTurn::into_parts))
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Answer<()> {
        let writes = TurnWrites {
            execution_id,
            history: history_delta,
            to_workers: worker_items,
            to_orchestrators: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        named("ack_orchestration_item")(self.store.commit(lock_token, writes).await)
    }

    async fn ack_holding_queue_messages(
        &self,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Answer<bool> {
        let done = self
            .store
            .commit_holding_queue_messages(lock_token, writes)
            .await;
        named("ack_holding_queue_messages")(done).map(|()| true)
    }

    async fn note_blocked(
        &self,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Answer<bool> {
        let noted = self.store.note_block(lock_token, blocked, node).await;
        named("note_blocked")(noted)
    }

    async fn store_lease(&self, lock_token: &str) -> Answer<()> {
        named("store_lease")(self.store.store_turn_lease(lock_token).await)
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let done = self
            .store
            .abandon_turn(lock_token, delay, ignore_attempt)
            .await;
        named("abandon_orchestration_item")(done)
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        named("read")(self.store.history(instance, None).await)
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Answer<Vec<Event>> {
        named("read_with_execution")(self.store.history_of(instance, execution_id).await)
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Answer<()> {
        named("append_with_execution")(self.store.append(instance, execution_id, &new_events).await)
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Answer<()> {
        named("enqueue_for_worker")(self.store.enqueue_work(&item).await)
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        let claim = WorkClaim::one(lock_timeout, poll_timeout, session, tag_filter);
        let found = named("fetch_work_item")(self.store.fetch_work(claim).await)?;
        Ok(found.into_iter().next().map(ClaimedWork::into_parts))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Answer<()> {
        named("ack_work_item")(self.store.ack_work(token, completion.as_ref()).await)
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        renewed("renew_work_item_lock")(self.store.renew_work(token, extend_for).await)
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Answer<usize> {
        let renewed = self
            .store
            .renew_sessions(owner_ids, extend_for, idle_timeout)
            .await;
        named("renew_session_lock")(renewed)
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Answer<usize> {
        named("cleanup_orphaned_sessions")(self.store.remove_idle_sessions().await)
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let done = self.store.abandon_work(token, delay, ignore_attempt).await;
        named("abandon_work_item")(done)
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        renewed("renew_orchestration_item_lock")(self.store.renew_turn(token, extend_for).await)
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Answer<()> {
        named("enqueue_for_orchestrator")(self.store.enqueue_message(&item, delay).await)
    }

    async fn submit(&self, submission: Submission) -> Answer<Submitted> {
        named("submit")(self.store.submit_together(&submission).await)
    }

    fn submits_in_one_step(&self) -> bool {
        true
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Answer<Option<(Option<String>, u64)>> {
        let newer = self.store.custom_status(instance, last_seen_version).await;
        named("get_custom_status")(newer)
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Answer<Option<String>> {
        let found = named("get_kv_value")(self.store.kv(instance, Some(key)).await)?;
        Ok(found.into_values().next())
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        named("get_kv_all_values")(self.store.kv(instance, None).await)
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        named("get_instance_stats")(self.store.stats(instance).await)
    }

    async fn clock_ms(&self) -> Answer<Option<u64>> {
        named("clock_ms")(self.store.clock().await).map(Some)
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Answer<Vec<ClaimedTurn>> {
        named("claim_turns")(self.store.fetch_turns(&claim).await)
    }

    async fn claim_work(&self, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        named("claim_work")(self.store.fetch_work(claim).await)
    }

    async fn lost_work_items(&self, tokens: &[String]) -> Answer<Option<Vec<String>>> {
        named("lost_work_items")(self.store.lost_work(tokens).await).map(Some)
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Answer<Option<bool>> {
        named("activity_claimed")(self.store.was_claimed(activity).await).map(Some)
    }

    async fn heartbeat_work_item(
        &self,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Answer<bool> {
        let kept = self.store.heartbeat(token, extend_for, call, details).await;
        named("heartbeat_work_item")(kept)
    }

    async fn last_heartbeat(&self, call: &ScheduledActivityIdentifier) -> Answer<Option<String>> {
        named("last_heartbeat")(self.store.last_heartbeat(call).await)
    }

    async fn dead_letter_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Answer<bool> {
        let done = self
            .store
            .dead_letter_claimed(lock_token, positions, reason)
            .await;
        named("dead_letter_messages")(done).map(|()| true)
    }

    async fn rest_orchestration_item(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Answer<bool> {
        let done = self.store.rest_turn(lock_token, rest, ignore_attempt).await;
        named("rest_orchestration_item")(done).map(|()| true)
    }

    async fn dead_letter_work_item(&self, token: &str, reason: &str) -> Answer<bool> {
        let done = self.store.dead_letter_work(token, reason, true).await;
        named("dead_letter_work_item")(done).map(|()| true)
    }

    async fn read_outcome(&self, instance: &str) -> Answer<Option<InstanceOutcome>> {
        named("read_outcome")(self.store.outcome(instance).await)
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Option<(String, String)>> {
        named("execution_handler")(self.store.handler_of(instance, execution_id).await)
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        Some(Box::new(self.store.watches.watch(instance)))
    }
}
