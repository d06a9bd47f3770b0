//! Wake-ups around the direct provider. In: calls. Out: the same calls, where a fetch waits for work and a client for
//! its instance. Never a change to what is stored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::runtime::observability::{Layer, Layered};
use duroxide_core::clock::SystemClock;
use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata, InstanceWatch,
    OrchestrationItem, Provider, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig,
    TagFilter, TurnClaim, WorkClaim,
};
use duroxide_core::{Event, WorkItem};
use tokio::sync::watch;

use super::provider::TinyProvider;

type Result<T> = std::result::Result<T, ProviderError>;
type Clients = HashMap<String, watch::Sender<()>>;

/// Leases and delays end without a write, so a waiting fetch looks again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The direct provider, awake.
pub(crate) type Waking = Layered<Bells>;

/// A waking direct provider.
pub(crate) fn waking() -> Waking {
    Layered::around(
        Arc::new(TinyProvider::new(Arc::new(SystemClock))),
        Bells::default(),
    )
}

/// The layer that wakes.
#[derive(Default)]
pub(crate) struct Bells {
    turns: watch::Sender<()>,
    work: watch::Sender<()>,
    clients: Mutex<Clients>,
}

impl Bells {
    fn clients(&self) -> MutexGuard<'_, Clients> {
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

impl Layer for Bells {
    fn name<'a>(&'a self, _next: &'a dyn Provider) -> &'a str {
        "direct-memory"
    }

    fn watch_instance(
        &self,
        _next: &dyn Provider,
        instance: &str,
    ) -> Option<Box<dyn InstanceWatch>> {
        let mut clients = self.clients();
        let bell = clients.entry(instance.to_owned()).or_default();
        Some(Box::new(Watch(bell.subscribe())))
    }

    /// Every write may make work visible; a waiting fetch that finds none waits again.
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await?;
        match operation {
            "ack_work_item" | "abandon_orchestration_item" | "enqueue_for_orchestrator" => {
                self.turns.send_replace(());
            }
            "abandon_work_item" | "enqueue_for_worker" => {
                self.work.send_replace(());
            }
            // The commit freed the instance, and more messages may have come meanwhile.
            "ack_orchestration_item" => {
                self.turns.send_replace(());
                self.work.send_replace(());
            }
            _ => {}
        }
        Ok(answer)
    }

    async fn fetch_orchestration_item(
        &self,
        next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>> {
        let fetch = || next.fetch_orchestration_item(lock_timeout, poll_timeout, filter);
        waiting(&self.turns, poll_timeout, fetch).await
    }

    async fn fetch_work_item(
        &self,
        next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>> {
        let fetch = || next.fetch_work_item(lock_timeout, poll_timeout, session, tag_filter);
        waiting(&self.work, poll_timeout, fetch).await
    }

    async fn claim_turns(&self, next: &dyn Provider, claim: TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let fetch = || async {
            let found = next.claim_turns(claim.clone()).await?;
            Ok((!found.is_empty()).then_some(found))
        };
        let found = waiting(&self.turns, claim.poll_timeout, fetch).await?;
        Ok(found.unwrap_or_default())
    }

    async fn claim_work(&self, next: &dyn Provider, claim: WorkClaim) -> Result<Vec<ClaimedWork>> {
        let fetch = || async {
            let found = next.claim_work(claim.clone()).await?;
            Ok((!found.is_empty()).then_some(found))
        };
        let found = waiting(&self.work, claim.poll_timeout, fetch).await?;
        Ok(found.unwrap_or_default())
    }

    async fn ack_orchestration_item(
        &self,
        next: &dyn Provider,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<()> {
        let instance = history_delta.first().map(|event| event.instance_id.clone());
        let call = next.ack_orchestration_item(
            lock_token,
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        self.around("ack_orchestration_item", call).await?;
        if let Some(instance) = instance {
            self.tell_client(&instance);
        }
        Ok(())
    }
}
