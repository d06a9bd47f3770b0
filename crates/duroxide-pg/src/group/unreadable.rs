//! What the server cannot read (`0023_unreadable.sql`). In: a batch whose claims met a damaged row, or arrivals that
//! cannot be moved. Out: the instance or activity is leased to nobody for a while, or the arrival dead-lettered, and
//! the others go on. Never changes what cannot be read.

use std::time::Duration;

use super::batch::Batch;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::{PgError, Result};
use crate::text;
use crate::time::duration_ms;

/// How long claims leave alone what could not be read, before one looks whether it was repaired.
const REST: Duration = Duration::from_secs(60);
/// Who noted it: no node in particular, what cannot be read is the same for all.
const NOTED_BY: &str = "postgres";

/// Puts to rest what the claims of this batch could not read. Returns whether there was anything.
pub(super) async fn rest(db: &Db, batch: &Batch) -> bool {
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
        let call = Call::new(function)
            .int(db.expected.now())
            .small(i32::try_from(max).unwrap_or(i32::MAX))
            .int(duration_ms(REST))
            .text(NOTED_BY);
        rested |= done(
            db,
            call,
            "an instance cannot be read; it rests and is looked at again",
        )
        .await;
    }
    rested
}

/// Dead-letters arrivals that cannot be read. Returns whether there were any.
pub(super) async fn set_aside_arrivals(db: &Db, max: i32) -> bool {
    let call = Call::new("set_aside_unreadable_arrivals")
        .int(db.expected.now())
        .small(max);
    done(db, call, "a message cannot be read and was dead-lettered").await
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
