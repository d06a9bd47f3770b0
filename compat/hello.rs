//! What every neighbour runs: one orchestration with one activity.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

/// Runs one orchestration on a file and returns what it said.
pub async fn hello(path: &std::path::Path) -> String {
    let store = SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await;
    let store = Arc::new(store.expect("the store opens"));
    let activities = ActivityRegistry::builder()
        .register("greet", |_: ActivityContext, name: String| async move { Ok(format!("hello {name}")) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("hello", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("greet", name).await
        })
        .build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("h", "hello", "neighbour").await.expect("it starts");
    let status = client.wait_for_orchestration("h", Duration::from_secs(30)).await;
    let said = match status.expect("it ends") {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("{other:?}"),
    };
    runtime.shutdown(None).await;
    said
}
