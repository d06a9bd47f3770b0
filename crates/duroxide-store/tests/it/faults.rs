//! The adapter over a store that fails, or holds what does not decode: only what is hit suffers.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{
    ExecutionMetadata, InstanceFilter, Provider, ProviderAdmin, PruneOptions, TagFilter, TurnClaim,
    WorkClaim,
};
use duroxide_core::{Event, EventKind, WorkItem};
use duroxide_store::memory::MemoryStore;

use crate::support::start;
use duroxide_store::{
    Answer, AtomicOps, Batch, Claim, Claimed, ManualClock, MessageQueue, MetadataStore, NewMessage,
    Operation, Query, Queue, StoreError, StoreProvider, TopicWatch,
};

const LOCK: Duration = Duration::from_secs(30);

/// A memory store that fails on demand and counts what it is asked for.
struct Faulty {
    inner: MemoryStore,
    /// Entity whose events cannot be read.
    corrupt: Option<&'static str>,
    failing_commits: AtomicUsize,
    answered_bytes: AtomicU64,
    queries: AtomicUsize,
    stir: AtomicBool,
    /// What arrives just before the next commit.
    arrives: Mutex<Option<WorkItem>>,
    /// The turn that is committed just before the next commit, by its token, and the child that it asks for.
    asks: Mutex<Option<(String, WorkItem)>>,
}

impl Faulty {
    fn provider(corrupt: Option<&'static str>) -> StoreProvider<Self> {
        Self::provider_at(corrupt, &ManualClock::at(1_000))
    }

    fn provider_at(corrupt: Option<&'static str>, clock: &ManualClock) -> StoreProvider<Self> {
        let inner = MemoryStore::with_clock(clock);
        let store = Self {
            inner,
            corrupt,
            failing_commits: AtomicUsize::new(0),
            answered_bytes: AtomicU64::new(0),
            queries: AtomicUsize::new(0),
            stir: AtomicBool::new(false),
            arrives: Mutex::default(),
            asks: Mutex::default(),
        };
        StoreProvider::over("faulty", Arc::new(store))
    }
}

fn bytes_of(answer: &Answer) -> u64 {
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
        if queries.iter().any(hit) {
            return Err(StoreError::Corrupt("a damaged page".to_owned()));
        }
        let answers = self.inner.query(queries).await?;
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

fn signal(instance: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.into(),
        name: "go".into(),
        data: "{}".into(),
    }
}

fn named(status: &str, output: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Hello".into()),
        orchestration_version: Some("1.0.0".into()),
        status: Some(status.into()),
        output: Some(output.into()),
        ..ExecutionMetadata::default()
    }
}

async fn send(provider: &impl Provider, item: WorkItem) {
    provider.enqueue_for_orchestrator(item, None).await.unwrap();
}

async fn fetch(provider: &impl Provider) -> Option<(String, String, Option<String>)> {
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (item, token, _) = fetched.await.unwrap()?;
    Some((item.instance, token, item.history_error))
}

async fn commit(provider: &impl Provider, token: &str, id: u64, metadata: ExecutionMetadata) {
    let kind = EventKind::ExternalEvent {
        name: "go".into(),
        data: String::new(),
    };
    let event = Event::with_event_id(id, "i", 1, None, kind);
    let committed =
        provider.ack_orchestration_item(token, 1, vec![event], vec![], vec![], metadata, vec![]);
    committed.await.unwrap();
}

async fn create(provider: &impl Provider, instance: &str, metadata: ExecutionMetadata) {
    send(provider, start(instance)).await;
    let (found, token, _) = fetch(provider).await.unwrap();
    assert_eq!(found, instance);
    commit(provider, &token, 1, metadata).await;
}

#[tokio::test]
async fn an_unreadable_history_stalls_no_other_instance() {
    let provider = Faulty::provider(Some("hit"));
    send(&provider, start("hit")).await;
    send(&provider, start("fine")).await;
    let claim = TurnClaim::new(8, LOCK, Duration::ZERO);
    let mut turns = provider.claim_turns(claim).await.unwrap();
    turns.sort_by(|a, b| a.item.instance.cmp(&b.item.instance));
    let errors: Vec<_> = turns
        .iter()
        .map(|turn| {
            (
                turn.item.instance.as_str(),
                turn.item.history_error.is_some(),
            )
        })
        .collect();
    assert_eq!(errors, [("fine", false), ("hit", true)]);
    assert_eq!(turns[1].attempt_count, 1, "it is counted, so that it ends");
}

