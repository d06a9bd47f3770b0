//! A store that is measured: every call is timed and every error counted, then passed on as it is.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::Event;
use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata, InstanceOutcome,
    InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter, TurnClaim, WorkClaim,
    WorkItem,
};
use tokio::time::Instant;

use super::MetricsProvider;

/// A store that is measured.
pub struct InstrumentedProvider {
    inner: Arc<dyn Provider>,
    metrics: Option<Arc<MetricsProvider>>,
}

impl InstrumentedProvider {
    /// Measures a store; without metrics it only passes calls on.
    #[must_use]
    pub fn new(inner: Arc<dyn Provider>, metrics: Option<Arc<MetricsProvider>>) -> Self {
        Self { inner, metrics }
    }

    async fn measured<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let Some(metrics) = &self.metrics else {
            return call.await;
        };
        let started = Instant::now();
        let result = call.await;
        let status = if result.is_ok() { "success" } else { "error" };
        metrics.record_provider_operation(operation, started.elapsed().as_secs_f64(), status);
        if let Err(error) = &result {
            let class = if error.is_retryable() {
                "retryable"
            } else {
                "permanent"
            };
            metrics.record_provider_error(operation, class);
        }
        result
    }
}

impl fmt::Debug for InstrumentedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstrumentedProvider")
            .field("inner", &self.inner.name())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Provider for InstrumentedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn version(&self) -> &str {
        self.inner.version()
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability()
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        self.inner.watch_instance(instance)
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let call = self
            .inner
            .fetch_orchestration_item(lock_timeout, poll_timeout, filter);
        self.measured("fetch_orchestration_item", call).await
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
    ) -> Result<(), ProviderError> {
        let call = self.inner.ack_orchestration_item(
            lock_token,
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        self.measured("ack_orchestration_item", call).await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let call = self
            .inner
            .abandon_orchestration_item(lock_token, delay, ignore_attempt);
        self.measured("abandon_orchestration_item", call).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let call = self.inner.read(instance);
        self.measured("read", call).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let call = self.inner.read_with_execution(instance, execution_id);
        self.measured("read_with_execution", call).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let call = self
            .inner
            .append_with_execution(instance, execution_id, new_events);
        self.measured("append_with_execution", call).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let call = self.inner.enqueue_for_worker(item);
        self.measured("enqueue_for_worker", call).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let call = self
            .inner
            .fetch_work_item(lock_timeout, poll_timeout, session, tag_filter);
        self.measured("fetch_work_item", call).await
    }

    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        let call = self.inner.ack_work_item(token, completion);
        self.measured("ack_work_item", call).await
    }

    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let call = self.inner.renew_work_item_lock(token, extend_for);
        self.measured("renew_work_item_lock", call).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let call = self
            .inner
            .renew_session_lock(owner_ids, extend_for, idle_timeout);
        self.measured("renew_session_lock", call).await
    }

    async fn cleanup_orphaned_sessions(
        &self,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let call = self.inner.cleanup_orphaned_sessions(idle_timeout);
        self.measured("cleanup_orphaned_sessions", call).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let call = self.inner.abandon_work_item(token, delay, ignore_attempt);
        self.measured("abandon_work_item", call).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let call = self.inner.renew_orchestration_item_lock(token, extend_for);
        self.measured("renew_orchestration_item_lock", call).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        let call = self.inner.enqueue_for_orchestrator(item, delay);
        self.measured("enqueue_orchestrator", call).await
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let call = self.inner.get_custom_status(instance, last_seen_version);
        self.measured("get_custom_status", call).await
    }

    async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let call = self.inner.get_kv_value(instance, key);
        self.measured("get_kv_value", call).await
    }

    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        let call = self.inner.get_kv_all_values(instance);
        self.measured("get_kv_all_values", call).await
    }

    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        let call = self.inner.get_instance_stats(instance);
        self.measured("get_instance_stats", call).await
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>, ProviderError> {
        let call = self.inner.claim_turns(claim);
        self.measured("fetch_orchestration_item", call).await
    }

    async fn claim_work(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>, ProviderError> {
        let call = self.inner.claim_work(claim);
        self.measured("fetch_work_item", call).await
    }

    async fn lost_work_items(
        &self,
        tokens: &[String],
    ) -> Result<Option<Vec<String>>, ProviderError> {
        let call = self.inner.lost_work_items(tokens);
        self.measured("lost_work_items", call).await
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Result<Option<bool>, ProviderError> {
        let call = self.inner.activity_claimed(activity);
        self.measured("activity_claimed", call).await
    }

    async fn set_aside_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Result<bool, ProviderError> {
        let call = self.inner.set_aside_messages(lock_token, positions, reason);
        self.measured("set_aside_messages", call).await
    }

    async fn read_outcome(&self, instance: &str) -> Result<Option<InstanceOutcome>, ProviderError> {
        let call = self.inner.read_outcome(instance);
        self.measured("read_outcome", call).await
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Option<(String, String)>, ProviderError> {
        let call = self.inner.execution_handler(instance, execution_id);
        self.measured("execution_handler", call).await
    }
}
