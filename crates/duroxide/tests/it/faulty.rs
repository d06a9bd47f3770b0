//! A store that fails on request and counts its calls; otherwise it is the store it wraps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata, InstanceOutcome,
    InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter, TurnClaim, WorkClaim,
    WorkItem,
};
use duroxide::{Event, EventKind};

type Answer<T> = Result<T, ProviderError>;

/// Calls to spoil: which, how many, and how.
struct Fault {
    operation: &'static str,
    left: usize,
    how: How,
}

#[derive(Clone)]
enum How {
    Fails(ProviderError),
    Hangs,
    Panics,
}

#[derive(Default)]
struct Book {
    faults: Vec<Fault>,
    calls: HashMap<&'static str, usize>,
    /// The store refuses turns that record this output, for good.
    refused_output: Option<String>,
}

pub(crate) struct Faulty {
    inner: Arc<dyn Provider>,
    book: Mutex<Book>,
}

impl Faulty {
    pub(crate) fn over(inner: Arc<dyn Provider>) -> Arc<Self> {
        let book = Mutex::default();
        Arc::new(Self { inner, book })
    }

    /// Fails the next calls of an operation as if the store were out of reach.
    pub(crate) fn unavailable(&self, operation: &'static str, times: usize) {
        let error = ProviderError::retryable(operation, "out of reach");
        self.fail(operation, times, error);
    }

    pub(crate) fn fail(&self, operation: &'static str, times: usize, error: ProviderError) {
        self.spoil(operation, times, How::Fails(error));
    }

    /// The next calls of an operation never come back.
    pub(crate) fn hang(&self, operation: &'static str, times: usize) {
        self.spoil(operation, times, How::Hangs);
    }

    /// The next calls of an operation panic.
    pub(crate) fn panic(&self, operation: &'static str, times: usize) {
        self.spoil(operation, times, How::Panics);
    }

    fn spoil(&self, operation: &'static str, left: usize, how: How) {
        self.book().faults.push(Fault {
            operation,
            left,
            how,
        });
    }

    /// From now on the operation works again.
    pub(crate) fn heal(&self, operation: &'static str) {
        self.book().faults.retain(|f| f.operation != operation);
    }

    /// Refuses, for good, every turn that ends with this output.
    pub(crate) fn refuse_output(&self, output: &str) {
        self.book().refused_output = Some(output.to_owned());
    }

    pub(crate) fn calls(&self, operation: &'static str) -> usize {
        self.book().calls.get(operation).copied().unwrap_or(0)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn gate(&self, operation: &'static str) -> Answer<()> {
        match self.next_fault(operation) {
            None => Ok(()),
            Some(How::Fails(error)) => Err(error),
            Some(How::Hangs) => std::future::pending().await,
            Some(How::Panics) => panic!("{operation} panics"),
        }
    }

    fn next_fault(&self, operation: &'static str) -> Option<How> {
        let mut book = self.book();
        *book.calls.entry(operation).or_default() += 1;
        let fault = book
            .faults
            .iter_mut()
            .find(|f| f.operation == operation && f.left > 0)?;
        fault.left -= 1;
        Some(fault.how.clone())
    }
}

#[async_trait]
impl Provider for Faulty {
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Answer<Option<(OrchestrationItem, String, u32)>> {
        self.gate("fetch_orchestration_item").await?;
        self.inner
            .fetch_orchestration_item(lock_timeout, poll_timeout, filter)
            .await
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
        self.gate("ack_orchestration_item").await?;
        let refused = self.book().refused_output.clone();
        let ends_with = |event: &Event| match &event.kind {
            EventKind::OrchestrationCompleted { output } => Some(output) == refused.as_ref(),
            _ => false,
        };
        if history_delta.iter().any(ends_with) {
            let error = "the store does not take this";
            return Err(ProviderError::permanent("ack_orchestration_item", error));
        }
        self.inner
            .ack_orchestration_item(
                lock_token,
                execution_id,
                history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled_activities,
            )
            .await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        self.gate("abandon_orchestration_item").await?;
        self.inner
            .abandon_orchestration_item(lock_token, delay, ignore_attempt)
            .await
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        self.gate("read").await?;
        self.inner.read(instance).await
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Answer<Vec<Event>> {
        self.gate("read_with_execution").await?;
        self.inner.read_with_execution(instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Answer<()> {
        self.gate("append_with_execution").await?;
        self.inner
            .append_with_execution(instance, execution_id, new_events)
            .await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Answer<()> {
        self.gate("enqueue_for_worker").await?;
        self.inner.enqueue_for_worker(item).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        self.gate("fetch_work_item").await?;
        self.inner
            .fetch_work_item(lock_timeout, poll_timeout, session, tag_filter)
            .await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Answer<()> {
        self.gate("ack_work_item").await?;
        self.inner.ack_work_item(token, completion).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        self.gate("renew_work_item_lock").await?;
        self.inner.renew_work_item_lock(token, extend_for).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Answer<usize> {
        self.gate("renew_session_lock").await?;
        self.inner
            .renew_session_lock(owner_ids, extend_for, idle_timeout)
            .await
    }

    async fn cleanup_orphaned_sessions(&self, idle_timeout: Duration) -> Answer<usize> {
        self.gate("cleanup_orphaned_sessions").await?;
        self.inner.cleanup_orphaned_sessions(idle_timeout).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        self.gate("abandon_work_item").await?;
        self.inner
            .abandon_work_item(token, delay, ignore_attempt)
            .await
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        self.gate("renew_orchestration_item_lock").await?;
        self.inner
            .renew_orchestration_item_lock(token, extend_for)
            .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Answer<()> {
        self.gate("enqueue_for_orchestrator").await?;
        self.inner.enqueue_for_orchestrator(item, delay).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability()
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Answer<Option<(Option<String>, u64)>> {
        self.gate("get_custom_status").await?;
        self.inner
            .get_custom_status(instance, last_seen_version)
            .await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Answer<Option<String>> {
        self.gate("get_kv_value").await?;
        self.inner.get_kv_value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        self.gate("get_kv_all_values").await?;
        self.inner.get_kv_all_values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        self.gate("get_instance_stats").await?;
        self.inner.get_instance_stats(instance).await
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Answer<Vec<ClaimedTurn>> {
        self.gate("claim_turns").await?;
        self.inner.claim_turns(claim).await
    }

    async fn claim_work(&self, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        self.gate("claim_work").await?;
        self.inner.claim_work(claim).await
    }

    async fn lost_work_items(&self, tokens: &[String]) -> Answer<Option<Vec<String>>> {
        self.gate("lost_work_items").await?;
        self.inner.lost_work_items(tokens).await
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Answer<Option<bool>> {
        self.gate("activity_claimed").await?;
        self.inner.activity_claimed(activity).await
    }

    async fn set_aside_work_item(&self, token: &str, reason: &str) -> Result<bool, ProviderError> {
        self.gate("set_aside_work_item").await?;
        self.inner.set_aside_work_item(token, reason).await
    }

    async fn set_aside_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Answer<bool> {
        self.gate("set_aside_messages").await?;
        self.inner
            .set_aside_messages(lock_token, positions, reason)
            .await
    }

    async fn read_outcome(&self, instance: &str) -> Answer<Option<InstanceOutcome>> {
        self.gate("read_outcome").await?;
        self.inner.read_outcome(instance).await
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Option<(String, String)>> {
        self.gate("execution_handler").await?;
        self.inner.execution_handler(instance, execution_id).await
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        self.inner.watch_instance(instance)
    }
}
