//! Orchestrations that talk to each other: one collects, others send to it and wait for what becomes of it, none is the
//! parent of another.
//!
//! ```text
//! cargo run --example actors
//! ```

use std::time::Duration;

use duroxide::prelude::*;

/// Collects gifts until there are enough of them.
#[duroxide::orchestration]
async fn basket(ctx: OrchestrationContext, size: usize) -> Result<Vec<String>, String> {
    let mut gifts = Vec::new();
    while gifts.len() < size {
        let gift = ctx.receive::<String>("gifts").await;
        gifts.push(gift.map_err(|strange| strange.to_string())?);
    }
    Ok(gifts)
}

/// Sends a gift and waits for the basket.
#[duroxide::orchestration]
async fn guest(
    ctx: OrchestrationContext,
    (name, gift): (String, String),
) -> Result<String, String> {
    match ctx.send("basket-7", "gifts", &gift).await {
        Ok(()) => {}
        Err(Undelivered::Ended { .. }) => return Ok(format!("{name} is too late")),
        Err(other) => return Err(other.to_string()),
    }
    let gifts = ctx.await_instance(basket, "basket-7").await?;
    let place = gifts.iter().position(|one| *one == gift);
    Ok(format!(
        "{name}'s gift is number {}",
        place.map_or(0, |at| at + 1)
    ))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(basket)
        .register(guest)
        .start()
        .await?;
    let client = app.client();
    // Before the basket is there: the message waits for its start.
    let early = client.send("basket-7", "gifts", "a card");
    early.early().await?;
    let filled = client.start(basket, 3).id("basket-7");
    let filled = filled.message("gifts", "a ribbon").await?;
    // Sent three times by somebody who was not sure, and taken once.
    for _unsure in 0..3 {
        let sent = client.send("basket-7", "gifts", "tea");
        let sent = sent.dedup_key("click 1").await;
        if !matches!(
            sent,
            Ok(()) | Err(SendError::Undelivered(Undelivered::Ended { .. }))
        ) {
            sent?;
        }
    }
    let mut gifts = filled.result_within(Duration::from_secs(30)).await?;
    gifts.sort();
    println!("the basket: {}", gifts.join(", "));
    let late = client.start(guest, &("Ada".to_owned(), "cake".to_owned()));
    println!("{}", late.await?.result().await?);

    // Another basket under the same id: the first one has ended.
    let next = client.start(basket, 1).id("basket-7");
    let next = next
        .if_exists(IfExists::ReplaceFinished)
        .label("party", "second");
    next.await?;
    let guest = client.start(guest, &("Bob".to_owned(), "a kite".to_owned()));
    println!("{}", guest.await?.result().await?);
    app.shutdown().await;
    Ok(())
}
