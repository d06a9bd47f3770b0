//! Deploying new code while instances run: each execution keeps the version it began with.
//!
//! ```text
//! cargo run --release --example versioned_upgrade
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry,
    OrchestrationRegistryBuilder, Runtime,
};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

async fn letter_v1(ctx: OrchestrationContext, to: String) -> Result<String, String> {
    ctx.set_custom_status("written");
    let stamp = ctx.dequeue_event("stamp").await;
    Ok(format!("letter to {to} with a {stamp} stamp, by coach"))
}

/// The new code takes another step first. Replayed against an old history it would not fit, so it is a new version.
async fn letter_v2(ctx: OrchestrationContext, to: String) -> Result<String, String> {
    let trace = ctx.new_guid().await?;
    ctx.set_custom_status("written and traced");
    let stamp = ctx.dequeue_event("stamp").await;
    let traced = if trace.is_empty() { "lost" } else { "traced" };
    Ok(format!(
        "letter to {to} with a {stamp} stamp, {traced}, by air"
    ))
}

/// A long runner begins each round with the newest version.
async fn route_v1(ctx: OrchestrationContext, day: String) -> Result<String, String> {
    ctx.set_custom_status(format!("on foot, {day}"));
    let next = ctx.dequeue_event("day").await;
    ctx.continue_as_new(next).await
}

async fn route_v2(_ctx: OrchestrationContext, day: String) -> Result<String, String> {
    Ok(format!("by bicycle, {day}"))
}

fn old_code() -> OrchestrationRegistryBuilder {
    OrchestrationRegistry::builder()
        .register("letter", letter_v1)
        .register("route", route_v1)
}

fn new_code() -> OrchestrationRegistryBuilder {
    old_code()
        .register_versioned("letter", "2.0.0", letter_v2)
        .register_versioned("route", "2.0.0", route_v2)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let none = ActivityRegistry::default();
    let client = Client::new(store.clone());

    println!("the old program starts two instances");
    let old = old_code().build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), none.clone(), old).await;
    client.start_orchestration("early", "letter", "Ada").await?;
    client
        .start_orchestration("round", "route", "Monday")
        .await?;
    for id in ["early", "round"] {
        client
            .wait_for_status_change(id, 0, PAUSE, PATIENCE)
            .await?;
    }
    runtime.shutdown(None).await;

    println!("the new program takes over and starts one more");
    let new = new_code().build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), none, new).await;
    client.start_orchestration("late", "letter", "Alan").await?;
    client.enqueue_event("round", "day", "Tuesday").await?;
    for id in ["early", "late"] {
        client.enqueue_event(id, "stamp", "blue").await?;
    }
    for id in ["early", "late", "round"] {
        let result: String = client.wait_for_orchestration_typed(id, PATIENCE).await??;
        let version = client.get_instance_info(id).await?.orchestration_version;
        println!("  {id} ended as version {version}: {result}");
    }

    runtime.shutdown(None).await;
    Ok(())
}
