//! Dead-letters claimed messages, under the lease they were claimed with. In: the token of the lease, and positions or
//! rows with the reason. Out: dead letters, and answers to what waits for a message that does not decode.

use duroxide_core::WorkItem;
use duroxide_core::provider::rules::{self, Refusal, UnreadableMessage};

use super::ack_work::why_not_held;
use crate::codec;
use crate::error::Result;
use crate::tables::dead_letters::{NewDeadLetter, Recipient};
use crate::tables::held_queue_messages::Hold;
use crate::tables::orchestrator_queue::Taken;
use crate::tables::{
    dead_letters, deletions, held_queue_messages, instance_locks, orchestrator_queue, worker_queue,
};
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
        return Err(Refusal::InvalidToken.into());
    }
    let mut ids = orchestrator_queue::claimed_ids(tx, instance, token, bounds)?;
    ids.extend(dead_letters::ids_of_claim(tx, token)?);
    ids.sort_unstable();
    for position in positions {
        let id = ids.get(*position).ok_or_else(|| Refusal::NoSuchPosition {
            instance: instance.to_owned(),
            position: *position,
            size: ids.len(),
        })?;
        move_message(tx, instance, *id, reason, Some((*id, token)))?;
    }
    orchestrator_queue::choose_head(tx, instance)?;
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
            dead_letters::last_was_answered(tx)?;
            orchestrator_queue::push(tx, &codec::decided_message(&item)?)?;
        }
    }
    // Those that come next may have waited for these to be read.
    if held_queue_messages::of(tx, instance)? == Some(Hold::Draining) {
        orchestrator_queue::release_queue_messages(tx, instance)?;
    }
    let is_claimable = orchestrator_queue::choose_head(tx, instance)?;
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
    // It was left of a deleted instance: a failure would reach the next one of the id.
    if deletions::include_work(tx, &taken.instance, id)? {
        return Ok(());
    }
    let letter = NewDeadLetter {
        queue: "worker",
        instance: &taken.instance,
        payload: &taken.payload,
        reason,
        claimed: None,
    };
    dead_letters::push_as(tx, &letter, Recipient::Answered)?;
    let (execution_id, id) = (taken.execution_id, taken.activity_id);
    let failed = rules::failed_activity(&taken.instance, execution_id, id, reason);
    orchestrator_queue::push(tx, &codec::completion(&failed)?)
}

/// What takes the place of a message that does not decode, if its row names the operation that waits for it.
fn stand_in(instance: &str, taken: &Taken, reason: &str) -> Option<WorkItem> {
    let (execution_id, id) = taken.answers?;
    let row = UnreadableMessage {
        instance,
        kind: &taken.kind,
        answers: Some((execution_id.try_into().ok()?, id.try_into().ok()?)),
        visible_at_ms: shown_ms(taken.visible_at),
        parent: taken.awaited_by.as_deref(),
    };
    row.stand_in(reason)
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
        let letter = NewDeadLetter {
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
