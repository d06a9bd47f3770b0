//! New code for instances that run: a patch, the check of a store before the deployment, and what is declared in a
//! file.
//!
//! ```text
//! cargo run --example safe_deploy --features testing
//! ```

use std::sync::Arc;

use duroxide::OrchestrationStatus;
use duroxide::prelude::*;
use duroxide::providers::memory::MemoryProvider;
use duroxide::testing::verify_store;

#[duroxide::activity]
async fn ship(order: u64) -> Result<String, String> {
    Ok(format!("order {order} is on its way"))
}

#[duroxide::activity]
async fn check(order: u64) -> Result<(), String> {
    println!("  order {order} looks fine");
    Ok(())
}

/// As it runs today.
#[duroxide::orchestration(name = "order")]
async fn today(ctx: OrchestrationContext, order: u64) -> Result<String, String> {
    ctx.receive::<bool>("paid")
        .await
        .map_err(|strange| strange.to_string())?;
    Ok(ctx.call(ship, order).await?)
}

/// A step in front of the others: running instances would diverge.
#[duroxide::orchestration(name = "order")]
async fn careless(ctx: OrchestrationContext, order: u64) -> Result<String, String> {
    ctx.call(check, order).await?;
    ctx.receive::<bool>("paid")
        .await
        .map_err(|strange| strange.to_string())?;
    Ok(ctx.call(ship, order).await?)
}

/// The same step, for those that have not passed the place.
#[duroxide::orchestration(name = "order")]
async fn careful(ctx: OrchestrationContext, order: u64) -> Result<String, String> {
    if ctx.patched("check first") {
        ctx.call(check, order).await?;
    }
    ctx.receive::<bool>("paid")
        .await
        .map_err(|strange| strange.to_string())?;
    Ok(ctx.call(ship, order).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryProvider::new());
    let app = Duroxide::on(Arc::clone(&store) as _)
        .register(ship)
        .register(today);
    let app = app.start().await?;
    let running = app.client().start(today, 7).id("order-7").await?;
    while running.status().await? == OrchestrationStatus::NotFound {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    app.shutdown().await;

    // In the pipeline, before the deployment: every running instance against the new code. Nothing is written.
    for (which, code) in [
        (
            "careless",
            Handlers::new()
                .register(check)
                .register(ship)
                .register(careless),
        ),
        (
            "careful",
            Handlers::new()
                .register(check)
                .register(ship)
                .register(careful),
        ),
    ] {
        let (_activities, orchestrations) = code.build()?;
        let report = verify_store(Arc::clone(&store) as _, &orchestrations).await?;
        println!("{which} code is safe: {}", report.is_safe());
    }

    let app = Duroxide::on(store)
        .register(check)
        .register(ship)
        .register(careful);
    let app = app.start().await?;
    let new = app
        .client()
        .start(careful, 8)
        .message("paid", &true)
        .await?;
    app.client().send("order-7", "paid", &true).await?;
    println!(
        "{}",
        app.client().handle(careful, "order-7").result().await?
    );
    println!("{}", new.result().await?);
    app.shutdown().await;
    Ok(())
}
