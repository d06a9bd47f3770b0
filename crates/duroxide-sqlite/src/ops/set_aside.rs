//! Sets claimed messages aside as dead letters, under the lease they were claimed with.

use super::ack_work::why_not_held;
use crate::error::SqliteError;
use crate::tables::dead_letters::NewLetter;
use crate::tables::{dead_letters, instance_locks, orchestrator_queue, worker_queue};
use crate::token::{self, Turn};
use crate::tx::{Result, Tx};

/// Messages by their position in the batch as it was claimed, those already set aside counted. The lease stays, also
/// if nothing is left of the batch.
pub(crate) fn by_position(
    tx: &Tx<'_>,
    token: &str,
    positions: &[usize],
    reason: &str,
) -> Result<()> {
    let Turn {
        instance, bounds, ..
    } = token::turn(token)?;
    if !instance_locks::is_valid(tx, instance, token)? {
        return Err(SqliteError::InvalidToken);
    }
    let mut ids = orchestrator_queue::claimed_ids(tx, instance, token, bounds)?;
    ids.extend(dead_letters::ids_of_claim(tx, token)?);
    ids.sort_unstable();
    for position in positions {
        let id = ids.get(*position).ok_or_else(|| SqliteError::Unstorable {
            what: format!("position {position}"),
            why: format!("the claimed batch of {instance} has {} messages", ids.len()),
        })?;
        move_message(tx, instance, *id, reason, Some((*id, token)))?;
    }
    orchestrator_queue::settle_head(tx, instance)?;
    Ok(())
}

/// Messages that did not decode. If nothing is left of the batch the lease ends: there is no turn to run.
pub(crate) fn undecodable(tx: &mut Tx<'_>, token: &str, broken: &[(i64, String)]) -> Result<()> {
    let Turn {
        instance, bounds, ..
    } = token::turn(token)?;
    // A lease that ran out meanwhile belongs to somebody else, who finds the same messages.
    if !instance_locks::is_valid(tx, instance, token)? {
        return Ok(());
    }
    for (id, reason) in broken {
        // Not part of the batch that is handed out, so not counted among its positions.
        move_message(tx, instance, *id, reason, None)?;
    }
    let is_claimable = orchestrator_queue::settle_head(tx, instance)?;
    if orchestrator_queue::claimed_ids(tx, instance, token, bounds)?.is_empty() {
        instance_locks::release(tx, instance, token)?;
        if is_claimable {
            tx.effects.turn_claimable_at(tx.now);
        }
    }
    Ok(())
}

/// A claimed item that its worker can do nothing with.
pub(crate) fn work(tx: &Tx<'_>, token: &str, reason: &str) -> Result<()> {
    let id = token::work(token)?.id;
    if !worker_queue::is_held(tx, id, token)? {
        return Err(why_not_held(tx, id, token)?);
    }
    undecodable_work(tx, token, reason)
}

/// An activity that did not decode.
pub(crate) fn undecodable_work(tx: &Tx<'_>, token: &str, reason: &str) -> Result<()> {
    let id = token::work(token)?.id;
    if let Some((instance, payload)) = worker_queue::take(tx, id, token)? {
        let letter = NewLetter {
            queue: "worker",
            instance: &instance,
            payload: &payload,
            reason,
            claimed: None,
        };
        dead_letters::push(tx, &letter)?;
    }
    Ok(())
}

fn move_message(
    tx: &Tx<'_>,
    instance: &str,
    id: i64,
    reason: &str,
    claimed: Option<(i64, &str)>,
) -> Result<()> {
    if let Some(payload) = orchestrator_queue::take(tx, id)? {
        let letter = NewLetter {
            queue: "orchestrator",
            instance,
            payload: &payload,
            reason,
            claimed,
        };
        dead_letters::push(tx, &letter)?;
    }
    Ok(())
}
