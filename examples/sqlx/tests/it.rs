//! Transfers on two files: what is booked once stays booked once.

use duroxide::Duroxide;
use duroxide_example_sqlx::{Transfer, balance, create_tables, handlers, transfer};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

async fn accounts(folder: &std::path::Path) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("accounts.db"))
        .create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    create_tables(&pool).await.unwrap();
    sqlx::query("INSERT INTO accounts (id, cents) VALUES ('ada', 100), ('bob', 0)")
        .execute(&pool)
        .await
        .unwrap();
    pool
}

async fn balances(pool: &SqlitePool) -> (i64, i64) {
    (
        balance(pool, "ada").await.unwrap(),
        balance(pool, "bob").await.unwrap(),
    )
}

#[tokio::test]
async fn a_transfer_is_booked_once_in_the_database_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let pool = accounts(folder.path()).await;
    let url = format!("sqlite:{}", folder.path().join("transfers.db").display());
    let app = Duroxide::open(&url)
        .handlers(handlers())
        .state(pool.clone())
        .start()
        .await
        .unwrap();
    let send = |to: &str, cents: i64, id: &'static str| {
        let what = Transfer {
            from: "ada".to_owned(),
            to: to.to_owned(),
            cents,
        };
        let start = app.client().start(transfer, &what).id(id);
        async move { start.await.unwrap().result().await }
    };
    assert_eq!(
        send("bob", 30, "t-1").await.unwrap(),
        "30 cents from ada to bob"
    );
    assert_eq!(
        send("bob", 30, "t-1").await.unwrap(),
        "30 cents from ada to bob",
        "asked twice"
    );
    assert_eq!(balances(&pool).await, (70, 30), "done once");
    let nobody = send("nobody", 10, "t-2").await.unwrap_err().to_string();
    assert!(nobody.contains("ada got it back"), "{nobody}");
    let too_much = send("bob", 500, "t-3").await.unwrap_err().to_string();
    assert!(too_much.contains("has too little"), "{too_much}");
    assert_eq!(balances(&pool).await, (70, 30));

    // A crash after a booking was written and before that was acknowledged: the call runs again under the same key.
    sqlx::query("UPDATE bookings SET key = 't-4/1/2' WHERE account = 'bob'")
        .execute(&pool)
        .await
        .unwrap();
    let again = send("bob", 5, "t-4").await.unwrap();
    assert_eq!(again, "5 cents from ada to bob");
    assert_eq!(
        balances(&pool).await,
        (70, 35),
        "the first booking was found done, the second was made"
    );
    app.shutdown().await;
}
