//! Files of earlier releases of redb. The file in `tests/files` was written by redb 3.1.3. To write one with the redb
//! of today: `REDB_FILE=/tmp/new.redb cargo test -p duroxide-store --features redb --test it older_files`.

use std::path::Path;
use std::time::Duration;

use duroxide_core::provider::{ExecutionMetadata, Provider, ProviderAdmin, TagFilter};
use duroxide_core::{Event, EventKind, WorkItem};
use duroxide_store::RedbProvider;

use crate::support::start;

const LOCK: Duration = Duration::from_secs(30);

fn cleared(id: u64) -> Event {
    Event::with_event_id(id, "older", 1, None, EventKind::KeyValuesCleared)
}

fn activity() -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "older".into(),
        execution_id: 1,
        id: 1,
        name: "work".into(),
        input: "{}".into(),
        session_id: None,
        tag: None,
    }
}

fn signal() -> WorkItem {
    WorkItem::ExternalRaised {
        instance: "older".into(),
        name: "go".into(),
        data: "now".into(),
    }
}

async fn ids(provider: &RedbProvider) -> Vec<u64> {
    let events = provider.read("older").await.unwrap();
    events.iter().map(|event| event.event_id).collect()
}

/// Commits the next turn of the instance with one event.
async fn commit(provider: &RedbProvider, event: Event, work: Vec<WorkItem>) {
    let claimed = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (_, token, _) = claimed.await.unwrap().unwrap();
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Hello".into()),
        orchestration_version: Some("1.0.0".into()),
        ..ExecutionMetadata::default()
    };
    let committed =
        provider.ack_orchestration_item(&token, 1, vec![event], work, vec![], metadata, vec![]);
    committed.await.unwrap();
}

/// Leaves an instance with one event, an activity and a signal that wait.
async fn fill(path: &Path) {
    let provider = RedbProvider::open(path).unwrap();
    let started = provider.enqueue_for_orchestrator(start("older"), None);
    started.await.unwrap();
    commit(&provider, cleared(1), vec![activity()]).await;
    let signalled = provider.enqueue_for_orchestrator(signal(), None);
    signalled.await.unwrap();
}

/// Expects what [`fill`] left, and goes on from there.
async fn continue_from(path: &Path) {
    let provider = RedbProvider::open(path).unwrap();
    assert_eq!(provider.list_instances().await.unwrap(), ["older"]);
    assert_eq!(ids(&provider).await, [1]);
    let tags = TagFilter::default();
    let work = provider.fetch_work_item(LOCK, Duration::ZERO, None, &tags);
    assert_eq!(work.await.unwrap().unwrap().0, activity());
    commit(&provider, cleared(2), vec![]).await;
    assert_eq!(ids(&provider).await, [1, 2]);
}

#[tokio::test]
async fn a_file_of_redb_3_opens_and_its_instances_go_on() {
    let older = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/written-by-redb-3.1.redb");
    let folder = tempfile::tempdir().unwrap();
    // Opening a file writes to it.
    let copy = folder.path().join("older.redb");
    std::fs::copy(older, &copy).unwrap();
    continue_from(&copy).await;
}

#[tokio::test]
async fn a_file_of_this_redb_opens_and_its_instances_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("newer.redb");
    fill(&path).await;
    if let Some(kept) = std::env::var_os("REDB_FILE") {
        std::fs::copy(&path, kept).unwrap();
    }
    continue_from(&path).await;
}
