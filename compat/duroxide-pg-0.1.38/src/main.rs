//! Builds if a third-party provider of the 0.1 line is a provider of ours. With DATABASE_URL it also runs an orchestration.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, Runtime};
use duroxide_pg::PostgresProvider;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!("built; set DATABASE_URL to run it");
        return Ok(());
    };
    let store: Arc<dyn Provider> = Arc::new(PostgresProvider::new(&url).await?);
    let activities = ActivityRegistry::builder()
        .register("greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("hello", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("greet", name).await
        })
        .build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    let id = format!("hello-{}", std::process::id());
    client.start_orchestration(&id, "hello", "Rust").await?;
    let ended = client.wait_for_orchestration(&id, Duration::from_secs(60)).await?;
    println!("{ended:?}");
    runtime.shutdown(None).await;
    Ok(())
}
