//! Gives a claimed instance back. Touches exactly the messages of the claim; later arrivals keep their place.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tables::{instance_locks, orchestrator_queue};
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
    tx.writer().in_flight.rest(instance);
    tx.writer().recent.claimed(instance, false);
    let now = tx.now;
    let (delay, rest) = match again {
        Again::After(delay) => (delay, None),
        Again::Together(rest) => (None, Some(rest)),
    };
    let rest = match rest {
        Some(_) if orchestrator_queue::came_since_claim(tx, instance, token, bounds)? => None,
        rest => rest,
    };
    let visible_at = delay.map(|delay| tx.later(delay));
    orchestrator_queue::release_claimed(tx, instance, token, bounds, visible_at, ignore_attempt)?;
    if let Some(rest) = rest {
        // A lease of nobody: claims pass the instance over until it runs out, a message becomes visible, or one comes.
        let due = orchestrator_queue::next_due_of(tx, instance)?;
        let until = due.map_or(tx.later(rest), |due| due.min(tx.later(rest)));
        instance_locks::rest(tx, instance, until)?;
        orchestrator_queue::settle_head(tx, instance)?;
        tx.effects.turn_claimable_at(until);
        return Ok(());
    }
    tx.effects.turn_claimable_at(visible_at.unwrap_or(now));
    if orchestrator_queue::settle_head(tx, instance)? {
        tx.effects.turn_claimable_at(now);
    }
    Ok(())
}
