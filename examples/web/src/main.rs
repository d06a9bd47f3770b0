//! `cargo run -p duroxide-example-web`, then
//! `curl localhost:3000/orders -H 'content-type: application/json' -d '{"id":"o-7","item":"tea"}'` and
//! `curl -N localhost:3000/orders/o-7/events`.

use duroxide::Duroxide;
use duroxide_example_web::{handlers, router};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("sqlite:orders.db")
        .handlers(handlers())
        .start()
        .await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = axum::serve(listener, router(app.client()));
    let stop = async {
        let _interrupted = tokio::signal::ctrl_c().await;
    };
    service.with_graceful_shutdown(stop).await?;
    app.shutdown().await;
    Ok(())
}
