//! Gives a claimed activity back. Its session stays with its owner.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tables::worker_queue;
use crate::token;
use crate::tx::Tx;

pub(crate) fn run(
    tx: &mut Tx<'_>,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let id = token::work(token)?.id;
    let visible_at = delay.map(|delay| tx.later(delay));
    if !worker_queue::release(tx, id, token, visible_at, ignore_attempt)? {
        return Err(Refusal::InvalidToken.into());
    }
    tx.effects.work_claimable_at(visible_at.unwrap_or(tx.now));
    Ok(())
}
