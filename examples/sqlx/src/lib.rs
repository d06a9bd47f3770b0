//! Transfers between accounts. The accounts are in a database of the program's own, which sqlx reads and writes; what
//! has been done of a transfer, and what is to be done next, is in Duroxide's.
//!
//! An activity runs at least once: after a crash between its write and its acknowledgement it runs again. So each
//! booking keeps the idempotency key of its call, in the same transaction as what it does, and a key that is there
//! already means that it was done. That makes the effect happen exactly once.

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

/// What is to be moved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Transfer {
    /// The account that pays.
    pub from: String,
    /// The account that gets it.
    pub to: String,
    /// How much.
    pub cents: i64,
}

/// A change of one account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Booking {
    /// The account.
    pub account: String,
    /// How much it gets; negative if it pays.
    pub cents: i64,
}

/// Creates the tables of this program.
///
/// # Errors
///
/// What the database says.
pub async fn create_tables(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    for statement in [
        "CREATE TABLE IF NOT EXISTS accounts (id TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0))",
        "CREATE TABLE IF NOT EXISTS bookings (key TEXT PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL)",
    ] {
        sqlx::query(statement).execute(pool).await?;
    }
    Ok(())
}

/// How much an account has.
///
/// # Errors
///
/// What the database says, also if there is no such account.
pub async fn balance(pool: &SqlitePool, account: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT cents FROM accounts WHERE id = ?1")
        .bind(account)
        .fetch_one(pool)
        .await
}

/// Changes an account, once for each call, however often it runs.
#[duroxide::activity]
pub async fn book(
    ctx: ActivityContext,
    pool: State<SqlitePool>,
    booking: Booking,
) -> Result<(), String> {
    let failed = |error: sqlx::Error| error.to_string();
    let mut tx = pool.begin().await.map_err(failed)?;
    let added = sqlx::query(
        "INSERT INTO bookings (key, account, cents) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )
    .bind(ctx.idempotency_key())
    .bind(&booking.account)
    .bind(booking.cents)
    .execute(&mut *tx)
    .await
    .map_err(failed)?;
    if added.rows_affected() == 0 {
        return Ok(()); // An earlier run of this call did it.
    }
    let changed =
        sqlx::query("UPDATE accounts SET cents = cents + ?2 WHERE id = ?1 AND cents + ?2 >= 0")
            .bind(&booking.account)
            .bind(booking.cents)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
    if changed.rows_affected() == 0 {
        return Err(format!(
            "{} does not exist or has too little",
            booking.account
        ));
    }
    tx.commit().await.map_err(failed)
}

/// Moves money; if the receiver cannot be booked, the payer gets it back.
#[duroxide::orchestration(version = "1.0.0")]
pub async fn transfer(ctx: OrchestrationContext, what: Transfer) -> Result<String, String> {
    let booking = |account: &str, cents: i64| Booking {
        account: account.to_owned(),
        cents,
    };
    let text = |error: ActivityError<String>| error.to_string();
    ctx.call(book, booking(&what.from, -what.cents))
        .await
        .map_err(text)?;
    if let Err(error) = ctx.call(book, booking(&what.to, what.cents)).await {
        ctx.call(book, booking(&what.from, what.cents))
            .await
            .map_err(text)?;
        return Err(format!("{} got it back: {error}", what.from));
    }
    Ok(format!(
        "{} cents from {} to {}",
        what.cents, what.from, what.to
    ))
}

/// The code of this program.
#[must_use]
pub fn handlers() -> Handlers {
    Handlers::new().register(book).register(transfer)
}
