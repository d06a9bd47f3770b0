//! Wake-ups around the direct provider. In: calls. Out: the same calls, where a fetch waits for work and a client for its
//! instance. Never a change to what is stored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::SystemClock;
use duroxide_core::provider::{
    DispatcherCapabilityFilter, ExecutionMetadata, InstanceWatch, OrchestrationItem, Provider,
    ProviderAdmin, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, SystemStats,
    TagFilter,
};
use duroxide_core::{Event, WorkItem};
use tokio::sync::watch;

use super::provider::TinyProvider;

type Result<T> = std::result::Result<T, ProviderError>;
type Bells = HashMap<String, watch::Sender<()>>;

/// Leases and delays end without a write, so a waiting fetch looks again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The direct provider, awake.
pub(crate) struct Waking {
    inner: TinyProvider,
    turns: watch::Sender<()>,
    work: watch::Sender<()>,
    clients: Mutex<Bells>,
}

impl Waking {
    pub(crate) fn new() -> Self {
        Self {
            inner: TinyProvider::new(Arc::new(SystemClock)),
            turns: watch::Sender::new(()),
            work: watch::Sender::new(()),
            clients: Mutex::default(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, Bells> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_client(&self, instance: &str) {
        let mut clients = self.clients();
        if clients
            .get(instance)
            .is_some_and(|bell| bell.send(()).is_err())
        {
            clients.remove(instance);
        }
    }
}

/// Fetches until there is something or the time is over.
async fn waiting<T, F: Future<Output = Result<Option<T>>>>(
    bell: &watch::Sender<()>,
    patience: Duration,
    fetch: impl Fn() -> F,
) -> Result<Option<T>> {
    let until = tokio::time::Instant::now() + patience;
    let mut bell = bell.subscribe();
    loop {
        let found = fetch().await?;
        let now = tokio::time::Instant::now();
        if found.is_some() || now >= until {
            return Ok(found);
        }
        let _ = tokio::time::timeout_at(until.min(now + LOOK_AGAIN), bell.changed()).await;
    }
}

struct Watch(watch::Receiver<()>);

#[async_trait]
impl InstanceWatch for Watch {
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Provider for Waking {
    fn name(&self) -> &str {
        "direct-memory"
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>> {
        let fetch = || {
            self.inner
                .fetch_orchestration_item(lock_timeout, poll_timeout, filter)
        };
        waiting(&self.turns, poll_timeout, fetch).await
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
        let instance = history_delta.first().map(|event| event.instance_id.clone());
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
            .await?;
        // The commit freed the instance, and more messages may have come meanwhile.
        self.turns.send_replace(());
        self.work.send_replace(());
        if let Some(instance) = instance {
            self.tell_client(&instance);
        }
        Ok(())
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.inner
            .abandon_orchestration_item(lock_token, delay, ignore_attempt)
            .await?;
        self.turns.send_replace(());
        Ok(())
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>> {
        self.inner.read(instance).await
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>> {
        self.inner.read_with_execution(instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<()> {
        self.inner
            .append_with_execution(instance, execution_id, new_events)
            .await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<()> {
        self.inner.enqueue_for_worker(item).await?;
        self.work.send_replace(());
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>> {
        let fetch = || {
            self.inner
                .fetch_work_item(lock_timeout, poll_timeout, session, tag_filter)
        };
        waiting(&self.work, poll_timeout, fetch).await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<()> {
        self.inner.ack_work_item(token, completion).await?;
        self.turns.send_replace(());
        Ok(())
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<()> {
        self.inner.renew_work_item_lock(token, extend_for).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        self.inner
            .renew_session_lock(owner_ids, extend_for, idle_timeout)
            .await
    }

    async fn cleanup_orphaned_sessions(&self, idle_timeout: Duration) -> Result<usize> {
        self.inner.cleanup_orphaned_sessions(idle_timeout).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.inner
            .abandon_work_item(token, delay, ignore_attempt)
            .await?;
        self.work.send_replace(());
        Ok(())
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<()> {
        self.inner
            .renew_orchestration_item_lock(token, extend_for)
            .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<()> {
        self.inner.enqueue_for_orchestrator(item, delay).await?;
        self.turns.send_replace(());
        Ok(())
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability()
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>> {
        self.inner
            .get_custom_status(instance, last_seen_version)
            .await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>> {
        self.inner.get_kv_value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>> {
        self.inner.get_kv_all_values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>> {
        self.inner.get_instance_stats(instance).await
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        let mut clients = self.clients();
        let bell = clients.entry(instance.to_owned()).or_default();
        Some(Box::new(Watch(bell.subscribe())))
    }
}
