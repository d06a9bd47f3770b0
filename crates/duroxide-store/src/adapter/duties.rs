//! Duties: what one node at a time does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::names::DUTIES;
use super::{closing, ms, rows};
use crate::atomic::{Batch, Guard, Operation};
use crate::{EventStore, StoreError};

#[derive(Debug, Serialize, Deserialize)]
struct DutyRow {
    holder: String,
    held_until: u64,
}

/// Takes or keeps a duty for a while, or gives it back; whether the holder has it.
pub(super) async fn hold<S: EventStore>(
    store: &S,
    duty: &str,
    holder: &str,
    time: Duration,
) -> Result<bool> {
    let (scope, key) = (DUTIES.to_owned(), duty.to_owned());
    let before = store.get(DUTIES, duty).await?;
    let row: Option<DutyRow> = match &before {
        Some(bytes) => Some(rows::decode(bytes, || format!("duty {duty}"))?),
        None => None,
    };
    let now = store.now_ms();
    let is_own = row.as_ref().is_some_and(|row| row.holder == holder);
    let is_free = row.is_none_or(|row| row.held_until <= now);
    if !is_own && (!is_free || time.is_zero()) {
        closing::check(store).await?;
        return Ok(false);
    }
    let guard = match before {
        Some(value) => Guard::Equals {
            scope: scope.clone(),
            key: key.clone(),
            value,
        },
        None => Guard::Absent {
            scope: scope.clone(),
            key: key.clone(),
        },
    };
    let write = if time.is_zero() {
        Operation::Delete { scope, key }
    } else {
        Operation::Put {
            scope,
            key,
            value: rows::encode(&DutyRow {
                holder: holder.to_owned(),
                held_until: now.saturating_add(ms(time)),
            })?,
        }
    };
    match closing::commit(store, Batch::of([write]).guarded_by(guard)).await {
        Ok(_) => Ok(!time.is_zero()),
        // Another node was faster.
        Err(Error::Store(StoreError::Conflict(_))) => Ok(false),
        Err(error) => Err(error),
    }
}
