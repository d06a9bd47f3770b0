//! A store in memory that fails on demand, and what the tests do with it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{ExecutionMetadata, Provider};
use duroxide_core::{Event, EventKind, WorkItem};
use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    Answer, AtomicOps, Batch, Claim, Claimed, ManualClock, MessageQueue, MetadataStore, Query,
    StoreError, StoreProvider, TopicWatch,
};

use crate::support::start;

pub(crate) const LOCK: Duration = Duration::from_secs(30);

/// What somebody looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Row,
    Queue,
}

impl After {
    fn follows(self, query: &Query) -> bool {
        match (self, query) {
            (Self::Row, Query::Entry { scope, .. }) => scope == "instances",
            (Self::Queue, Query::Messages { queue, .. }) => queue.name == "orchestrator",
            _ => false,
        }
    }
}

/// A memory store that fails on demand and counts what it is asked for.
pub(crate) struct Faulty {
    pub(crate) inner: MemoryStore,
    /// Entity whose events cannot be read.
    pub(crate) corrupt: Option<&'static str>,
    /// Scopes that cannot be read.
    pub(crate) corrupt_scopes: Mutex<Vec<&'static str>>,
    pub(crate) failing_commits: AtomicUsize,
    pub(crate) answered_bytes: AtomicU64,
    pub(crate) queries: AtomicUsize,
    pub(crate) stir: AtomicBool,
    /// What is committed just after somebody looked at the activities of an instance.
    pub(crate) after_look: Mutex<Option<Batch>>,
    /// The first turn that is committed just after somebody looked at the row of an instance, or at its queue, by its
    /// token.
    pub(crate) begins: Mutex<Option<(After, String)>>,
    /// What arrives just before the next commit.
    pub(crate) arrives: Mutex<Option<WorkItem>>,
    /// The turn that is committed just before the next commit, by its token, and the child that it asks for.
    pub(crate) asks: Mutex<Option<(String, WorkItem)>>,
}

impl Faulty {
    pub(crate) fn provider(corrupt: Option<&'static str>) -> StoreProvider<Self> {
        Self::provider_at(corrupt, &ManualClock::at(1_000))
    }

    pub(crate) fn provider_at(
        corrupt: Option<&'static str>,
        clock: &ManualClock,
    ) -> StoreProvider<Self> {
        let inner = MemoryStore::with_clock(clock);
        let store = Self {
            inner,
            corrupt,
            corrupt_scopes: Mutex::default(),
            failing_commits: AtomicUsize::new(0),
            answered_bytes: AtomicU64::new(0),
            queries: AtomicUsize::new(0),
            stir: AtomicBool::new(false),
            after_look: Mutex::default(),
            begins: Mutex::default(),
            arrives: Mutex::default(),
            asks: Mutex::default(),
        };
        StoreProvider::over("faulty", Arc::new(store))
    }
}

pub(crate) fn bytes_of(answer: &Answer) -> u64 {
    let bytes = match answer {
        Answer::Entries(entries) => entries.iter().map(|entry| entry.value.len()).sum(),
        Answer::Entry(Some(value)) => value.len(),
        Answer::Messages(messages) => messages.iter().map(|m| m.payload.len()).sum(),
        Answer::Events(events) => events.iter().map(|event| event.data.len()).sum(),
        _ => 8,
    };
    bytes as u64
}

