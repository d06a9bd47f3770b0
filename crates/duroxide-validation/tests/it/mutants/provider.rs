//! The layer around the reference store, one delegating line per call that a flaw may spoil; the flaws are in the
//! neighbouring files.

use std::collections::HashMap;
use std::time::Duration;

use duroxide_core::provider::{
    BlockedInstance, ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata,
    InstanceOutcome, InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnWrites, WorkClaim,
};
use duroxide_core::{Event, WorkItem};
use duroxide_runtime::observability::Layer;

use super::commits::Turn;
use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

impl Layer for Mutant {
    fn name<'a>(&'a self, _next: &'a dyn Provider) -> &'a str {
        "mutant"
    }

    async fn fetch_orchestration_item(
        &self,
        _next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>> {
        self.fetch_turn(lock_timeout, poll_timeout, filter).await
    }

    async fn ack_orchestration_item(
        &self,
        _next: &dyn Provider,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<()> {
        let writes = TurnWrites {
            execution_id,
            history: history_delta,
            to_workers: worker_items,
            to_orchestrators: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        let turn = Turn::of(self.real_token(lock_token), writes);
        if self.holds_on(&turn) {
            self.inner_hold(turn).await?;
            return Ok(());
        }
        self.commit_turn(turn).await
    }

    async fn ack_holding_queue_messages(
        &self,
        _next: &dyn Provider,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Result<bool> {
        let turn = Turn::of(self.real_token(lock_token), writes);
        self.hold(turn).await
    }

    async fn abandon_orchestration_item(
        &self,
        _next: &dyn Provider,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let token = self.real_token(lock_token);
        let abandoned = self.abandon_turn(&token, delay, ignore_attempt);
        match self.flaw {
            Flaw::ClosedStoreTakesBack => self.as_if_open(abandoned).await,
            _ => abandoned.await,
        }
    }

    async fn store_lease(&self, _next: &dyn Provider, lock_token: &str) -> Result<()> {
        let token = self.real_token(lock_token);
        if self.has(Flaw::EarlyUncounted) {
            return self
                .inner
                .abandon_orchestration_item(&token, None, true)
                .await;
        }
        self.inner.store_lease(&token).await
    }

    async fn read(&self, _next: &dyn Provider, instance: &str) -> Result<Vec<Event>> {
        self.as_read(self.inner.read(instance).await)
    }

    async fn read_with_execution(
        &self,
        _next: &dyn Provider,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>> {
        self.as_read(self.inner.read_with_execution(instance, execution_id).await)
    }

    async fn enqueue_for_worker(&self, _next: &dyn Provider, item: WorkItem) -> Result<()> {
        if self.has(Flaw::WorkerQueueTakesAll) && !matches!(item, WorkItem::ActivityExecute { .. })
        {
            return Ok(());
        }
        if self.drops_work(&item).await? {
            return Ok(());
        }
        self.inner.enqueue_for_worker(self.as_scheduled(item)).await
    }

    async fn fetch_work_item(
        &self,
        _next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>> {
        self.fetch_work(lock_timeout, poll_timeout, session, tag_filter)
            .await
    }

    async fn ack_work_item(
        &self,
        _next: &dyn Provider,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<()> {
        self.ack_work(token, completion).await
    }

    async fn renew_work_item_lock(
        &self,
        _next: &dyn Provider,
        token: &str,
        extend_for: Duration,
    ) -> Result<()> {
        self.renew_work(token, extend_for).await
    }

    async fn renew_session_lock(
        &self,
        _next: &dyn Provider,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        self.renew_sessions(owner_ids, extend_for, idle_timeout)
            .await
    }

    async fn cleanup_orphaned_sessions(
        &self,
        _next: &dyn Provider,
        idle_timeout: Duration,
    ) -> Result<usize> {
        if self.has(Flaw::CleanupDoesNothing) {
            return Ok(0);
        }
        self.inner.cleanup_orphaned_sessions(idle_timeout).await
    }

    async fn abandon_work_item(
        &self,
        _next: &dyn Provider,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.abandon_work(token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        _next: &dyn Provider,
        token: &str,
        extend_for: Duration,
    ) -> Result<()> {
        let token = self.as_token(&self.real_token(token));
        self.renew_turn(&token, extend_for).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        _next: &dyn Provider,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<()> {
        self.enqueue(item, delay).await
    }

    async fn submit(&self, _next: &dyn Provider, submission: Submission) -> Result<Submitted> {
        self.take(submission).await
    }

    fn as_management_capability<'a>(
        &'a self,
        _next: &'a dyn Provider,
    ) -> Option<&'a dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        _next: &dyn Provider,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>> {
        let status = self
            .inner
            .get_custom_status(instance, last_seen_version)
            .await?;
        if self.has(Flaw::StatusVersionStuck) {
            return Ok(status.map(|(value, _)| (value, 1)));
        }
        Ok(self.or_known(status, || (None, 1)))
    }

    async fn get_kv_value(
        &self,
        _next: &dyn Provider,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>> {
        let key = if self.has(Flaw::KvTrimsKeys) {
            key.trim()
        } else {
            key
        };
        let value = self.inner.get_kv_value(instance, key).await?;
        if value.is_none() && self.has(Flaw::DeletionLeavesValues) {
            return Ok(self.values_left(instance).remove(key));
        }
        Ok(self.or_known(value, String::new))
    }

    async fn get_kv_all_values(
        &self,
        _next: &dyn Provider,
        instance: &str,
    ) -> Result<HashMap<String, String>> {
        let values = self.all_values(instance).await?;
        if values.is_empty() && self.has(Flaw::DeletionLeavesValues) {
            return Ok(self.values_left(instance));
        }
        Ok(values)
    }

    async fn activity_claimed(
        &self,
        _next: &dyn Provider,
        activity: &ScheduledActivityIdentifier,
    ) -> Result<Option<bool>> {
        self.was_claimed(activity).await
    }

    async fn get_instance_stats(
        &self,
        _next: &dyn Provider,
        instance: &str,
    ) -> Result<Option<SystemStats>> {
        self.stats(instance).await
    }

    async fn claim_turns(
        &self,
        _next: &dyn Provider,
        claim: TurnClaim,
    ) -> Result<Vec<ClaimedTurn>> {
        if self.has(Flaw::ClosedStoreIsSilent) && self.is_closed_and_idle().await? {
            return Ok(Vec::new());
        }
        self.or_fail(self.claim_batch(claim).await?, "claim_turns")
    }

    async fn claim_work(&self, _next: &dyn Provider, claim: WorkClaim) -> Result<Vec<ClaimedWork>> {
        self.or_fail(self.claim_works(claim).await?, "claim_work")
    }

    async fn lost_work_items(
        &self,
        _next: &dyn Provider,
        tokens: &[String],
    ) -> Result<Option<Vec<String>>> {
        if self.has(Flaw::NoLeaseIsLost) {
            return Ok(Some(Vec::new()));
        }
        self.inner.lost_work_items(tokens).await
    }

    async fn heartbeat_work_item(
        &self,
        _next: &dyn Provider,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Result<bool> {
        let said = self.heartbeat(token, extend_for, call, details);
        match self.flaw {
            Flaw::ClosedStoreListens => self.as_if_open(said).await,
            _ => said.await,
        }
    }

    async fn last_heartbeat(
        &self,
        _next: &dyn Provider,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<String>> {
        self.last_said(call).await
    }

    async fn dead_letter_messages(
        &self,
        _next: &dyn Provider,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Result<bool> {
        if self.has(Flaw::DeadLetteringDoesNothing) {
            return Ok(true);
        }
        let positions = self.as_positions(positions);
        let answer = self
            .inner
            .dead_letter_messages(&self.real_token(lock_token), &positions, reason)
            .await;
        answer.map_err(|error| match self.flaw {
            Flaw::DeadLetteringErrsOtherwise => {
                ProviderError::permanent(error.operation, "cannot dead-letter")
            }
            _ => error,
        })
    }

    async fn rest_orchestration_item(
        &self,
        _next: &dyn Provider,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Result<bool> {
        let delay = match self.flaw {
            Flaw::RestIsNoRest => None,
            Flaw::RestIsOvertaken => Some(rest),
            Flaw::RestIsDeaf => {
                let token = self.real_token(lock_token);
                self.renew_turn(&token, rest).await?;
                return Ok(true);
            }
            _ => {
                let token = self.real_token(lock_token);
                let rested = self
                    .inner
                    .rest_orchestration_item(&token, rest, ignore_attempt);
                return rested.await;
            }
        };
        self.abandon_turn(&self.real_token(lock_token), delay, ignore_attempt)
            .await?;
        Ok(true)
    }

    async fn note_blocked(
        &self,
        _next: &dyn Provider,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Result<bool> {
        self.note_block(lock_token, blocked, node).await
    }

    async fn dead_letter_work_item(
        &self,
        _next: &dyn Provider,
        token: &str,
        reason: &str,
    ) -> Result<bool> {
        if self.has(Flaw::DeadLetteringDoesNothing) {
            return Ok(true);
        }
        self.inner
            .dead_letter_work_item(&self.real_token(token), reason)
            .await
    }

    async fn read_outcome(
        &self,
        _next: &dyn Provider,
        instance: &str,
    ) -> Result<Option<InstanceOutcome>> {
        self.outcome(instance).await
    }

    fn watch_instance(
        &self,
        _next: &dyn Provider,
        instance: &str,
    ) -> Option<Box<dyn InstanceWatch>> {
        if self.has(Flaw::WatchNeverWakes) {
            return Some(Box::new(super::reads::Asleep));
        }
        if self.has(Flaw::WatchTellsAnotherEnd) || self.has(Flaw::WatchCallsAllRunning) {
            let inner = self.inner.watch_instance(instance)?;
            let calls_all_running = self.has(Flaw::WatchCallsAllRunning);
            return Some(Box::new(super::reads::Deluded {
                inner,
                calls_all_running,
            }));
        }
        let left = self.notes.lock().deleted.contains_key(instance);
        if left && self.has(Flaw::WatchForgetsDeletion) {
            let inner = self.inner.watch_instance(instance)?;
            return Some(Box::new(super::reads::Deluded {
                inner,
                calls_all_running: true,
            }));
        }
        self.inner.watch_instance(instance)
    }
}
