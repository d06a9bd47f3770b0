//! An order and its orchestration are committed together, or rolled back together: the orchestration is started inside
//! the application's own transaction. Needs a PostgreSQL server, whose url is the first argument
//! (`cargo xtask postgres` starts one and prints it).

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::postgres::{PostgresProvider, Within};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    Runtime,
};
use tokio_postgres::NoTls;

async fn process(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    ctx.schedule_activity("Ship", order).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args()
        .nth(1)
        .ok_or("the url of a server is needed")?;
    let schema = format!("example_{}", std::process::id());
    let store = Arc::new(PostgresProvider::new_with_schema(&url, Some(&schema)).await?);
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

    // The application's own connection and its own table.
    let (mut shop, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let create = format!("CREATE TABLE {schema}.orders (id text PRIMARY KEY, total integer)");
    shop.batch_execute(&create).await?;
    let insert = format!("INSERT INTO {schema}.orders VALUES ($1, 12)");

    for (order, is_paid) in [("order-7", true), ("order-8", false)] {
        let tx = shop.transaction().await?;
        tx.execute(&insert, &[&order]).await?;
        Within::new(&tx, &schema)?
            .start_orchestration(order, "ProcessOrder", order)
            .await?;
        if is_paid {
            tx.commit().await?
        } else {
            tx.rollback().await?
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
    shop.batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))
        .await?;
    Ok(())
}
