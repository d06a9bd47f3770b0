//! What nodes noted of instances that they cannot go on with. Written under the lease of a turn; nothing has to be
//! written when an instance goes on, because a note names the last event that the instance had.

use duroxide_core::provider::{BlockNote, BlockedInstance};

use crate::error::Result;
use crate::tx::{Tx, shown_ms, unsigned};

/// Keeps a note in place of the one before; `false` if there is no such instance, or it has no events.
pub(crate) fn note(
    tx: &Tx<'_>,
    instance: &str,
    blocked: &BlockedInstance,
    node: &str,
) -> Result<bool> {
    let written = tx.execute(
        "INSERT INTO blocked (instance_id, incarnation, execution_id, last_event_id, name, report, attempts, node, noted_at)
         SELECT i.instance_id, i.incarnation, i.current_execution_id, h.event_id, ?2, ?3, ?4, ?5, ?6
         FROM instances AS i JOIN history AS h
             ON h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id
         WHERE i.instance_id = ?1 ORDER BY h.event_id DESC LIMIT 1
         ON CONFLICT (instance_id) DO UPDATE SET incarnation = excluded.incarnation,
             execution_id = excluded.execution_id, last_event_id = excluded.last_event_id, name = excluded.name,
             report = excluded.report, attempts = excluded.attempts, node = excluded.node,
             noted_at = excluded.noted_at",
        (
            instance,
            &blocked.orchestration_name,
            &blocked.report,
            blocked.attempts,
            node,
            tx.now,
        ),
    )?;
    Ok(written == 1)
}

/// The note of an instance, if it holds; `instance_pages` says the same for many.
pub(crate) fn of(tx: &Tx<'_>, instance: &str) -> Result<Option<BlockNote>> {
    tx.first(
        "SELECT k.execution_id, k.name, k.report, k.attempts, k.node, k.noted_at FROM blocked AS k
         JOIN instances AS i ON i.instance_id = k.instance_id AND i.incarnation IS k.incarnation
             AND i.current_execution_id = k.execution_id
         JOIN executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
             AND e.status NOT IN ('Completed', 'Failed')
         WHERE k.instance_id = ?1 AND k.last_event_id = (SELECT MAX(h.event_id) FROM history AS h
             WHERE h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id)",
        [instance],
        |row| {
            let blocked = BlockedInstance {
                instance_id: instance.to_owned(),
                execution_id: unsigned(row, 0)?,
                orchestration_name: row.get(1)?,
                report: row.get(2)?,
                attempts: row.get(3)?,
            };
            let node: String = row.get(4)?;
            Ok(BlockNote::new(blocked, node, shown_ms(row.get(5)?)))
        },
    )
}
