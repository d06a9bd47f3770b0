//! Three ways to wait: a timer, a signal, and a queue of messages.
//!
//! A signal reaches a wait that is already there. A queue keeps its messages until somebody takes them.
//!
//! ```text
//! cargo run --release --example timers_and_events
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    Runtime,
};

const PATIENCE: Duration = Duration::from_secs(30);

async fn ferry(ctx: OrchestrationContext, seats: String) -> Result<String, String> {
    let seats: usize = seats.parse().map_err(|e| format!("seats: {e}"))?;

    // The messages were sent before anybody asked for them, and none is lost.
    let mut aboard = Vec::new();
    while aboard.len() < seats {
        aboard.push(ctx.dequeue_event("passengers").await);
    }

    // The status tells the outside that the wait is recorded, so the signal will find it.
    let whistle = ctx.schedule_wait("whistle");
    ctx.set_custom_status("waiting for the whistle");
    let captain = whistle.await;

    // A timer goes on while no process runs; after a restart it fires at its time, or at once if that has passed.
    ctx.schedule_timer(Duration::from_millis(200)).await;
    Ok(format!("{captain} took {} across", aboard.join(", ")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let orchestrations = OrchestrationRegistry::builder()
        .register("ferry", ferry)
        .build_result()?;
    let runtime =
        Runtime::start_with_store(store.clone(), ActivityRegistry::default(), orchestrations).await;
    let client = Client::new(store);

    client.start_orchestration("morning", "ferry", "3").await?;
    for passenger in ["Ada", "Grace", "Edsger"] {
        client
            .enqueue_event("morning", "passengers", passenger)
            .await?;
        println!("{passenger} queues up");
    }

    let status = client
        .wait_for_status_change("morning", 0, Duration::from_millis(50), PATIENCE)
        .await?;
    if let OrchestrationStatus::Running {
        custom_status: Some(text),
        ..
    } = status
    {
        println!("the ferry is {text}");
    }
    client
        .raise_event("morning", "whistle", "Captain Hopper")
        .await?;
    println!("the whistle blows");

    let result: String = client
        .wait_for_orchestration_typed("morning", PATIENCE)
        .await??;
    println!("{result}");

    runtime.shutdown(None).await;
    Ok(())
}
