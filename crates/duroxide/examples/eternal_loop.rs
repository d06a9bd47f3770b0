//! A loop without end whose history stays short: each round ends its execution and begins the next one.
//!
//! ```text
//! cargo run --release --example eternal_loop
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, Runtime,
};
use serde::{Deserialize, Serialize};

/// What one round hands to the next.
#[derive(Serialize, Deserialize)]
struct Till {
    sales: u32,
    cents: u64,
}

async fn print_receipt(_ctx: ActivityContext, cents: u64) -> Result<(), String> {
    println!("  receipt: {cents} cents");
    Ok(())
}

async fn shop(ctx: OrchestrationContext, till: Till) -> Result<String, String> {
    // Messages that no round has taken yet are carried over to the next one.
    let message = ctx.dequeue_event("sales").await;
    if message == "close" {
        return Ok(format!("{} sales, {} cents", till.sales, till.cents));
    }
    let cents: u64 = message.parse().map_err(|e| format!("{message}: {e}"))?;
    ctx.schedule_activity_typed::<_, ()>("print_receipt", &cents)
        .await?;
    let next = Till {
        sales: till.sales + 1,
        cents: till.cents + cents,
    };
    ctx.continue_as_new_typed(&next).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register_typed("print_receipt", print_receipt)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("shop", shop)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    println!("the shop opens");
    let empty = Till { sales: 0, cents: 0 };
    client
        .start_orchestration_typed("corner-shop", "shop", empty)
        .await?;
    for message in ["250", "399", "120", "close"] {
        client
            .enqueue_event("corner-shop", "sales", message)
            .await?;
    }
    let total: String = client
        .wait_for_orchestration_typed("corner-shop", Duration::from_secs(30))
        .await??;
    println!("the shop closes: {total}");

    let executions = client.list_executions("corner-shop").await?;
    println!("{} executions:", executions.len());
    for id in executions {
        let info = client.get_execution_info("corner-shop", id).await?;
        println!("  {id}: {}", info.status);
    }

    runtime.shutdown(None).await;
    Ok(())
}
