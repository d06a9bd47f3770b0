use duroxide::prelude::*;

#[duroxide::activity]
async fn ship(order: u64, address: String) -> Result<(), String> {
    let _ = (order, address);
    Ok(())
}

async fn plain(order: u64) -> Result<(), String> {
    let _ = order;
    Ok(())
}

struct NotStored;

#[duroxide::activity]
async fn stores_nothing() -> Result<(), NotStored> {
    Ok(())
}

#[duroxide::orchestration]
async fn order(ctx: OrchestrationContext, number: u64) -> Result<(), String> {
    ctx.call(ship, &number).await?;
    ctx.call(plain, &number).await?;
    ctx.child(ship, (&number, &String::new())).await?;
    Ok(())
}

fn main() {
    let _ = Handlers::new().register(plain);
}
