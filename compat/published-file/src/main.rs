//! `cargo run -- FILE` writes a store file with the published crate: instances in every state, and a process that ended without
//! finishing them. `crates/duroxide-cli/tests/published` keeps one such file.

#[path = "../../../crates/duroxide-cli/tests/published/handlers.rs"]
mod handlers;
#[path = "../../published.rs"]
mod published;

use std::sync::Arc;

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
    published::run(&client, &[]).await;
    runtime.shutdown(None).await;
    published::leave(&client).await;
    let status = client.get_orchestration_status("holding").await.expect("a status");
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    store.checkpoint().await.expect("one file");
}