#[tokio::test]
async fn a_row_that_does_not_decode_hurts_only_its_own_instance() {
    let provider = Faulty::provider(None);
    create(&provider, "hit", named("Running", "")).await;
    create(&provider, "fine", named("Completed", "ok")).await;
    for scope in ["instances", "executions/hit"] {
        let key = match scope {
            "instances" => "hit".to_owned(),
            _ => format!("{:020}", 1),
        };
        provider
            .store()
            .put(scope, &key, b"{}".to_vec())
            .await
            .unwrap();
    }
    let mut listed = provider.list_instances().await.unwrap();
    listed.sort();
    assert_eq!(listed, ["fine", "hit"]);
    let completed = provider
        .list_instances_by_status("Completed")
        .await
        .unwrap();
    assert_eq!(completed, ["fine"]);
    assert_eq!(
        provider.get_system_metrics().await.unwrap().total_instances,
        2
    );
    let all = InstanceFilter::default();
    let pruned = provider.prune_executions_bulk(all.clone(), PruneOptions::default());
    pruned.await.unwrap();

    send(&provider, signal("hit")).await;
    let (instance, token, error) = fetch(&provider).await.unwrap();
    assert_eq!(instance, "hit");
    assert!(error.is_some(), "the engine is told");
    commit(&provider, &token, 9, named("Failed", "it cannot be read")).await;
    let failed = provider.list_instances_by_status("Failed").await.unwrap();
    assert_eq!(failed, ["hit"], "it ended");
    provider
        .store()
        .put("instances", "hit", b"?".to_vec())
        .await
        .unwrap();
    let ids = ["hit".to_owned()];
    let deleted = provider.delete_instances_atomic(&ids, true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 1);
}

