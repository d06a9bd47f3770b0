//! Telling the world how far it is: a custom status that clients can wait for, and key-values they can read.
//!
//! ```text
//! cargo run --release --example progress
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    Runtime,
};
use tokio::sync::Semaphore;

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

async fn import(ctx: OrchestrationContext, batches: u32) -> Result<u32, String> {
    let mut rows = 0;
    for batch in 1..=batches {
        rows += ctx
            .schedule_activity_typed::<_, u32>("import_batch", &batch)
            .await?;
        // Both become visible when the turn is committed, together with everything else that it did.
        ctx.set_kv_value_typed("rows", &rows);
        ctx.set_custom_status(format!("batch {batch} of {batches} done"));
    }
    Ok(rows)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The work waits for the watcher, so that this program shows every step each time it runs.
    let pace = Arc::new(Semaphore::new(0));
    let paced = pace.clone();
    let import_batch = move |_ctx, batch: u32| {
        let paced = paced.clone();
        async move {
            let go = paced.acquire().await.map_err(|e| e.to_string())?;
            go.forget();
            Ok::<u32, String>(batch * 100)
        }
    };

    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register_typed("import_batch", import_batch)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("import", import)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    client
        .start_orchestration_typed("nightly", "import", 3)
        .await?;
    let mut seen = 0;
    loop {
        pace.add_permits(1);
        let status = client
            .wait_for_status_change("nightly", seen, PAUSE, PATIENCE)
            .await?;
        match status {
            OrchestrationStatus::Running {
                custom_status,
                custom_status_version,
            } => {
                seen = custom_status_version;
                let rows: Option<u32> = client.get_kv_value_typed("nightly", "rows").await?;
                println!(
                    "{}, {} rows so far",
                    custom_status.unwrap_or_default(),
                    rows.unwrap_or_default()
                );
            }
            OrchestrationStatus::Completed {
                output,
                custom_status,
                ..
            } => {
                println!("{}", custom_status.unwrap_or_default());
                println!("finished with {output} rows");
                break;
            }
            other => return Err(format!("unexpected: {other:?}").into()),
        }
    }
    println!(
        "key-values stay readable: {:?}",
        client.get_kv_all_values("nightly").await?
    );

    runtime.shutdown(None).await;
    Ok(())
}
