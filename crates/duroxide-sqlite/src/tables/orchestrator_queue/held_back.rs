//! Queue messages that are held back. In: the hold of an instance. Out: which of its queue messages a claim takes;
//! queue messages that go out of sight, and come back in their order.
//!
//! A queue message that is held back has a time that no other message has: the end of time. A claim that meets queue
//! messages it must not take hides them, so that no claim meets them again. While some are hidden, later ones are
//! behind them and are hidden too.

use duroxide_core::provider::CLAIM_QUEUE_MESSAGES_MAX;

use super::choose_head;
use crate::error::Result;
use crate::tables::held_queue_messages::{self, Hold};
use crate::tx::Tx;

/// Stands in `visible_at` for a queue message that is held back. All other times are before it.
pub(crate) const HELD_BACK: i64 = i64::MAX;

/// Which queue messages of an instance a claim takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimableQueueMessages {
    All,
    None,
    /// Those before this number: the others are behind one that is held back.
    Before(i64),
}

impl ClaimableQueueMessages {
    pub(super) fn include(self, id: i64) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Before(first) => id < first,
        }
    }
}

/// Which queue messages a claim of an instance takes that holds some back.
pub(crate) fn claimable_queue_messages(
    tx: &Tx<'_>,
    instance: &str,
    hold: Hold,
) -> Result<ClaimableQueueMessages> {
    if hold == Hold::Closed {
        return Ok(ClaimableQueueMessages::None);
    }
    let first = held_back(tx, instance, 1)?.pop();
    Ok(first.map_or(ClaimableQueueMessages::All, ClaimableQueueMessages::Before))
}

/// The first queue messages that are held back, in their order.
fn held_back(tx: &Tx<'_>, instance: &str, max: usize) -> Result<Vec<i64>> {
    tx.all(
        "SELECT id FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at = ?2 ORDER BY id LIMIT ?3",
        (instance, HELD_BACK, i64::try_from(max).unwrap_or(i64::MAX)),
        |row| row.get(0),
    )
}

/// Puts queue messages that a claim met out of sight. Whatever else is queued stands for the instance. Returns whether
/// that can be claimed.
pub(crate) fn hide_queue_messages(tx: &Tx<'_>, instance: &str, messages: &[i64]) -> Result<bool> {
    for id in messages {
        tx.execute(
            "UPDATE orchestrator_queue SET visible_at = ?2, lane = NULL WHERE id = ?1",
            (id, HELD_BACK),
        )?;
    }
    choose_head(tx, instance)
}

/// A commit wants queue messages: the next ones come back, as many as a claim takes. The caller chooses the head.
pub(crate) fn release_queue_messages(tx: &Tx<'_>, instance: &str) -> Result<()> {
    let Some(hold) = held_queue_messages::of(tx, instance)? else {
        return Ok(());
    };
    let mut next = held_back(tx, instance, CLAIM_QUEUE_MESSAGES_MAX + 1)?;
    let are_all = next.len() <= CLAIM_QUEUE_MESSAGES_MAX;
    next.truncate(CLAIM_QUEUE_MESSAGES_MAX);
    // No later than any other: those that came later and are not hidden yet stand behind them.
    let first: Option<i64> = tx.one(
        "SELECT MIN(visible_at) FROM orchestrator_queue WHERE instance_id = ?1",
        [instance],
        |row| row.get(0),
    )?;
    for id in next {
        tx.execute(
            "UPDATE orchestrator_queue SET visible_at = MIN(created_at, ?2) WHERE id = ?1",
            (id, first),
        )?;
    }
    match (are_all, hold) {
        (true, _) => held_queue_messages::remove(tx, instance),
        (false, Hold::Closed) => held_queue_messages::set(tx, instance, Hold::Draining),
        (false, Hold::Draining) => Ok(()),
    }
}
