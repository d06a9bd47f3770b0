//! A store behind a layer: every call of the contract passes through one function, which may time it, count it, delay it
//! or refuse it. The trait is spelled out once, here; measuring and fault injection are layers.

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

/// What happens around every call of a store.
pub trait Layer: Send + Sync + 'static {
    /// Runs a call, or not. `operation` is the name of the method.
    fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> impl Future<Output = Result<T, ProviderError>> + Send;

    /// Looks at the events of a turn before its commit is called; an error is answered instead of the call.
    ///
    /// # Errors
    ///
    /// Whatever the layer wants the engine to hear.
    fn before_commit(&self, history_delta: &[Event]) -> Result<(), ProviderError> {
        let _ = history_delta;
        Ok(())
    }

    /// Looks at what a claim brought before the engine sees it.
    fn after_claim(&self, claimed: &[ClaimedTurn]) -> impl Future<Output = ()> + Send {
        let _ = claimed;
        std::future::ready(())
    }
}

/// A store behind a [`Layer`].
pub struct Layered<L> {
    inner: Arc<dyn Provider>,
    layer: L,
}

impl<L: Layer> Layered<L> {
    /// Puts a layer around a store.
    #[must_use]
    pub fn around(inner: Arc<dyn Provider>, layer: L) -> Self {
        Self { inner, layer }
    }

    /// The layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }
}

impl<L> fmt::Debug for Layered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered")
            .field("inner", &self.inner.name())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<L: Layer> Provider for Layered<L> {
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
        self.layer.around("fetch_orchestration_item", call).await
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
        self.layer.before_commit(&history_delta)?;
        let call = self.inner.ack_orchestration_item(
            lock_token,
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        self.layer.around("ack_orchestration_item", call).await
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
        self.layer.around("abandon_orchestration_item", call).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let call = self.inner.read(instance);
        self.layer.around("read", call).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let call = self.inner.read_with_execution(instance, execution_id);
        self.layer.around("read_with_execution", call).await
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
        self.layer.around("append_with_execution", call).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let call = self.inner.enqueue_for_worker(item);
        self.layer.around("enqueue_for_worker", call).await
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
        self.layer.around("fetch_work_item", call).await
    }

    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        let call = self.inner.ack_work_item(token, completion);
        self.layer.around("ack_work_item", call).await
    }

    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let call = self.inner.renew_work_item_lock(token, extend_for);
        self.layer.around("renew_work_item_lock", call).await
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
        self.layer.around("renew_session_lock", call).await
    }

    async fn cleanup_orphaned_sessions(
        &self,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let call = self.inner.cleanup_orphaned_sessions(idle_timeout);
        self.layer.around("cleanup_orphaned_sessions", call).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let call = self.inner.abandon_work_item(token, delay, ignore_attempt);
        self.layer.around("abandon_work_item", call).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let call = self.inner.renew_orchestration_item_lock(token, extend_for);
        self.layer
            .around("renew_orchestration_item_lock", call)
            .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        let call = self.inner.enqueue_for_orchestrator(item, delay);
        self.layer.around("enqueue_for_orchestrator", call).await
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let call = self.inner.get_custom_status(instance, last_seen_version);
        self.layer.around("get_custom_status", call).await
    }

    async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let call = self.inner.get_kv_value(instance, key);
        self.layer.around("get_kv_value", call).await
    }

    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        let call = self.inner.get_kv_all_values(instance);
        self.layer.around("get_kv_all_values", call).await
    }

    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        let call = self.inner.get_instance_stats(instance);
        self.layer.around("get_instance_stats", call).await
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>, ProviderError> {
        let call = self.inner.claim_turns(claim);
        let claimed = self.layer.around("claim_turns", call).await?;
        self.layer.after_claim(&claimed).await;
        Ok(claimed)
    }

    async fn claim_work(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>, ProviderError> {
        let call = self.inner.claim_work(claim);
        self.layer.around("claim_work", call).await
    }

    async fn lost_work_items(
        &self,
        tokens: &[String],
    ) -> Result<Option<Vec<String>>, ProviderError> {
        let call = self.inner.lost_work_items(tokens);
        self.layer.around("lost_work_items", call).await
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Result<Option<bool>, ProviderError> {
        let call = self.inner.activity_claimed(activity);
        self.layer.around("activity_claimed", call).await
    }

    async fn set_aside_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Result<bool, ProviderError> {
        let call = self.inner.set_aside_messages(lock_token, positions, reason);
        self.layer.around("set_aside_messages", call).await
    }

    async fn set_aside_work_item(&self, token: &str, reason: &str) -> Result<bool, ProviderError> {
        let call = self.inner.set_aside_work_item(token, reason);
        self.layer.around("set_aside_work_item", call).await
    }

    async fn clock_ms(&self) -> Result<Option<u64>, ProviderError> {
        let call = self.inner.clock_ms();
        self.layer.around("clock_ms", call).await
    }

    async fn read_outcome(&self, instance: &str) -> Result<Option<InstanceOutcome>, ProviderError> {
        let call = self.inner.read_outcome(instance);
        self.layer.around("read_outcome", call).await
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Option<(String, String)>, ProviderError> {
        let call = self.inner.execution_handler(instance, execution_id);
        self.layer.around("execution_handler", call).await
    }
}
