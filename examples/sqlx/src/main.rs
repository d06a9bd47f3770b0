//! `cargo run --manifest-path examples/sqlx/Cargo.toml`: two accounts, a transfer, what is left. Run it again: the
//! transfer has been done and is not done twice.

use duroxide::Duroxide;
use duroxide_example_sqlx::{Transfer, balance, create_tables, handlers, transfer};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let accounts = SqliteConnectOptions::new()
        .filename("accounts.db")
        .create_if_missing(true);
    let pool = SqlitePool::connect_with(accounts).await?;
    create_tables(&pool).await?;
    for (id, cents) in [("ada", 100_i64), ("bob", 0)] {
        let insert =
            sqlx::query("INSERT INTO accounts (id, cents) VALUES (?1, ?2) ON CONFLICT DO NOTHING");
        insert.bind(id).bind(cents).execute(&pool).await?;
    }
    let app = Duroxide::open("sqlite:transfers.db")
        .handlers(handlers())
        .state(pool.clone())
        .start()
        .await?;
    let what = Transfer {
        from: "ada".to_owned(),
        to: "bob".to_owned(),
        cents: 30,
    };
    let done = app
        .client()
        .start(transfer, &what)
        .id("transfer-1")
        .await?
        .result()
        .await?;
    println!(
        "{done}: ada has {}, bob has {}",
        balance(&pool, "ada").await?,
        balance(&pool, "bob").await?
    );
    app.shutdown().await;
    Ok(())
}
