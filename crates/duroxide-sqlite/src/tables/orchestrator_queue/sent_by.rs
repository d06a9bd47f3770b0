//! Starts of children, by the life of the parent that sent them. In: a life, or a child. Out: the starts that it sent,
//! or the lives that sent one.

use duroxide_core::provider::Incarnation;

use crate::error::Result;
use crate::tables::budget::{cost, rows};
use crate::tables::instances::incarnation_in;
use crate::tx::Tx;

/// What it costs a transaction to delete a start, beside its row: what the child holds ends, and another message may
/// have to stand for it.
const START_ROWS: usize = 2;

/// The start of a child that has not begun by it.
#[derive(Debug)]
pub(crate) struct SentStart {
    pub(crate) id: i64,
    pub(crate) child: String,
}

/// Starts that a life of an instance sent to its children, as many as the transaction may still delete.
pub(crate) fn sent_by(
    tx: &Tx<'_>,
    parent: Incarnation,
    left: &mut usize,
) -> Result<Vec<SentStart>> {
    let mut found = Vec::new();
    let budget = rows(*left);
    tx.walk(
        "SELECT id, instance_id, octet_length(work_item) FROM orchestrator_queue INDEXED BY idx_orch_sender
         WHERE sender_incarnation = ?1 LIMIT ?2",
        (parent.to_stored(), budget),
        |row| {
            found.push(SentStart {
                id: row.get(0)?,
                child: row.get(1)?,
            });
            *left = left.saturating_sub(START_ROWS + cost(row.get(2)?));
            Ok(*left > 0)
        },
    )?;
    Ok(found)
}

/// Instances with a row among the leases for which such a start is queued. Those that are leased are few, however many
/// children have not begun.
pub(crate) fn leased_children(tx: &Tx<'_>, parent: Incarnation) -> Result<Vec<String>> {
    tx.all(
        "SELECT l.instance_id FROM instance_locks AS l WHERE EXISTS
             (SELECT 1 FROM orchestrator_queue AS q INDEXED BY idx_orch_begin
              WHERE q.instance_id = l.instance_id AND q.kind IN ('StartOrchestration', 'ContinueAsNew')
                AND q.sender_incarnation = ?1)",
        [parent.to_stored()],
        |row| row.get(0),
    )
}

/// The lives of the parents that sent the visible starts of this instance, oldest start first.
pub(crate) fn senders(tx: &Tx<'_>, instance: &str) -> Result<Vec<Incarnation>> {
    let found = tx.all(
        "SELECT sender_incarnation FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2 AND sender_incarnation IS NOT NULL ORDER BY id",
        (instance, tx.now),
        |row| incarnation_in(row, 0),
    )?;
    Ok(found.into_iter().flatten().collect())
}
