//! Telling the world how far it is: a view that clients follow while the work goes on, and read when it is done.
//!
//! ```text
//! cargo run --release --example progress
//! ```

use std::sync::Arc;

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// What clients see.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    done: u32,
    of: u32,
    rows: u32,
}

/// The work waits for the watcher, so that this program shows every step each time it runs.
#[duroxide::activity]
async fn import_batch(pace: State<Arc<Semaphore>>, batch: u32) -> Result<u32, String> {
    let go = pace.acquire().await.map_err(|error| error.to_string())?;
    go.forget();
    Ok(batch * 100)
}

#[duroxide::orchestration]
async fn import(ctx: OrchestrationContext, batches: u32) -> Result<u32, String> {
    let mut rows = 0;
    for batch in 1..=batches {
        rows += ctx.call(import_batch, batch).await?;
        // It becomes visible when the turn is committed, together with everything else that the turn did.
        ctx.publish(&Progress {
            done: batch,
            of: batches,
            rows,
        });
    }
    Ok(rows)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pace = Arc::new(Semaphore::new(0));
    let app = Duroxide::open("memory:")
        .state(Arc::clone(&pace))
        .register(import_batch)
        .register(import)
        .start()
        .await?;

    let import = app.client().start(import, 3).id("nightly").await?;
    let mut changes = import.changes::<Progress>();
    loop {
        pace.add_permits(1);
        // The store wakes it; whoever looks seldom misses views in between, and never the last one.
        let Some(progress) = changes.next().await else {
            break; // the instance has ended
        };
        let Progress { done, of, rows } = progress?;
        println!("batch {done} of {of} done, {rows} rows so far");
    }
    println!("finished with {} rows", import.result().await?);
    println!("the view stays: {:?}", import.view::<Progress>().await?);

    app.shutdown().await;
    Ok(())
}
