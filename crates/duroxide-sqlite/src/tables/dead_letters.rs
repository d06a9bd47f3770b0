//! Dead letters: messages that could not be decoded or delivered, kept for an operator.

use duroxide_core::provider::DeadLetter;

use crate::error::Result;
use crate::tx::{Tx, Unsigned, shown_ms, unsigned};

/// A message to be dead-lettered.
pub(crate) struct NewLetter<'a> {
    pub(crate) queue: &'static str,
    pub(crate) instance: &'a str,
    pub(crate) payload: &'a str,
    pub(crate) reason: &'a str,
    /// Its number on the queue and the claim it was part of, if the holder of the claim dead-lettered it.
    pub(crate) claimed: Option<(i64, &'a str)>,
}

pub(crate) fn push(tx: &Tx<'_>, letter: &NewLetter<'_>) -> Result<()> {
    let NewLetter {
        queue,
        instance,
        payload,
        reason,
        claimed,
    } = *letter;
    tx.execute(
        "INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at, message_id, lock_token)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (
            queue,
            instance,
            payload,
            reason,
            tx.now,
            claimed.map(|(id, _)| id),
            claimed.map(|(_, token)| token),
        ),
    )?;
    tracing::warn!(
        target: "duroxide::providers::sqlite",
        queue,
        instance_id = instance,
        reason,
        "a message was dead-lettered"
    );
    Ok(())
}

/// Queue numbers of the messages dead-lettered under this claim.
pub(crate) fn ids_of_claim(tx: &Tx<'_>, token: &str) -> Result<Vec<i64>> {
    tx.all(
        "SELECT message_id FROM dead_letters WHERE lock_token = ?1 AND message_id IS NOT NULL",
        [token],
        |row| row.get(0),
    )
}

/// Oldest first.
pub(crate) fn list(tx: &Tx<'_>, limit: u32) -> Result<Vec<DeadLetter>> {
    tx.all(
        "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM dead_letters ORDER BY id LIMIT ?1",
        [limit],
        |row| {
            Ok(DeadLetter {
                id: unsigned(row, 0)?,
                queue: row.get(1)?,
                instance_id: row.get(2)?,
                payload: row.get(3)?,
                reason: row.get(4)?,
                set_aside_at: shown_ms(row.get(5)?),
            })
        },
    )
}

pub(crate) fn delete(tx: &Tx<'_>, id: u64) -> Result<bool> {
    Ok(tx.execute("DELETE FROM dead_letters WHERE id = ?1", [Unsigned(id)])? == 1)
}
