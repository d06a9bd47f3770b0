//! Messages for instances that are not started yet. In: what a claim met, and starts. Out: messages that claims do not
//! see until the start comes, visible ones once it has. `ops/unknown_instances.rs` decides and dead-letters.

use duroxide_core::provider::CLAIM_MESSAGES_MAX;

use crate::error::Result;
use crate::tx::{AwaitingStart, Tx};

/// Stands in `lock_token` for a message whose instance is not started yet.
pub(crate) const AWAITING_START: &str = "awaiting-start";

/// How many messages one step brings back: more than a claim takes, so that the next claim finds the instance, and with
/// it the rest.
const BRING_BACK: usize = CLAIM_MESSAGES_MAX + 1;

/// The instance is known now: what waited for its start can be claimed with it.
pub(crate) fn end_wait_for_start(tx: &Tx<'_>, instance: &str) -> Result<()> {
    let waiting: Vec<i64> = tx.all(
        "SELECT id FROM orchestrator_queue INDEXED BY idx_orch_awaiting
         WHERE instance_id = ?1 AND lock_token = 'awaiting-start' ORDER BY id LIMIT ?2",
        (instance, BRING_BACK as i64),
        |row| row.get(0),
    )?;
    if let Some(memory) = tx.memory() {
        memory.set_awaiting_start(None);
    }
    for id in waiting {
        tx.execute(
            "UPDATE orchestrator_queue SET visible_at = created_at, lock_token = NULL WHERE id = ?1",
            [id],
        )?;
    }
    Ok(())
}

/// Whether messages wait for the start of any instance; the writer remembers it, because every claim asks.
fn any_await_start(tx: &Tx<'_>) -> Result<AwaitingStart> {
    let remembered = tx.memory().and_then(|memory| memory.awaiting_start());
    if let Some(known) = remembered {
        return Ok(known);
    }
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue INDEXED BY idx_orch_awaiting WHERE lock_token = 'awaiting-start' LIMIT 1",
        [],
        |_| Ok(()),
    )?;
    let known = match found {
        Some(()) => AwaitingStart::Some,
        None => AwaitingStart::None,
    };
    if let Some(memory) = tx.memory() {
        memory.set_awaiting_start(Some(known));
    }
    Ok(known)
}

/// Whether messages wait for the start of the instance.
pub(crate) fn messages_await_start(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    if any_await_start(tx)? == AwaitingStart::None {
        return Ok(false);
    }
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue INDEXED BY idx_orch_awaiting
         WHERE instance_id = ?1 AND lock_token = 'awaiting-start' LIMIT 1",
        [instance],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// A visible message of an unknown instance.
#[derive(Debug)]
pub(crate) struct MessageOfUnknown {
    pub(crate) id: i64,
    pub(crate) created_at: i64,
}

/// The first visible messages of an unknown instance.
pub(crate) fn messages_of_unknown(
    tx: &Tx<'_>,
    instance: &str,
    max: usize,
) -> Result<Vec<MessageOfUnknown>> {
    tx.all(
        "SELECT id, created_at FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2 ORDER BY visible_at, id LIMIT ?3",
        (instance, tx.now, i64::try_from(max).unwrap_or(i64::MAX)),
        |row| {
            Ok(MessageOfUnknown {
                id: row.get(0)?,
                created_at: row.get(1)?,
            })
        },
    )
}

/// Hides a message until its instance is started, at most until a time.
pub(crate) fn await_start(tx: &Tx<'_>, id: i64, until: i64) -> Result<()> {
    if let Some(memory) = tx.memory() {
        memory.set_awaiting_start(Some(AwaitingStart::Some));
    }
    tx.execute(
        "UPDATE orchestrator_queue SET visible_at = ?2, lock_token = ?3 WHERE id = ?1",
        (id, until, AWAITING_START),
    )?;
    Ok(())
}

/// Hides a message until the start of its instance, which is delayed, becomes visible.
pub(crate) fn hide_until(tx: &Tx<'_>, id: i64, at: i64) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET visible_at = ?2, lock_token = NULL WHERE id = ?1",
        (id, at),
    )?;
    Ok(())
}
