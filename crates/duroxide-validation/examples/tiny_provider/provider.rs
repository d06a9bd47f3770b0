//! The published trait: one locked step per call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::ClockRef;
use duroxide_core::provider::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter,
};
use duroxide_core::{Event, WorkItem};

use super::state::{Result, State, ms};
use super::turns::Commit;

/// The provider. Clones share the store.
#[derive(Clone)]
pub(crate) struct TinyProvider {
    clock: ClockRef,
    state: Arc<Mutex<State>>,
}

impl TinyProvider {
    pub(crate) fn new(clock: ClockRef) -> Self {
        Self {
            clock,
            state: Arc::default(),
        }
    }

    /// One atomic step, at one moment of the store's clock.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now_ms();
        step(&mut state, now)
    }
}

#[async_trait]
impl Provider for TinyProvider {
    fn name(&self) -> &str {
        "tiny"
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        _poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>> {
        Ok(self.step(|state, now| state.claim_turn(now, lock_timeout, filter)))
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
    ) -> Result<()> {
        for item in &worker_items {
            activity_only("ack_orchestration_item", item)?;
        }
        let commit = Commit {
            token: lock_token.to_owned(),
            execution: execution_id,
            events: history_delta,
            work: worker_items,
            messages: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        self.step(|state, now| state.commit(commit, now))
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.step(|state, now| state.abandon_turn(lock_token, delay, ignore_attempt, now))
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>> {
        self.step(|state, _| state.read(instance))
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>> {
        self.step(|state, _| state.read_execution(instance, execution_id))
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<()> {
        self.step(|state, now| {
            state.check_events(instance, execution_id, &new_events)?;
            state.append(instance, execution_id, &new_events, now);
            Ok(())
        })
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<()> {
        activity_only("enqueue_for_worker", &item)?;
        self.step(|state, now| state.schedule(item, now));
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        _poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>> {
        Ok(self.step(|state, now| state.claim_work(now, lock_timeout, session, tag_filter)))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<()> {
        self.step(|state, now| state.ack_work(token, completion, now))
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<()> {
        self.step(|state, now| state.renew_work(token, extend_for, now))
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        Ok(self.step(|state, now| state.renew_sessions(owner_ids, extend_for, idle_timeout, now)))
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize> {
        Ok(self.step(|state, now| state.sweep_sessions(now)))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.step(|state, now| state.abandon_work(token, delay, ignore_attempt, now))
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<()> {
        self.step(|state, now| state.renew_turn(token, extend_for, now))
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<()> {
        if matches!(item, WorkItem::ActivityExecute { .. }) {
            let operation = "enqueue_for_orchestrator";
            return Err(ProviderError::permanent(
                operation,
                "Invalid work item type",
            ));
        }
        self.step(|state, now| state.send(item, now.saturating_add(delay.map_or(0, ms))));
        Ok(())
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>> {
        Ok(self.step(|state, _| {
            let row = state.instances.get(instance)?;
            let version = row.custom_status_version;
            (version > last_seen_version).then(|| (row.custom_status.clone(), version))
        }))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>> {
        Ok(self.get_kv_all_values(instance).await?.remove(key))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>> {
        Ok(self.step(|state, _| state.values(instance)))
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>> {
        self.step(|state, _| state.stats(instance))
    }
}

/// Only activities belong on the worker queue.
fn activity_only(operation: &str, item: &WorkItem) -> Result<()> {
    match item {
        WorkItem::ActivityExecute { .. } => Ok(()),
        _ => Err(ProviderError::permanent(
            operation,
            "Invalid work item type",
        )),
    }
}
