use duroxide::prelude::*;
use duroxide::testing::Harness;

#[duroxide::activity]
async fn ship(order: u64) -> Result<String, String> {
    Ok(format!("{order} shipped"))
}

#[duroxide::orchestration]
async fn order(ctx: OrchestrationContext, number: u64) -> Result<String, String> {
    ctx.spawn(order, "seven").id("copy");
    Ok(ctx.call(ship, &number).await?)
}

async fn client(client: Client) {
    let _ = client.start(order, "seven").await;
    let _ = client.start(ship, &7).await;
    let started = client.start(order, &7).await.unwrap();
    let _number: u64 = started.result().await.unwrap();
}

fn stubs() {
    let _ = Harness::builder().stub_of(ship, |number: String| Ok(number));
    let _ = Harness::builder().stub_of(ship, |number| Ok(number + 1));
    let _ = Harness::builder().fail_of(ship, 1, 404);
}

fn main() {
    let _ = (client, stubs);
}
