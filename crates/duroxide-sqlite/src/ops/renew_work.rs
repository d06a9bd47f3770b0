//! Leases of claimed activities: extend one from now, or ask which are gone.

use std::time::Duration;

use crate::ops::ack_work::why_not_held;
use crate::tables::{sessions, worker_queue};
use crate::token;
use crate::tx::{Result, Tx};

pub(crate) fn run(tx: &Tx<'_>, token: &str, extend_for: Duration) -> Result<()> {
    let id = token::work_of(token)?;
    let Some(session) = worker_queue::session_of_held(tx, id, token)? else {
        return Err(why_not_held(tx, id, token)?);
    };
    worker_queue::renew(tx, id, tx.later(extend_for))?;
    match session {
        Some(session) => sessions::touch(tx, &session),
        None => Ok(()),
    }
}

/// Of these leases, the ones that are cancelled, taken over or expired.
pub(crate) fn lost(tx: &Tx<'_>, tokens: &[String]) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    for token in tokens {
        let held = match token::work_of(token) {
            Ok(id) => worker_queue::session_of_held(tx, id, token)?.is_some(),
            Err(_) => false,
        };
        if !held {
            lost.push(token.clone());
        }
    }
    Ok(lost)
}
