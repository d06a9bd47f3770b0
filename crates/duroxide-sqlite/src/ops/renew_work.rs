//! Leases of claimed activities: extend one from now, with or without what its activity said, or ask which are gone.

use std::time::Duration;

use crate::error::Result;
use crate::ops::ack_work::why_not_held;
use crate::tables::{heartbeats, sessions, worker_queue};
use crate::token::{self, WorkToken};
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>, token: &str, extend_for: Duration) -> Result<()> {
    let WorkToken { id, in_session } = token::work(token)?;
    if !worker_queue::renew(tx, id, token, tx.later(extend_for))? {
        return Err(why_not_held(tx, id, token)?);
    }
    if in_session && let Some(session) = worker_queue::session_of(tx, id)? {
        sessions::touch(tx, &session)?;
    }
    Ok(())
}

/// Extends the lease and keeps what the activity said; `false` if its execution is gone.
pub(crate) fn heartbeat(
    tx: &Tx<'_>,
    token: &str,
    extend_for: Duration,
    call: u64,
    details: &str,
) -> Result<bool> {
    run(tx, token, extend_for)?;
    heartbeats::keep(tx, token::work(token)?.id, call, details)
}

/// Of these leases, the ones that are cancelled, taken over or expired.
pub(crate) fn lost(tx: &Tx<'_>, tokens: &[String]) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    for token in tokens {
        let held = match token::work(token) {
            Ok(WorkToken { id, .. }) => worker_queue::is_held(tx, id, token)?,
            Err(_) => false,
        };
        if !held {
            lost.push(token.clone());
        }
    }
    Ok(lost)
}
