//! An order and its orchestration are committed together, or rolled back together, in one SQLite file: the
//! orchestration is started inside the application's own transaction.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::rusqlite::{Connection, TransactionBehavior};
use duroxide::providers::sqlite::{SqliteProvider, Within};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    Runtime,
};

async fn process(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    ctx.schedule_activity("Ship", order).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let store = Arc::new(SqliteProvider::new(&url, None).await?);
    let activities = ActivityRegistry::builder()
        .register("Ship", |_: ActivityContext, order: String| async move {
            Ok(format!("{order} was shipped"))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("ProcessOrder", process)
        .build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store.clone());

    // The application's own connection to the same file, and its own table in it.
    let mut shop = Connection::open(&file)?;
    shop.execute_batch("CREATE TABLE shop_orders (id TEXT PRIMARY KEY, total INTEGER)")?;

    for (order, is_paid) in [("order-7", true), ("order-8", false)] {
        let tx = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute("INSERT INTO shop_orders VALUES (?1, 12)", [order])?;
        Within::new(&tx)?.start_orchestration(order, "ProcessOrder", order)?;
        if is_paid {
            tx.commit()?
        } else {
            tx.rollback()?
        }
    }

    let patience = Duration::from_secs(30);
    match client.wait_for_orchestration("order-7", patience).await? {
        OrchestrationStatus::Completed { output, .. } => println!("committed: {output}"),
        other => println!("unexpected: {other:?}"),
    }
    let status = client.get_orchestration_status("order-8").await?;
    println!("rolled back: {status:?}");

    runtime.shutdown(None).await;
    Ok(())
}
