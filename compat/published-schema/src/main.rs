//! `cargo run -- URL SCHEMA` fills a PostgreSQL schema with the published crates: instances in every state, and a process that ended without
//! giving its leases back. `crates/duroxide-cli/tests/published` keeps a dump of such a schema.

#[path = "../../../crates/duroxide-cli/tests/published/handlers.rs"]
mod handlers;
#[path = "../../published.rs"]
mod published;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide_pg::PostgresProvider;

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().expect("URL SCHEMA [run]");
    let (url, schema) = (word(), word());
    let store = PostgresProvider::new_with_schema(&url, Some(&schema)).await;
    let store: Arc<dyn Provider> = Arc::new(store.expect("a schema"));
    if words.next().is_some() {
        return run(store).await;
    }
    // Each half is a process: the first one dies with its leases.
    let this = std::env::current_exe().expect("a running program has a path");
    let ran = Command::new(this).args([&url, &schema, "run"]).status();
    assert!(ran.expect("the first half").success());
    leave(store).await;
}

/// Runs every instance as far as it can come, and ends like a process that is killed.
async fn run(store: Arc<dyn Provider>) {
    let runtime = Runtime::start_with_store(
        store.clone(),
        handlers::activities(true),
        handlers::orchestrations(),
    )
    .await;
    let client = Client::new(store);
    published::run(&client, &[("serving", "serves", "soup", 4)]).await;
    // Both activities that are held have a worker.
    loop {
        let depths = client.get_queue_depths().await.expect("depths");
        if depths.worker_queue == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::mem::forget(runtime);
    std::process::exit(0);
}

/// What arrives while nothing runs waits in the queues; one message is claimed by a process that dies with it.
async fn leave(store: Arc<dyn Provider>) {
    let client = Client::new(store.clone());
    published::leave(&client).await;
    let claimed = store
        .fetch_orchestration_item(Duration::from_secs(30), Duration::ZERO, None)
        .await
        .expect("a claim");
    assert!(claimed.is_some(), "a message was there");
}
