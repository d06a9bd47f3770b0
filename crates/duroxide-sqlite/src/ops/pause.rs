//! Pauses and resumes an instance, or only one life of its id. Pausing writes one row: claims hold back what they meet.
//! Resuming brings it back.

use duroxide_core::provider::{Incarnation, Pausing};

use crate::error::Result;
use crate::tables::{instances, orchestrator_queue, pauses, worker_queue};
use crate::tx::Tx;

pub(crate) fn pause(tx: &Tx<'_>, instance: &str, life: Option<Incarnation>) -> Result<Pausing> {
    if let Some(refused) = refusal(tx, instance, life)? {
        return Ok(refused);
    }
    Ok(if pauses::add(tx, instance)? {
        Pausing::Done
    } else {
        Pausing::Unchanged
    })
}

pub(crate) fn resume(
    tx: &mut Tx<'_>,
    instance: &str,
    life: Option<Incarnation>,
) -> Result<Pausing> {
    if let Some(refused) = refusal(tx, instance, life)? {
        return Ok(refused);
    }
    if !pauses::remove(tx, instance)? {
        return Ok(Pausing::Unchanged);
    }
    orchestrator_queue::bring_back(tx, instance)?;
    orchestrator_queue::end_rest(tx, instance)?;
    worker_queue::bring_back(tx, instance)?;
    let now = tx.now;
    tx.effects.turn_claimable_at(now);
    tx.effects.work_claimable_at(now);
    Ok(Pausing::Done)
}

fn refusal(tx: &Tx<'_>, instance: &str, life: Option<Incarnation>) -> Result<Option<Pausing>> {
    if instances::current_execution(tx, instance)?.is_none() {
        return Ok(Some(Pausing::NoSuchInstance));
    }
    if life.is_some() && instances::incarnation(tx, instance)? != life {
        return Ok(Some(Pausing::NoSuchInstance));
    }
    Ok(if instances::is_live(tx, instance)? {
        None
    } else {
        Some(Pausing::Ended)
    })
}

/// Whether an instance is paused, without a request to terminate it.
pub(crate) fn holds_back(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    Ok(pauses::since(tx, instance)?.is_some()
        && !orchestrator_queue::is_to_be_terminated(tx, instance)?)
}
