//! What was set aside: messages nobody could understand or deliver, kept for an operator.

use duroxide_core::provider::DeadLetter;

use crate::tx::{Result, Tx, shown_ms};

pub(crate) fn push(
    tx: &Tx<'_>,
    queue: &str,
    instance: &str,
    payload: &str,
    reason: &str,
) -> Result<()> {
    tx.execute(
        "INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        (queue, instance, payload, reason, tx.now),
    )?;
    tracing::warn!(
        target: "duroxide::providers::sqlite",
        queue,
        instance_id = instance,
        reason,
        "a message was set aside as a dead letter"
    );
    Ok(())
}

/// Oldest first.
pub(crate) fn list(tx: &Tx<'_>, limit: u32) -> Result<Vec<DeadLetter>> {
    tx.all(
        "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM dead_letters ORDER BY id LIMIT ?1",
        [limit],
        |row| {
            Ok(DeadLetter {
                id: row.get(0)?,
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
    Ok(tx.execute("DELETE FROM dead_letters WHERE id = ?1", [id])? == 1)
}
