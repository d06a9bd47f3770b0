//! Whether the store is closed for the engine, its clients and its operators. Everything that they write, and
//! everything that they claim, is guarded by that it is open. Only a restore is not: it is guarded by what its caller
//! says the store is closed for.

use duroxide_core::provider::Closing;
use duroxide_core::provider::rules::Refusal;

use super::error::{Error, Result};
use super::names::{CLOSED, STORE};
use crate::atomic::{Batch, Guard, Operation};
use crate::lease::{After, LeaseToken};
use crate::message::{Claim, Claimed};
use crate::{EventStore, StoreError};

/// Why it is closed.
pub(super) async fn reason<S: EventStore>(store: &S) -> Result<Option<String>> {
    let reason = store.get(STORE, CLOSED).await?;
    Ok(reason.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Closes the store, changes why it is closed, or opens it, if it is as the caller expects.
pub(super) async fn set<S: EventStore>(
    store: &S,
    expected: Option<&str>,
    reason: Option<&str>,
) -> Result<Closing> {
    let (scope, key) = (STORE.to_owned(), CLOSED.to_owned());
    let write = match reason {
        Some(reason) => Operation::Put {
            scope,
            key,
            value: reason.as_bytes().to_vec(),
        },
        None => Operation::Delete { scope, key },
    };
    let batch = Batch::of([write]).guarded_by(is(expected));
    match store.commit(batch).await {
        Ok(_) => Ok(Closing::Done),
        Err(StoreError::Conflict(_)) => Ok(Closing::Unexpected(self::reason(store).await?)),
        Err(error) => Err(error.into()),
    }
}

/// That the store is closed with this reason, or is open.
pub(super) fn is(closed: Option<&str>) -> Guard {
    let (scope, key) = (STORE.to_owned(), CLOSED.to_owned());
    match closed {
        Some(reason) => Guard::Equals {
            scope,
            key,
            value: reason.as_bytes().to_vec(),
        },
        None => Guard::Absent { scope, key },
    }
}

/// Refuses if the store is closed.
pub(super) async fn check<S: EventStore>(store: &S) -> Result<()> {
    match reason(store).await? {
        Some(reason) => Err(Error::Refused(Refusal::Closed { reason })),
        None => Ok(()),
    }
}

/// Claims, unless the store is closed.
pub(super) async fn claim<S: EventStore>(store: &S, claim: Claim) -> Result<Vec<Claimed>> {
    let guarded = Claim {
        guards: vec![is(None)],
        ..claim
    };
    open_or_closed(store, store.claim(guarded).await).await
}

/// Commits a batch, unless the store is closed.
pub(super) async fn commit<S: EventStore>(store: &S, batch: Batch) -> Result<Vec<u64>> {
    open_or_closed(store, store.commit(batch.guarded_by(is(None))).await).await
}

/// Gives a lease back, unless the store is closed: then it runs out by itself, and what was claimed stays as a reader
/// sees it.
pub(super) async fn release<S: EventStore>(
    store: &S,
    lease: &LeaseToken,
    after: After,
    forgive: bool,
) -> Result<()> {
    let release = Operation::Release {
        lease: lease.clone(),
        after,
        forgive,
    };
    commit(store, Batch::of([release])).await.map(drop)
}

/// A conflict may mean that the store is closed: then the error says so.
async fn open_or_closed<S: EventStore, T>(
    store: &S,
    result: std::result::Result<T, StoreError>,
) -> Result<T> {
    match result {
        Err(StoreError::Conflict(why)) => {
            check(store).await?;
            Err(StoreError::Conflict(why).into())
        }
        done => Ok(done?),
    }
}
