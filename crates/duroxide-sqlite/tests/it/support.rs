//! What the tests share: stores, a clock that is set by hand, and the few steps every flow begins with.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{
    ExecutionMetadata, Incarnation, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, TagFilter, TurnClaim, WorkItem,
};
use duroxide_sqlite::{Durability, SqliteOptions, SqliteProvider};
pub(crate) use duroxide_validation::items::{activity, activity_done as completed};
use duroxide_validation::{items, kinds};

pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// The handler of every instance here.
pub(crate) const NAME: &str = "Orch";
pub(crate) const VERSION: &str = "1.0.0";
pub(crate) const NO_WAIT: Duration = Duration::ZERO;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_700_000_000_000)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0
            .fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A store in memory whose time is moved by hand.
pub(crate) async fn store_with_clock() -> (SqliteProvider, Arc<HandClock>) {
    let clock = HandClock::new();
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let store = SqliteProvider::new_in_memory_with_options(Some(options))
        .await
        .unwrap();
    (store, clock)
}

/// A store in a file; relaxed, because what is tested is not the disk.
pub(crate) async fn file_store(path: &Path) -> SqliteProvider {
    let options = SqliteOptions {
        durability: Durability::Relaxed,
        ..SqliteOptions::default()
    };
    SqliteProvider::new(&url(path), Some(options))
        .await
        .unwrap()
}

pub(crate) fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// A second look at the file, as a person with a shell has.
pub(crate) fn shell(path: &Path) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(5)).unwrap();
    conn
}

pub(crate) fn admin(store: &SqliteProvider) -> &dyn ProviderAdmin {
    store.as_management_capability().unwrap()
}

pub(crate) fn start(instance: &str) -> WorkItem {
    items::start_of(instance, NAME, Some(VERSION))
}

pub(crate) fn raised(instance: &str, data: &str) -> WorkItem {
    items::signal_with(instance, "go", data)
}

pub(crate) fn started(instance: &str) -> Event {
    started_in(instance, 1)
}

pub(crate) fn started_in(instance: &str, execution_id: u64) -> Event {
    event(instance, execution_id, 1, kinds::started_as(NAME, VERSION))
}

pub(crate) fn event(instance: &str, execution_id: u64, event_id: u64, kind: EventKind) -> Event {
    Event::with_event_id(event_id, instance, execution_id, None, kind)
}

pub(crate) fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some(NAME.to_owned()),
        orchestration_version: Some(VERSION.to_owned()),
        ..ExecutionMetadata::default()
    }
}

pub(crate) fn ended(status: &str, output: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some(status.to_owned()),
        output: Some(output.to_owned()),
        ..ExecutionMetadata::default()
    }
}

/// Puts a message on the orchestrator queue.
pub(crate) async fn send(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.unwrap();
}

pub(crate) async fn fetch(store: &dyn Provider) -> Option<(OrchestrationItem, String, u32)> {
    store
        .fetch_orchestration_item(LEASE, NO_WAIT, None)
        .await
        .unwrap()
}

pub(crate) async fn fetch_work(store: &dyn Provider) -> Option<(WorkItem, String, u32)> {
    store
        .fetch_work_item(LEASE, NO_WAIT, None, &TagFilter::DefaultOnly)
        .await
        .unwrap()
}

/// What a turn decided. Whatever a test leaves out is empty; the execution is the first.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) events: Vec<Event>,
    pub(crate) activities: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Decided {
    /// What the first turn of an instance decides at least.
    pub(crate) fn first(instance: &str) -> Self {
        Self {
            events: vec![started(instance)],
            metadata: named(),
            ..Self::default()
        }
    }
}

/// Commits a turn of the first execution.
pub(crate) async fn commit(
    store: &dyn Provider,
    token: &str,
    decided: Decided,
) -> Result<(), ProviderError> {
    commit_in(store, token, 1, decided).await
}

async fn commit_in(
    store: &dyn Provider,
    token: &str,
    execution_id: u64,
    decided: Decided,
) -> Result<(), ProviderError> {
    store
        .ack_orchestration_item(
            token,
            execution_id,
            decided.events,
            decided.activities,
            decided.messages,
            decided.metadata,
            decided.cancelled,
        )
        .await
}

/// Commits a turn that only records events.
pub(crate) async fn ack(
    store: &dyn Provider,
    token: &str,
    execution_id: u64,
    events: Vec<Event>,
    metadata: ExecutionMetadata,
) {
    let decided = Decided {
        events,
        metadata,
        ..Decided::default()
    };
    commit_in(store, token, execution_id, decided)
        .await
        .unwrap();
}

/// Starts an instance and commits its first turn.
pub(crate) async fn create(store: &dyn Provider, instance: &str) {
    store
        .enqueue_for_orchestrator(start(instance), None)
        .await
        .unwrap();
    let (item, token, _) = fetch(store).await.unwrap();
    assert_eq!(item.instance, instance);
    ack(store, &token, 1, vec![started(instance)], named()).await;
}

/// Ends the current execution of an instance.
pub(crate) async fn finish(store: &dyn Provider, instance: &str, status: &str) {
    store
        .enqueue_for_orchestrator(raised(instance, "end"), None)
        .await
        .unwrap();
    let (item, token, _) = fetch(store).await.unwrap();
    assert_eq!(item.instance, instance);
    let kind = EventKind::OrchestrationCompleted {
        output: "out".to_owned(),
    };
    let last = item.history.last().map_or(0, Event::event_id);
    let end = event(instance, item.execution_id, last + 1, kind);
    ack(
        store,
        &token,
        item.execution_id,
        vec![end],
        ended(status, "out"),
    )
    .await;
}

/// Which life of the instance is stored.
pub(crate) async fn incarnation(store: &dyn Provider, instance: &str) -> Incarnation {
    send(store, raised(instance, "who are you")).await;
    let claim = TurnClaim::new(1, LEASE, NO_WAIT);
    let turn = store.claim_turns(claim).await.unwrap().remove(0);
    assert_eq!(turn.item.instance, instance);
    ack(
        store,
        &turn.lock_token,
        turn.item.execution_id,
        vec![],
        ExecutionMetadata::default(),
    )
    .await;
    turn.incarnation.expect("every instance has one")
}
