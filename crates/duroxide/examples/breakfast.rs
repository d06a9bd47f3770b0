//! The program of the README. Stop it half-way with Ctrl-C and run it again: what was done is not done twice.

use std::time::Duration;

use duroxide::prelude::*;

/// Real work: may call servers, take its time, and fail. Its result is recorded.
#[duroxide::activity]
async fn brew(drink: String) -> Result<String, String> {
    println!("brewing {drink}");
    Ok(format!("a cup of {drink}"))
}

/// Glue: decides what happens next. After a crash it is replayed against the record.
#[duroxide::orchestration]
async fn breakfast(ctx: OrchestrationContext, guest: String) -> Result<String, String> {
    let coffee = ctx.call(brew, "coffee").await?;
    ctx.sleep(Duration::from_secs(3)).await;
    let tea = ctx.call(brew, "tea").await?;
    Ok(format!("{guest} had {coffee} and {tea}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("sqlite:breakfast.db")
        .register(brew)
        .register(breakfast)
        .start()
        .await?;

    let monday = app.client().start(breakfast, "Ada").id("monday").await?;
    println!("{}", monday.result().await?); // a String, or a typed error
    app.shutdown().await;
    Ok(())
}