/// An instance with a finished child, whose rows then become undecodable.
async fn damaged_parent() -> StoreProvider<Faulty> {
    let provider = Faulty::provider(None);
    let child_start = WorkItem::StartOrchestration {
        instance: "child".into(),
        orchestration: "Hello".into(),
        input: "{}".into(),
        version: Some("1.0.0".into()),
        parent_instance: Some("hit".into()),
        parent_id: Some(2),
        parent_execution_id: Some(1),
        execution_id: 1,
    };
    send(&provider, start("hit")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let running = named("Running", "");
    let started = vec![child_start];
    let committed =
        provider.ack_orchestration_item(&token, 1, vec![], vec![], started, running, vec![]);
    committed.await.unwrap();
    let (instance, token, _) = fetch(&provider).await.unwrap();
    assert_eq!(instance, "child");
    let ended = ExecutionMetadata {
        parent_instance_id: Some("hit".into()),
        ..named("Completed", "ok")
    };
    commit(&provider, &token, 1, ended).await;
    create(&provider, "fine", named("Completed", "ok")).await;
    for (scope, key) in [
        ("instances", "hit"),
        ("executions/hit", &format!("{:020}", 1)),
    ] {
        let store = provider.store();
        store.put(scope, key, b"?".to_vec()).await.unwrap();
    }
    provider
}

#[tokio::test]
async fn an_instance_whose_row_does_not_decode_is_deleted_like_any_other() {
    let provider = damaged_parent().await;
    assert_eq!(provider.get_parent_id("hit").await.unwrap(), None);
    let deleted = provider.delete_instance("hit", true).await.unwrap();
    assert!(deleted.instances_deleted >= 1);
    let listed = provider.list_instances().await.unwrap();
    assert!(!listed.contains(&"hit".to_owned()), "{listed:?}");
}

#[tokio::test]
async fn a_parent_whose_row_does_not_decode_stops_no_bulk_deletion() {
    let provider = damaged_parent().await;
    let all = InstanceFilter::default();
    provider.delete_instance_bulk(all).await.unwrap();
    let mut listed = provider.list_instances().await.unwrap();
    listed.retain(|id| id != "hit");
    assert!(listed.is_empty(), "{listed:?}");
}

#[tokio::test]
async fn a_gauge_of_running_instances_reads_no_outputs() {
    let provider = Faulty::provider(None);
    let output = "x".repeat(10_000);
    for n in 0..50 {
        create(&provider, &format!("i-{n}"), named("Completed", &output)).await;
    }
    create(&provider, "busy", named("Running", "")).await;
    let bytes = &provider.store().answered_bytes;
    bytes.store(0, Ordering::SeqCst);
    assert_eq!(provider.count_running_instances().await.unwrap(), 1);
    assert!(bytes.load(Ordering::SeqCst) < 1_000);
    assert_eq!(provider.list_instances().await.unwrap().len(), 51);
    assert!(
        bytes.load(Ordering::SeqCst) < 51 * 1_000,
        "rows, not outputs"
    );
}

#[tokio::test]
async fn many_new_instances_and_strangers_are_opened_by_a_few_queries() {
    let provider = Faulty::provider(None);
    for n in 0..50 {
        send(&provider, start(&format!("i-{n}"))).await;
        send(&provider, signal(&format!("nobody-{n}"))).await;
    }
    let queries = &provider.store().queries;
    queries.store(0, Ordering::SeqCst);
    let claim = TurnClaim::new(100, LOCK, Duration::ZERO);
    let turns = provider.claim_turns(claim).await.unwrap();
    assert_eq!(turns.len(), 50);
    let asked = queries.load(Ordering::SeqCst);
    assert!(asked <= 5, "{asked} queries for fifty instances");
}

#[tokio::test]
async fn a_busy_instance_can_be_deleted_by_force() {
    let provider = Faulty::provider(None);
    for n in 0..20 {
        create(&provider, &format!("i-{n}"), named("Running", "")).await;
    }
    provider.store().stir.store(true, Ordering::SeqCst);
    let ids: Vec<_> = (0..20).map(|n| format!("i-{n}")).collect();
    let deleted = provider.delete_instances_atomic(&ids, true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 20);
}

#[tokio::test]
async fn a_child_asked_for_while_its_parent_is_deleted_by_force_goes_with_it() {
    let provider = Faulty::provider(None);
    create(&provider, "parent", named("Running", "")).await;
    send(&provider, signal("parent")).await;
    let claim = TurnClaim::new(1, LOCK, Duration::ZERO);
    let turn = provider.claim_turns(claim.clone()).await.unwrap().remove(0);
    let mut child = start("child");
    if let WorkItem::StartOrchestration {
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &mut child
    {
        *parent_instance = Some("parent".into());
        *parent_id = Some(2);
        *parent_execution_id = Some(1);
    }
    *provider.store().asks.lock().unwrap() = Some((turn.lock_token, child));
    let ids = ["parent".to_owned()];
    let deleted = provider.delete_instances_atomic(&ids, true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 1);
    assert!(
        provider.store().asks.lock().unwrap().is_none(),
        "it was asked for"
    );
    let left = provider.claim_turns(claim).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    let queued = provider.get_queue_depths().await.unwrap();
    assert_eq!(queued.orchestrator_queue, 0);
    let asked = provider
        .store()
        .inner
        .entries("asked/parent")
        .await
        .unwrap();
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn an_activity_that_cannot_be_set_aside_keeps_no_other_leased() {
    let provider = Faulty::provider(None);
    let worker = Queue::single("worker");
    let broken = NewMessage {
        kind: Some("A".into()),
        ..NewMessage::new("i", "{}")
    };
    provider.store().enqueue(&worker, broken).await.unwrap();
    let activity = WorkItem::ActivityExecute {
        instance: "i".into(),
        execution_id: 1,
        id: 2,
        name: "A".into(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    provider.enqueue_for_worker(activity).await.unwrap();
    provider.store().failing_commits.store(1, Ordering::SeqCst);
    let claim = WorkClaim {
        tag_filter: TagFilter::Any,
        ..WorkClaim::new(8, LOCK, Duration::ZERO)
    };
    let works = provider.claim_work(claim.clone()).await.unwrap();
    assert_eq!(works.len(), 1, "the good one is handed out");
    let rest = provider.claim_work(claim).await.unwrap();
    assert!(rest.is_empty());
    let letters = provider.list_dead_letters(9).await.unwrap();
    assert_eq!(
        letters.len(),
        1,
        "the broken one came again and was set aside"
    );
}

#[tokio::test]
async fn a_failed_claim_of_turns_holds_no_lease() {
    let provider = Faulty::provider(None);
    let orchestrator = Queue::grouped("orchestrator");
    let broken = NewMessage::new("hit", "{}");
    provider
        .store()
        .enqueue(&orchestrator, broken)
        .await
        .unwrap();
    provider.store().failing_commits.store(1, Ordering::SeqCst);
    let claim = TurnClaim::new(8, LOCK, Duration::ZERO);
    assert!(provider.claim_turns(claim.clone()).await.is_err());
    send(&provider, start("hit")).await;
    let turns = provider.claim_turns(claim).await.unwrap();
    assert_eq!(
        turns.len(),
        1,
        "the broken message is gone, the start is here"
    );
}

#[tokio::test]
async fn a_start_that_arrives_while_its_messages_are_put_to_rest_gets_them() {
    let clock = ManualClock::at(1_000);
    let provider = Faulty::provider_at(None, &clock);
    send(&provider, signal("late")).await;
    clock.advance(duroxide_store::adapter::DEFAULT_UNKNOWN_INSTANCE_GRACE);
    *provider.store().arrives.lock().unwrap() = Some(start("late"));
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (item, ..) = fetched.await.unwrap().expect("the start is there");
    assert_eq!(item.messages, [signal("late"), start("late")]);
    let letters = provider.list_dead_letters(10).await.unwrap();
    assert!(letters.is_empty(), "{letters:?}");
}

#[tokio::test]
async fn a_turn_costs_few_calls() {
    let provider = Faulty::provider(None);
    let queries = &provider.store().queries;
    for n in 0..30 {
        send(&provider, start(&format!("i-{n}"))).await;
    }
    queries.store(0, Ordering::SeqCst);
    let claim = TurnClaim::new(30, LOCK, Duration::ZERO);
    let turns = provider.claim_turns(claim).await.unwrap();
    assert_eq!(turns.len(), 30);
    assert_eq!(
        queries.load(Ordering::SeqCst),
        1,
        "one query for all that are new"
    );
    for turn in &turns {
        commit(&provider, &turn.lock_token, 1, named("Running", "")).await;
    }
    assert_eq!(
        queries.load(Ordering::SeqCst),
        1,
        "a commit reads nothing again"
    );
}

#[tokio::test]
async fn a_row_that_changed_beside_the_turn_is_read_again() {
    let provider = Faulty::provider(None);
    create(&provider, "i", named("Running", "")).await;
    send(&provider, signal("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let kind = EventKind::ExternalEvent {
        name: "go".into(),
        data: String::new(),
    };
    let beside = vec![Event::with_event_id(2, "i", 1, None, kind)];
    provider
        .append_with_execution("i", 1, beside)
        .await
        .unwrap();
    commit(&provider, &token, 3, named("Running", "")).await;
    assert_eq!(provider.read("i").await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_damaged_key_value_does_not_keep_an_instance_from_ending() {
    let provider = Faulty::provider(None);
    send(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let set = EventKind::KeyValueSet {
        key: "k".into(),
        value: "v".into(),
        last_updated_at_ms: 1,
    };
    let set = Event::with_event_id(1, "i", 1, None, set);
    let metadata = named("Running", "");
    let committed =
        provider.ack_orchestration_item(&token, 1, vec![set], vec![], vec![], metadata, vec![]);
    committed.await.unwrap();
    let damage = Operation::Put {
        scope: "kv_delta/i".into(),
        key: "k".into(),
        value: b"?".to_vec(),
    };
    provider.store().commit(Batch::of([damage])).await.unwrap();
    send(&provider, signal("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    commit(&provider, &token, 2, named("Completed", "ok")).await;
    let completed = provider
        .list_instances_by_status("Completed")
        .await
        .unwrap();
    assert_eq!(completed, ["i"]);
}
