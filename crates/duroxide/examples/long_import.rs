//! A long activity that says how far it is, hangs, and goes on where it was; and small effects that need no worker.
//!
//! ```text
//! cargo run --example long_import
//! ```

use std::time::Duration;

use duroxide::prelude::*;

/// Imports so many rows. The first attempt hangs in the middle, as a connection does.
#[duroxide::activity]
async fn import(ctx: ActivityContext, rows: u64) -> Result<u64, String> {
    let done = ctx
        .last_heartbeat::<u64>()
        .await
        .map_err(|error| error.to_string())?
        .unwrap_or(0);
    println!("  begin behind row {done}");
    for row in done..rows {
        ctx.heartbeat(&(row + 1));
        if row + 1 == 70 && done == 0 {
            // Nobody hears of it any more; the heartbeat timeout of the call gives it up.
            println!("  silence after row 70");
            ctx.cancelled().await;
            return Err("given up".to_owned());
        }
    }
    Ok(rows - done)
}

#[duroxide::orchestration]
async fn nightly(ctx: OrchestrationContext, rows: u64) -> Result<String, String> {
    // Recorded with the turn that asks for it: no queue, no worker, no second look after a crash.
    let file = ctx
        .run("newest file", || async {
            Ok::<_, String>(format!("orders-{}.csv", 2026))
        })
        .await?;
    let last_attempt = ctx
        .call(import, rows)
        .heartbeat_timeout(Duration::from_millis(300))
        .retry(Retry::fixed(3, Duration::from_millis(50)))
        .await?;
    Ok(format!(
        "{file}: {rows} rows, {last_attempt} of them by the last attempt"
    ))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(import)
        .register(nightly)
        .start()
        .await?;
    let done = app.client().start(nightly, 100).id("tonight").await?;
    println!("{}", done.result().await?);
    app.shutdown().await;
    Ok(())
}
