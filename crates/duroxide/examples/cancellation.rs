//! Cancelling: an instance ends, its child ends with it, and a running activity is told.
//!
//! ```text
//! cargo run --release --example cancellation
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, Runtime,
};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(30);

/// Digs until somebody says that the tunnel is no longer wanted.
async fn dig(
    ctx: ActivityContext,
    news: mpsc::UnboundedSender<&'static str>,
) -> Result<String, String> {
    let _ = news.send("the digger begins");
    ctx.cancelled().await;
    let _ = news.send("the digger was told and packs up");
    // Whatever is returned now is thrown away.
    Ok("a very short tunnel".to_owned())
}

async fn tunnel(ctx: OrchestrationContext, to: String) -> Result<String, String> {
    let inspection = ctx.schedule_sub_orchestration_with_id("inspect", "inspector", to.as_str());
    let dug = ctx.schedule_activity("dig", to.as_str());
    let (inspected, dug) = ctx.join2(inspection, dug).await;
    Ok(format!("{} {}", inspected?, dug?))
}

async fn inspect(ctx: OrchestrationContext, _to: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("tunnel finished").await)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (news, mut heard) = mpsc::unbounded_channel();
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register("dig", move |ctx, _to: String| dig(ctx, news.clone()))
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register("tunnel", tunnel)
        .register("inspect", inspect)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    client
        .start_orchestration("tunnel-1", "tunnel", "the sea")
        .await?;
    println!("{}", heard.recv().await.unwrap_or("no news"));

    println!("the money runs out");
    client.cancel_instance("tunnel-1", "no more money").await?;
    println!("{}", heard.recv().await.unwrap_or("no news"));

    for id in ["tunnel-1", "inspector"] {
        let outcome: Result<String, String> =
            client.wait_for_orchestration_typed(id, PATIENCE).await?;
        match outcome {
            Ok(output) => println!("{id} completed: {output}"),
            Err(why) => println!("{id} ended: {why}"),
        }
    }

    runtime.shutdown(None).await;
    Ok(())
}
