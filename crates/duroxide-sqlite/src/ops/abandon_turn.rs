//! Gives a claimed instance back. Touches exactly the messages of the claim; later arrivals keep their place.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tables::{instance_locks, orchestrator_queue};
use crate::token::{self, TurnToken};
use crate::writer_tx::WriterTx;

pub(crate) fn run(
    tx: &mut WriterTx<'_>,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let TurnToken {
        instance, bounds, ..
    } = token::turn(token)?;
    if !instance_locks::release(tx, instance, token)? {
        return Err(Refusal::InvalidToken.into());
    }
    tx.writer().in_flight.rest(instance);
    tx.writer().recent.claimed(instance, false);
    let now = tx.now;
    let visible_at = delay.map(|delay| tx.later(delay));
    orchestrator_queue::release_claimed(tx, instance, token, bounds, visible_at, ignore_attempt)?;
    tx.effects.turn_claimable_at(visible_at.unwrap_or(now));
    if orchestrator_queue::settle_head(tx, instance)? {
        tx.effects.turn_claimable_at(now);
    }
    Ok(())
}
