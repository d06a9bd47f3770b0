//! Orchestrations that start orchestrations: children that are awaited, and tried again, and a detached one that is not
//! awaited.
//!
//! ```text
//! cargo run --release --example sub_orchestrations
//! ```

use std::time::Duration;

use duroxide::prelude::*;

#[duroxide::activity]
async fn cook(dish: String) -> Result<String, String> {
    match dish.as_str() {
        "unicorn" => Err("we are out of unicorn".to_owned()),
        dish => Ok(format!("hot {dish}")),
    }
}

/// A child. It has a history of its own.
#[duroxide::orchestration]
async fn dish(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    Ok(ctx.call(cook, &name).await?)
}

/// The parent. A child that fails is an `Err` here, and the parent decides what that means.
#[duroxide::orchestration]
async fn table(ctx: OrchestrationContext, order: Vec<String>) -> Result<String, String> {
    let dishes = order.iter().map(|name| {
        // A failed child is started once more, under an id of its own.
        let again = Retry::fixed(2, Duration::from_millis(50));
        ctx.child(dish, name).id(name).retry(again)
    });
    let served = ctx.join(dishes.collect()).await.into_iter();
    let served: Vec<String> = served
        .map(|dish| dish.unwrap_or_else(|why| format!("nothing ({why})")))
        .collect();
    // Nobody waits for the washing up, and it lives on when the table is done.
    ctx.spawn(wash_up, served.len()).id("wash-up-4");
    Ok(served.join(", "))
}

#[duroxide::orchestration]
async fn wash_up(_ctx: OrchestrationContext, plates: usize) -> Result<String, String> {
    Ok(format!("{plates} plates washed"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(cook)
        .register(dish)
        .register(table)
        .register(wash_up)
        .start()
        .await?;
    let client = app.client();

    println!("table 4 orders soup, unicorn and pie");
    let order = ["soup", "unicorn", "pie"].map(str::to_owned).to_vec();
    let table = client.start(table, order).id("table-4").await?;
    println!("table 4 got: {}", table.result().await?);

    println!("the family of instances:");
    let mut family = client.get_instance_tree("table-4").await?.all_ids;
    family.sort();
    for id in family {
        let info = client.get_instance_info(&id).await?;
        println!("  {id}: {} {}", info.orchestration_name, info.status);
    }
    let washed = client.handle(wash_up, "wash-up-4").result().await?;
    println!("and on its own, wash-up-4: {washed}");

    app.shutdown().await;
    Ok(())
}
