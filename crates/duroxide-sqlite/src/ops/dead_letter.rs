//! Dead-letters claimed messages, under the lease they were claimed with.

use duroxide_core::WorkItem;
use duroxide_core::event::ErrorDetails;

use super::ack_work::why_not_held;
use crate::codec;
use crate::error::{Result, SqliteError};
use crate::tables::dead_letters::NewLetter;
use crate::tables::orchestrator_queue::Taken;
use crate::tables::{dead_letters, instance_locks, orchestrator_queue, worker_queue};
use crate::token::{self, TurnToken};
use crate::tx::{Tx, shown_ms};

/// Dead-letters messages by their position in the batch as it was claimed, counting those that were dead-lettered
/// before. The lease stays, also if nothing is left of the batch.
pub(crate) fn by_position(
    tx: &Tx<'_>,
    token: &str,
    positions: &[usize],
    reason: &str,
) -> Result<()> {
    let TurnToken {
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

/// Dead-letters messages that did not decode. If nothing is left of the batch, the lease ends: there is no turn to run.
pub(crate) fn undecodable(tx: &mut Tx<'_>, token: &str, broken: &[(i64, String)]) -> Result<()> {
    let TurnToken {
        instance, bounds, ..
    } = token::turn(token)?;
    // After this lease has run out, the next claim finds the same messages.
    if !instance_locks::is_valid(tx, instance, token)? {
        return Ok(());
    }
    for (id, reason) in broken {
        // Not part of the batch that is handed out, so not counted among its positions.
        let taken = move_message(tx, instance, *id, reason, None)?;
        if let Some(item) = taken.and_then(|taken| stand_in(instance, &taken, reason)) {
            orchestrator_queue::push(tx, &codec::decided_message(&item)?)?;
        }
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

/// Dead-letters a claimed item that its worker can do nothing with.
pub(crate) fn work(tx: &mut Tx<'_>, token: &str, reason: &str) -> Result<()> {
    let id = token::work(token)?.id;
    if !worker_queue::is_held(tx, id, token)? {
        return Err(why_not_held(tx, id, token)?);
    }
    undecodable_work(tx, token, reason)
}

/// Dead-letters an activity that did not decode. The instance that waits for it gets a failure.
pub(crate) fn undecodable_work(tx: &mut Tx<'_>, token: &str, reason: &str) -> Result<()> {
    let id = token::work(token)?.id;
    let Some(taken) = worker_queue::take(tx, id, token)? else {
        return Ok(());
    };
    let letter = NewLetter {
        queue: "worker",
        instance: &taken.instance,
        payload: &taken.payload,
        reason,
        claimed: None,
    };
    dead_letters::push(tx, &letter)?;
    let failed = WorkItem::ActivityFailed {
        instance: taken.instance.clone(),
        execution_id: taken.execution_id,
        id: taken.activity_id,
        details: unreadable("the activity", reason),
    };
    orchestrator_queue::push(tx, &codec::completion(&failed)?)
}

/// What takes the place of a message that does not decode, if its row names the operation that waits for it: a result
/// fails the operation, a timer fires, the start of a child fails the operation of its parent.
fn stand_in(instance: &str, taken: &Taken, reason: &str) -> Option<WorkItem> {
    let (execution_id, id) = taken.answers?;
    let (execution_id, id) = (execution_id.try_into().ok()?, id.try_into().ok()?);
    let instance = instance.to_owned();
    Some(match taken.kind.as_str() {
        "ActivityCompleted" | "ActivityFailed" => WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            details: unreadable("the result of the activity", reason),
        },
        "SubOrchCompleted" | "SubOrchFailed" => WorkItem::SubOrchFailed {
            parent_instance: instance,
            parent_execution_id: execution_id,
            parent_id: id,
            details: unreadable("the result of the sub-orchestration", reason),
        },
        "StartOrchestration" => WorkItem::SubOrchFailed {
            parent_instance: taken.awaited_by.clone()?,
            parent_execution_id: execution_id,
            parent_id: id,
            details: unreadable("the start of the sub-orchestration", reason),
        },
        "TimerFired" => WorkItem::TimerFired {
            instance,
            execution_id,
            id,
            fire_at_ms: shown_ms(taken.visible_at),
        },
        _ => return None,
    })
}

fn unreadable(what: &str, reason: &str) -> ErrorDetails {
    ErrorDetails::Infrastructure {
        operation: "read the stored message".to_owned(),
        message: format!("{what} cannot be read and was kept as a dead letter: {reason}"),
        retryable: false,
    }
}

fn move_message(
    tx: &Tx<'_>,
    instance: &str,
    id: i64,
    reason: &str,
    claimed: Option<(i64, &str)>,
) -> Result<Option<Taken>> {
    let taken = orchestrator_queue::take(tx, id)?;
    if let Some(taken) = &taken {
        let letter = NewLetter {
            queue: "orchestrator",
            instance,
            payload: &taken.payload,
            reason,
            claimed,
        };
        dead_letters::push(tx, &letter)?;
    }
    Ok(taken)
}
