//! Leases of sessions: extend the active ones, sweep those that have run out.

use std::time::Duration;

use crate::error::Result;
use crate::tables::sessions;
use crate::tx::Tx;

pub(crate) fn renew(
    tx: &Tx<'_>,
    owners: &[String],
    extend_for: Duration,
    idle_timeout: Duration,
) -> Result<usize> {
    let mut renewed = 0;
    for owner in owners {
        renewed += sessions::renew(tx, owner, tx.later(extend_for), tx.earlier(idle_timeout))?;
    }
    Ok(renewed)
}

pub(crate) fn cleanup(tx: &Tx<'_>) -> Result<usize> {
    sessions::delete_orphaned(tx)
}
