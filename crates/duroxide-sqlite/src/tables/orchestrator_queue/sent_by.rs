//! Starts of children, by the life of the parent that sent them. In: a life, or a child. Out: the starts that it sent,
//! or the lives that sent one.

use duroxide_core::provider::Incarnation;

use crate::error::Result;
use crate::tables::budget::Going;
use crate::tables::instances::incarnation_in;
use crate::tx::Tx;

/// The start of a child that has not begun by it.
#[derive(Debug)]
pub(crate) struct SentStart {
    pub(crate) id: i64,
    pub(crate) child: String,
    pub(crate) payload_bytes: i64,
}

/// Numbers of the starts that a life of an instance sent to its children, at most `max`, without those that are passed
/// over. The rows themselves are not read.
pub(crate) fn ids_sent_by(
    tx: &Tx<'_>,
    parent: Incarnation,
    max: usize,
    is_passed_over: impl Fn(i64) -> bool,
) -> Result<Going> {
    let mut going = Going::default();
    tx.walk(
        "SELECT id FROM orchestrator_queue INDEXED BY idx_orch_sender WHERE sender_incarnation = ?1",
        [parent.to_stored()],
        |row| {
            let id = row.get(0)?;
            Ok(going.meet(id, is_passed_over(id), max))
        },
    )?;
    Ok(going)
}

/// One of them.
pub(crate) fn sent_start(tx: &Tx<'_>, id: i64) -> Result<SentStart> {
    tx.one(
        "SELECT id, instance_id, octet_length(work_item) FROM orchestrator_queue WHERE id = ?1",
        [id],
        |row| {
            Ok(SentStart {
                id: row.get(0)?,
                child: row.get(1)?,
                payload_bytes: row.get(2)?,
            })
        },
    )
}

/// Which children starts are for, from an index alone: the rows cannot be read.
pub(crate) fn children_of(tx: &Tx<'_>, ids: &[i64]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    tx.walk(
        "SELECT id, instance_id FROM orchestrator_queue INDEXED BY idx_orch_begin
         WHERE kind IN ('StartOrchestration', 'ContinueAsNew')",
        [],
        |row| {
            if ids.contains(&row.get(0)?) {
                found.push(row.get(1)?);
            }
            Ok(true)
        },
    )?;
    Ok(found)
}

/// Instances with a row among the leases for which a start is queued, from indexes alone. Those that are leased are
/// few, however many children have not begun.
pub(crate) fn leased_with_start(tx: &Tx<'_>) -> Result<Vec<String>> {
    tx.all(
        "SELECT l.instance_id FROM instance_locks AS l WHERE EXISTS
             (SELECT 1 FROM orchestrator_queue AS q INDEXED BY idx_orch_begin
              WHERE q.instance_id = l.instance_id AND q.kind IN ('StartOrchestration', 'ContinueAsNew'))",
        [],
        |row| row.get(0),
    )
}

/// Whether a life of an instance sent a start that is queued for this child.
pub(crate) fn has_sent_start(tx: &Tx<'_>, parent: Incarnation, child: &str) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue INDEXED BY idx_orch_begin
         WHERE instance_id = ?2 AND kind IN ('StartOrchestration', 'ContinueAsNew') AND sender_incarnation = ?1 LIMIT 1",
        (parent.to_stored(), child),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
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
