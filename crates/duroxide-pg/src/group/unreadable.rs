//! What the server cannot read (`0023_unreadable.sql`). In: a batch whose claims met a damaged row, or arrivals that
//! cannot be moved. Out: the instance or activity is leased to nobody for a while, the arrival is left alone as long,
//! and the others go on. Never changes what cannot be read: it may be curable.

use std::time::Duration;

use super::batch::Batch;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::{PgError, Result};
use crate::text;
use crate::time::duration_ms;

/// How long claims leave alone what could not be read, before one looks whether it was repaired.
pub(crate) const REST: Duration = Duration::from_secs(60);
/// Who noted it: no node in particular, what cannot be read is the same for all.
pub(crate) const NOTED_BY: &str = "postgres";

/// How long it waits before it looks again where nothing was found: the server tells an error before it lets go of the
/// rows of the transaction, and what is locked is not looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Puts to rest what the claims of this batch could not read. Returns whether there was anything.
pub(super) async fn rest(db: &Db, batch: &Batch) -> bool {
    if batch.turns.is_empty() && batch.work.is_empty() {
        return false;
    }
    if rest_claimable(db, batch).await {
        return true;
    }
    tokio::time::sleep(LOOK_AGAIN).await;
    rest_claimable(db, batch).await
}

async fn rest_claimable(db: &Db, batch: &Batch) -> bool {
    let turns = batch.turns.iter().map(|rider| rider.ask.max).max();
    let work = batch.work.iter().map(|rider| rider.ask.max).max();
    let mut rested = false;
    for (function, max) in [
        ("rest_unreadable_turns", turns),
        ("rest_unreadable_work", work),
    ] {
        let Some(max) = max else {
            continue;
        };
        let call = call(db, function, i32::try_from(max).unwrap_or(i32::MAX));
        let what = "an instance cannot be read; it rests and is looked at again";
        rested |= done(db, call, what).await;
    }
    rested
}

/// Puts arrivals to rest that cannot be moved. Returns whether there were any.
pub(super) async fn rest_arrivals(db: &Db, max: i32) -> bool {
    for pause in [Duration::ZERO, LOOK_AGAIN] {
        tokio::time::sleep(pause).await;
        let call = call(db, "rest_unreadable_arrivals", max);
        let what = "messages of an application cannot be moved to their queue; they rest and are looked at again";
        if done(db, call, what).await {
            return true;
        }
    }
    false
}

fn call(db: &Db, function: &'static str, max: i32) -> Call<'static> {
    Call::new(function)
        .int(db.expected.now())
        .small(max)
        .int(duration_ms(REST))
        .text(NOTED_BY)
}

async fn done(db: &Db, call: Call<'_>, what: &str) -> bool {
    match found(db, call).await {
        Ok(found) => {
            for (instance, error) in &found {
                tracing::error!(target: "duroxide::providers::postgres", code = error.code(), instance_id = %instance, %error, "{what}");
            }
            !found.is_empty()
        }
        Err(error) => {
            tracing::error!(target: "duroxide::providers::postgres", code = error.code(), %error, "what cannot be read could not be put to rest");
            false
        }
    }
}

/// The instances, and why they cannot be read.
async fn found(db: &Db, call: Call<'_>) -> Result<Vec<(String, PgError)>> {
    let rows = db.transact(&[call]).await?;
    let rows = rows.iter().flatten();
    rows.map(|row| {
        let why = row.try_get(1)?;
        Ok((text::shown(row.try_get(0)?), PgError::Unreadable { why }))
    })
    .collect()
}
