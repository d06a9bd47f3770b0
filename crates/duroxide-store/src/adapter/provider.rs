//! The published trait, as a table of contents. Each operation lives in its own file.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{
    BlockedInstance, ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata,
    InstanceOutcome, InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnWrites, WorkClaim,
};
use duroxide_core::{Event, WorkItem};

use super::error::{Error, Result};
use super::token::TurnToken;
use super::turn::input::TurnWritesInput;
use super::{
    StoreProvider, Watch, append, blocked, closing, enqueue, ms, read, sessions, submit, turn, work,
};
use crate::EventStore;
use crate::lease::{After, LeaseToken};

type Answer<T> = std::result::Result<T, ProviderError>;

/// Names the operation in an error, once.
pub(super) fn at<T>(operation: &str, result: Result<T>) -> Answer<T> {
    result.map_err(|error| error.at(operation))
}

fn after(delay: Option<Duration>) -> After {
    delay.map_or(After::Now, |delay| After::DelayMs(ms(delay)))
}

impl<S: EventStore> StoreProvider<S> {
    async fn release_turn(&self, lock_token: &str, after: After, forgive: bool) -> Result<()> {
        let TurnToken {
            lease, instance, ..
        } = TurnToken::parse(lock_token)?;
        self.kept.take(&lease, instance);
        closing::release(&*self.store, &lease, after, forgive).await
    }

    async fn renew_turn(&self, lock_token: &str, extend_for: Duration) -> Result<()> {
        let lease = TurnToken::parse(lock_token)?.lease;
        Ok(self.store.renew(&lease, ms(extend_for)).await?)
    }
}

#[async_trait]
impl<S: EventStore + 'static> Provider for StoreProvider<S> {
    fn name(&self) -> &str {
        self.name
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
        let ask = TurnClaim::one(lock_timeout, poll_timeout, filter);
        let claimed = turn::claim::run(self, &ask).await;
        let mut turns = at("fetch_orchestration_item", claimed)?;
        Ok(turns.pop().map(ClaimedTurn::into_parts))
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
        let committed = turn::commit::run(self, TurnWritesInput::of(lock_token, writes)).await;
        at("ack_orchestration_item", committed)
    }

    async fn ack_holding_queue_messages(
        &self,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Answer<bool> {
        let turn = TurnWritesInput::of(lock_token, writes).holding_queue_messages();
        let committed = turn::commit::run(self, turn).await;
        at("ack_holding_queue_messages", committed)?;
        Ok(true)
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let after = after(delay);
        let released = self.release_turn(lock_token, after, ignore_attempt).await;
        at("abandon_orchestration_item", released)
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        at("read", read::latest_history(&*self.store, instance).await)
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Answer<Vec<Event>> {
        let history = read::history(&*self.store, instance, execution_id).await;
        at("read_with_execution", history)
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Answer<()> {
        let appended = append::run(&*self.store, instance, execution_id, &new_events).await;
        at("append_with_execution", appended)
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Answer<()> {
        at(
            "enqueue_for_worker",
            enqueue::to_workers(&*self.store, &item).await,
        )
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        let ask = WorkClaim::one(lock_timeout, poll_timeout, session, tag_filter);
        let mut claimed = at("fetch_work_item", work::claim(&*self.store, &ask).await)?;
        Ok(claimed.pop().map(ClaimedWork::into_parts))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Answer<()> {
        let acked = work::ack(&*self.store, token, completion).await;
        at("ack_work_item", acked)
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        let lease = LeaseToken::new(token);
        let renewed = self.store.renew(&lease, ms(extend_for)).await;
        at("renew_work_item_lock", renewed.map_err(Error::Store))
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Answer<usize> {
        let renewed = sessions::renew(&*self.store, owner_ids, extend_for, idle_timeout).await;
        at("renew_session_lock", renewed)
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Answer<usize> {
        let swept = sessions::sweep(&*self.store).await;
        at("cleanup_orphaned_sessions", swept)
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let lease = LeaseToken::new(token);
        let released = closing::release(&*self.store, &lease, after(delay), ignore_attempt).await;
        at("abandon_work_item", released)
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        let renewed = self.renew_turn(token, extend_for).await;
        at("renew_orchestration_item_lock", renewed)
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Answer<()> {
        let enqueued = enqueue::to_instance(&*self.store, &item, delay).await;
        at("enqueue_for_orchestrator", enqueued)
    }

    async fn submit(&self, submission: Submission) -> Answer<Submitted> {
        at("submit", submit::run(&*self.store, &submission).await)
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
        let status = read::custom_status(&*self.store, instance, last_seen_version).await;
        at("get_custom_status", status)
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Answer<Option<String>> {
        let value = read::kv_value(&*self.store, instance, key).await;
        at("get_kv_value", value)
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        let values = read::kv_all(&*self.store, instance).await;
        at("get_kv_all_values", values)
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        let stats = read::stats(&*self.store, instance).await;
        at("get_instance_stats", stats)
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Answer<Vec<ClaimedTurn>> {
        let claimed = turn::claim::run(self, &claim).await;
        at("claim_turns", claimed)
    }

    async fn claim_work(&self, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        at("claim_work", work::claim(&*self.store, &claim).await)
    }

    async fn lost_work_items(&self, tokens: &[String]) -> Answer<Option<Vec<String>>> {
        let lost = work::lost(&*self.store, tokens).await;
        at("lost_work_items", lost).map(Some)
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Answer<Option<bool>> {
        let claimed = work::claimed(&*self.store, activity).await;
        at("activity_claimed", claimed).map(Some)
    }

    async fn heartbeat_work_item(
        &self,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Answer<bool> {
        let lease_ms = ms(extend_for);
        let kept = work::heartbeat(&*self.store, token, lease_ms, call, details).await;
        at("heartbeat_work_item", kept)
    }

    async fn last_heartbeat(&self, call: &ScheduledActivityIdentifier) -> Answer<Option<String>> {
        let said = work::last_heartbeat(&*self.store, call).await;
        at("last_heartbeat", said)
    }

    async fn dead_letter_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Answer<bool> {
        let moved = turn::dead_letter::run(&*self.store, lock_token, positions, reason).await;
        at("dead_letter_messages", moved).map(|()| true)
    }

    async fn rest_orchestration_item(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Answer<bool> {
        let after = After::QuietMs(ms(rest));
        let rested = self.release_turn(lock_token, after, ignore_attempt).await;
        at("rest_orchestration_item", rested).map(|()| true)
    }

    async fn note_blocked(
        &self,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Answer<bool> {
        let noted = blocked::note(&*self.store, lock_token, blocked, node).await;
        at("note_blocked", noted)
    }

    async fn dead_letter_work_item(&self, token: &str, reason: &str) -> Answer<bool> {
        let moved = work::dead_letter_claimed(&*self.store, token, reason).await;
        at("dead_letter_work_item", moved).map(|()| true)
    }

    async fn read_outcome(&self, instance: &str) -> Answer<Option<InstanceOutcome>> {
        let outcome = read::outcome(&*self.store, instance).await;
        at("read_outcome", outcome)
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Option<(String, String)>> {
        let handler = read::execution_handler(&*self.store, instance, execution_id).await;
        at("execution_handler", handler)
    }

    async fn clock_ms(&self) -> Answer<Option<u64>> {
        Ok(Some(self.store.clock_ms()))
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        let watch = self.store.watch(instance)?;
        Some(Box::new(Watch(watch)))
    }
}
