//! Cancelling: an instance ends, its child ends with it, and a running activity is told.
//!
//! ```text
//! cargo run --release --example cancellation
//! ```

use duroxide::prelude::*;
use tokio::sync::mpsc;

/// Where the digger tells how it goes.
struct News(mpsc::UnboundedSender<&'static str>);

impl News {
    fn tell(&self, what: &'static str) {
        // Nobody listens any more when the program ends.
        let _gone = self.0.send(what);
    }
}

/// Digs until somebody says that the tunnel is no longer wanted.
#[duroxide::activity]
async fn dig(ctx: ActivityContext, news: State<News>, _to: String) -> Result<String, String> {
    news.tell("the digger begins");
    ctx.cancelled().await;
    news.tell("the digger was told and packs up");
    // Whatever is returned now is thrown away.
    Ok("a very short tunnel".to_owned())
}

#[duroxide::orchestration]
async fn tunnel(ctx: OrchestrationContext, to: String) -> Result<String, String> {
    let inspection = ctx.child(inspect, &to).id("inspector");
    let (inspected, dug) = duroxide::join!(inspection, ctx.call(dig, &to));
    Ok(format!("{} {}", inspected?, dug?))
}

#[duroxide::orchestration]
async fn inspect(ctx: OrchestrationContext, _to: String) -> Result<String, String> {
    Ok(ctx.receive::<String>("tunnel finished").await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (news, mut heard) = mpsc::unbounded_channel();
    let app = Duroxide::open("memory:")
        .state(News(news))
        .register(dig)
        .register(tunnel)
        .register(inspect)
        .start()
        .await?;
    let client = app.client();

    let tunnel = client.start(tunnel, "the sea").id("tunnel-1").await?;
    println!("{}", heard.recv().await.unwrap_or("no news"));

    println!("the money runs out");
    tunnel.cancel("no more money").await?;
    println!("{}", heard.recv().await.unwrap_or("no news"));

    let inspector = client.handle(inspect, "inspector");
    let ended = [tunnel.result().await, inspector.result().await];
    for (id, ended) in [tunnel.id(), inspector.id()].iter().zip(ended) {
        match ended {
            Ok(output) => println!("{id} completed: {output}"),
            Err(error) => println!("{id} ended: {error}"),
        }
    }

    app.shutdown().await;
    Ok(())
}
