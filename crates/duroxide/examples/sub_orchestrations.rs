//! Orchestrations that start orchestrations: children that are awaited, and a detached one that is not.
//!
//! ```text
//! cargo run --release --example sub_orchestrations
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, Runtime,
};

const PATIENCE: Duration = Duration::from_secs(30);

async fn cook(_ctx: ActivityContext, dish: String) -> Result<String, String> {
    match dish.as_str() {
        "unicorn" => Err("we are out of unicorn".to_owned()),
        dish => Ok(format!("hot {dish}")),
    }
}

/// A child. It has a history of its own.
async fn dish(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("cook", name).await
}

/// The parent. A child that fails is an `Err` here, and the parent decides what that means.
async fn table(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    let dishes = order
        .split(',')
        .map(|name| ctx.schedule_sub_orchestration("dish", name))
        .collect();
    let served: Vec<String> = ctx
        .join(dishes)
        .await
        .into_iter()
        .map(|dish| dish.unwrap_or_else(|why| format!("nothing ({why})")))
        .collect();
    // Nobody waits for the washing up, and it lives on when the table is done.
    ctx.schedule_orchestration("wash_up", "wash-up-4", served.len().to_string());
    Ok(served.join(", "))
}

async fn wash_up(_ctx: OrchestrationContext, plates: String) -> Result<String, String> {
    Ok(format!("{plates} plates washed"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register("cook", cook)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register("table", table)
        .register("dish", dish)
        .register("wash_up", wash_up)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    println!("table 4 orders soup, unicorn and pie");
    client
        .start_orchestration("table-4", "table", "soup,unicorn,pie")
        .await?;
    let served: String = client
        .wait_for_orchestration_typed("table-4", PATIENCE)
        .await??;
    println!("table 4 got: {served}");

    println!("the family of instances:");
    let mut family = client.get_instance_tree("table-4").await?.all_ids;
    family.sort();
    for id in family {
        let info = client.get_instance_info(&id).await?;
        println!("  {id}: {} {}", info.orchestration_name, info.status);
    }
    let washed: String = client
        .wait_for_orchestration_typed("wash-up-4", PATIENCE)
        .await??;
    println!("and on its own, wash-up-4: {washed}");

    runtime.shutdown(None).await;
    Ok(())
}