#[async_trait]
impl AtomicOps for Faulty {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<u64>, StoreError> {
        let counted = |left: usize| left.checked_sub(1);
        let (order, failing) = (Ordering::SeqCst, &self.failing_commits);
        if failing.fetch_update(order, order, counted).is_ok() {
            return Err(StoreError::Retryable("away".to_owned()));
        }
        if self.stir.load(Ordering::SeqCst) {
            // Somebody commits a turn of every member just before.
            for entry in self.inner.entries("instances").await? {
                let row = String::from_utf8(entry.value).unwrap();
                let touched = format!("{row} ").into_bytes();
                self.inner.put("instances", &entry.key, touched).await?;
            }
        }
        let arrives = self.arrives.lock().unwrap().take();
        if let Some(item) = arrives {
            let beside = StoreProvider::over("beside", self.inner.clone());
            send(&beside, item).await;
        }
        let asks = self.asks.lock().unwrap().take();
        if let Some((token, child)) = asks {
            let beside = StoreProvider::over("beside", self.inner.clone());
            let scheduled = EventKind::SubOrchestrationScheduled {
                name: "Hello".into(),
                instance: child.target_instance().to_owned(),
                input: String::new(),
            };
            let event = Event::with_event_id(2, "parent", 1, None, scheduled);
            let metadata = ExecutionMetadata::default();
            beside
                .ack_orchestration_item(
                    &token,
                    1,
                    vec![event],
                    vec![],
                    vec![child],
                    metadata,
                    vec![],
                )
                .await
                .unwrap();
        }
        self.inner.commit(batch).await
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        self.queries.fetch_add(1, Ordering::SeqCst);
        let hit = |query: &Query| matches!(query, Query::Events { entity, .. } if Some(entity.as_str()) == self.corrupt);
        let scopes = self.corrupt_scopes.lock().unwrap().clone();
        let hit_scope = |query: &Query| matches!(query, Query::Entries { scope, .. } | Query::Count { scope } if scopes.contains(&scope.as_str()));
        if queries.iter().any(|query| hit(query) || hit_scope(query)) {
            return Err(StoreError::Corrupt("a damaged page".to_owned()));
        }
        let looks = |query: &Query| matches!(query, Query::Messages { queue, group: Some(_), .. } if queue.name == "worker");
        let is_look = queries.iter().any(looks);
        let follows = |after: After| queries.iter().any(|query| after.follows(query));
        let begins = self
            .begins
            .lock()
            .unwrap()
            .take_if(|(after, _)| follows(*after));
        let answers = self.inner.query(queries).await?;
        if let Some((_, token)) = begins {
            let beside = StoreProvider::over("beside", self.inner.clone());
            commit(&beside, &token, 1, named("Running", "")).await;
        }
        let after = self.after_look.lock().unwrap().take_if(|_| is_look);
        if let Some(batch) = after {
            self.inner.commit(batch).await?;
        }
        let bytes = answers.iter().map(bytes_of).sum();
        self.answered_bytes.fetch_add(bytes, Ordering::SeqCst);
        Ok(answers)
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        self.inner.watch(topic)
    }
}

#[async_trait]
impl MessageQueue for Faulty {
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.inner.claim(claim).await
    }
}

pub(crate) fn named(status: &str, output: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Hello".into()),
        orchestration_version: Some("1.0.0".into()),
        status: Some(status.into()),
        output: Some(output.into()),
        ..ExecutionMetadata::default()
    }
}

pub(crate) async fn send(provider: &impl Provider, item: WorkItem) {
    provider.enqueue_for_orchestrator(item, None).await.unwrap();
}

pub(crate) async fn fetch(provider: &impl Provider) -> Option<(String, String, Option<String>)> {
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (item, token, _) = fetched.await.unwrap()?;
    Some((item.instance, token, item.history_error))
}

pub(crate) async fn commit(
    provider: &impl Provider,
    token: &str,
    id: u64,
    metadata: ExecutionMetadata,
) {
    let kind = EventKind::ExternalEvent {
        name: "go".into(),
        data: String::new(),
    };
    let event = Event::with_event_id(id, "i", 1, None, kind);
    let committed =
        provider.ack_orchestration_item(token, 1, vec![event], vec![], vec![], metadata, vec![]);
    committed.await.unwrap();
}

pub(crate) async fn create(provider: &impl Provider, instance: &str, metadata: ExecutionMetadata) {
    send(provider, start(instance)).await;
    let (found, token, _) = fetch(provider).await.unwrap();
    assert_eq!(found, instance);
    commit(provider, &token, 1, metadata).await;
}
