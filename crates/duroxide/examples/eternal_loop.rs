//! A loop without end whose history stays short: each round ends its execution and begins the next one.
//!
//! ```text
//! cargo run --release --example eternal_loop
//! ```

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

/// What one round hands to the next.
#[derive(Serialize, Deserialize)]
struct Till {
    sales: u32,
    cents: u64,
}

#[derive(Serialize, Deserialize)]
enum Message {
    Sale { cents: u64 },
    Close,
}

#[duroxide::activity]
async fn print_receipt(cents: u64) -> Result<(), String> {
    println!("  receipt: {cents} cents");
    Ok(())
}

#[duroxide::orchestration]
async fn shop(ctx: OrchestrationContext, till: Till) -> Result<String, String> {
    // Messages that no round has taken yet are carried over to the next one.
    let cents = match ctx.receive::<Message>("sales").await? {
        Message::Close => return Ok(format!("{} sales, {} cents", till.sales, till.cents)),
        Message::Sale { cents } => cents,
    };
    ctx.call(print_receipt, cents).await?;
    let next = Till {
        sales: till.sales + 1,
        cents: till.cents + cents,
    };
    // One round each is enough for a show; a program asks `ctx.should_continue_as_new()`.
    ctx.continue_with(shop, &next).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(print_receipt)
        .register(shop)
        .start()
        .await?;
    let client = app.client();

    println!("the shop opens");
    let empty = Till { sales: 0, cents: 0 };
    let shop = client.start(shop, &empty).id("corner-shop").await?;
    for cents in [250, 399, 120] {
        shop.send("sales", &Message::Sale { cents }).await?;
    }
    shop.send("sales", &Message::Close).await?;
    println!("the shop closes: {}", shop.result().await?);

    let executions = client.list_executions("corner-shop").await?;
    println!("{} executions:", executions.len());
    for id in executions {
        let info = client.get_execution_info("corner-shop", id).await?;
        println!("  {id}: {}", info.status);
    }

    app.shutdown().await;
    Ok(())
}
