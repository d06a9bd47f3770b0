//! Sessions, which keep activities on one worker. In: their owners. Out: how many were renewed or removed.

use std::time::Duration;

use super::error::Result;
use super::ms;
use super::names::WORK;
use crate::EventStore;
use crate::atomic::{Batch, Operation};

/// Extends the leases of the sessions of these owners that are not idle.
pub(super) async fn renew<S: EventStore>(
    store: &S,
    owners: &[&str],
    extend_for: Duration,
    idle_timeout: Duration,
) -> Result<usize> {
    let renew = Operation::RenewAffinities {
        queue: WORK,
        owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
        lease_ms: ms(extend_for),
        idle_ms: ms(idle_timeout),
    };
    count(store, renew).await
}

/// Removes the sessions whose lease ran out and that have no work.
pub(super) async fn sweep<S: EventStore>(store: &S) -> Result<usize> {
    count(store, Operation::SweepAffinities { queue: WORK }).await
}

async fn count<S: EventStore>(store: &S, operation: Operation) -> Result<usize> {
    let counts = store.commit(Batch::of([operation])).await?;
    let count = counts.first().copied().unwrap_or_default();
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
