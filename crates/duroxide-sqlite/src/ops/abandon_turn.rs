//! Gives a claimed instance back. In: the token of the claim, and when it may come again. Out: its messages are free,
//! the attempt counted or not. Touches exactly the messages of the claim; later arrivals keep their place.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tables::orchestrator_queue::{self, Bounds};
use crate::tables::{instance_locks, rests};
use crate::token::{self, TurnToken};
use crate::writer_tx::WriterTx;

/// When the messages that are given back can be claimed again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Again {
    /// These messages after this time, others whenever they come.
    After(Option<Duration>),
    /// All messages of the instance together, after this time or when another one comes or becomes visible; at once if
    /// one has done so since the claim.
    Together(Duration),
}

/// Ends the lease, makes the messages of the claim claimable again, and takes the attempt back if it does not count.
pub(crate) fn run(
    tx: &mut WriterTx<'_>,
    token: &str,
    again: Again,
    ignore_attempt: bool,
) -> Result<()> {
    let TurnToken {
        instance, bounds, ..
    } = token::turn(token)?;
    if !instance_locks::release(tx, instance, token)? {
        return Err(Refusal::InvalidToken.into());
    }
    tx.writer().in_flight.end_turn(instance);
    tx.writer().memory.claimed(instance, false);
    let now = tx.now;
    let visible_at = match again {
        Again::After(delay) => delay.map(|delay| tx.later(delay)),
        Again::Together(rest) => {
            let until = tx.later(rest);
            rest_until(tx, instance, token, bounds, until)?
        }
    };
    orchestrator_queue::release_claimed(tx, instance, token, bounds, visible_at, ignore_attempt)?;
    tx.effects.turn_claimable_at(visible_at.unwrap_or(now));
    if orchestrator_queue::choose_head(tx, instance)? {
        tx.effects.turn_claimable_at(now);
    }
    Ok(())
}

/// Lets an instance rest until a time, or until a message becomes visible. Returns the time at which the messages of
/// the claim become visible, if the rest hides them.
fn rest_until(
    tx: &mut WriterTx<'_>,
    instance: &str,
    token: &str,
    bounds: Bounds,
    until: i64,
) -> Result<Option<i64>> {
    if orchestrator_queue::came_since_claim(tx, instance, token, bounds)? {
        return Ok(None);
    }
    let due = orchestrator_queue::next_due_of(tx, instance)?;
    if orchestrator_queue::is_left_behind(tx, instance, token)? {
        let until = due.map_or(until, |due| due.min(until));
        rests::hold(tx, instance, until)?;
        tx.effects.turn_claimable_at(until);
        return Ok(None);
    }
    // Just before the next one is due: no other message has the same time, and the end of the rest finds these by it.
    let until = due.map_or(until, |due| until.min(due - 1));
    if until <= tx.now {
        return Ok(None);
    }
    rests::hide(tx, instance, until)?;
    Ok(Some(until))
}
