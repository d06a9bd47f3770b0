//! Whether the store is closed for the engine and its clients. What they write is guarded by it, what they claim is looked at again.

use duroxide_core::provider::rules::Refusal;

use super::error::{Error, Result};
use super::names::{CLOSED, STORE};
use crate::atomic::{Batch, Guard};
use crate::{EventStore, StoreError};

/// Why it is closed.
pub(super) async fn reason<S: EventStore>(store: &S) -> Result<Option<String>> {
    let reason = store.get(STORE, CLOSED).await?;
    Ok(reason.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Closes the store, changes why it is closed, or opens it.
pub(super) async fn set<S: EventStore>(store: &S, reason: Option<&str>) -> Result<()> {
    match reason {
        Some(reason) => store.put(STORE, CLOSED, reason.as_bytes().to_vec()).await?,
        None => drop(store.delete(STORE, CLOSED).await?),
    }
    Ok(())
}

/// That the store is open.
pub(super) fn is_open() -> Guard {
    Guard::Absent {
        scope: STORE.to_owned(),
        key: CLOSED.to_owned(),
    }
}

/// Refuses if the store is closed.
pub(super) async fn check<S: EventStore>(store: &S) -> Result<()> {
    match reason(store).await? {
        Some(reason) => Err(Error::Refused(Refusal::Closed { reason })),
        None => Ok(()),
    }
}

/// Commits a batch of the engine or of a client.
pub(super) async fn commit<S: EventStore>(store: &S, batch: Batch) -> Result<Vec<u64>> {
    match store.commit(batch.guarded_by(is_open())).await {
        Err(StoreError::Conflict(why)) => {
            check(store).await?;
            Err(StoreError::Conflict(why).into())
        }
        done => Ok(done?),
    }
}
