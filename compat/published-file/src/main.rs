//! `cargo run -- FILE` writes a store file with the published crate: instances in every state, and a process that ended without
//! finishing them. `crates/duroxide-cli/tests/published` keeps one such file.

#[path = "../../../crates/duroxide-cli/tests/published/handlers.rs"]
mod handlers;

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::{Client, OrchestrationStatus};

#[tokio::main]
async fn main() {
    let path = std::env::args().nth(1).expect("the file to write");
    let url = format!("sqlite:{path}?mode=rwc");
    let store = Arc::new(SqliteProvider::new(&url, None).await.expect("a new file"));
    let runtime = Runtime::start_with_store(
        store.clone(),
        handlers::activities(true),
        handlers::orchestrations(),
    )
    .await;
    let client = Client::new(store.clone());
    for (id, name, input) in [
        ("completed", "echoes", "hello"),
        ("failed", "refuses", "hello"),
        ("holding", "holds", "tight"),
        ("sleeping", "sleeps", "rested"),
        ("asking", "asks", "they said"),
        ("reading", "reads", ""),
        ("counting", "counts", "1"),
        ("raising", "raises", "it said"),
    ] {
        client.start_orchestration(id, name, input).await.expect("a start");
    }
    client.enqueue_event("reading", "letters", "first").await.expect("a letter");
    let minute = Duration::from_secs(60);
    for id in ["completed", "failed"] {
        client.wait_for_orchestration(id, minute).await.expect("an end");
    }
    // Every other instance has come as far as it can when its history stands still.
    for (id, events) in [
        ("holding", 4),
        ("sleeping", 2),
        ("asking", 3),
        ("reading", 4),
        ("counting", 3),
        ("raising", 2),
        ("raising::sub::2", 3),
    ] {
        loop {
            let execution = if id == "counting" { 3 } else { 1 };
            let history = client.read_execution_history(id, execution).await;
            if history.is_ok_and(|history| history.len() >= events) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    runtime.shutdown(None).await;
    // What arrives while nothing runs waits in the queues.
    client.start_orchestration("unbegun", "echoes", "late").await.expect("a start");
    client.enqueue_event("reading", "letters", "second").await.expect("a letter");
    client.raise_event("asking", "answer", "yes").await.expect("a signal");
    let status = client.get_orchestration_status("holding").await.expect("a status");
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    store.checkpoint().await.expect("one file");
}
