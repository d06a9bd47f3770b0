//! Children of a deleted instance that have not begun: they would come to life without a parent. In: the life that was
//! deleted. Out: the starts that it sent go, some in each transaction. Until then claims leave such a child alone
//! (`deletions::parent_of`), and a first turn that was under way cannot commit any more.

use duroxide_core::provider::Incarnation;

use crate::error::Result;
use crate::tables::{instance_locks, instances, orchestrator_queue, rests};
use crate::tx::Tx;

/// Deletes starts that a life of an instance sent, as many as are left to the transaction. Returns how many went, and
/// whether those were all.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    parent: Incarnation,
    left: &mut usize,
) -> Result<(usize, bool)> {
    let starts = orchestrator_queue::sent_by(tx, parent, left)?;
    for start in &starts {
        let child = &start.child;
        if instances::incarnation(tx, child)?.is_none() {
            instance_locks::revoke(tx, child)?;
            rests::end(tx, child)?;
        }
        orchestrator_queue::delete(tx, &[start.id])?;
        // It may have stood for its instance: one that ran before under this id, or one that others sent messages to.
        if orchestrator_queue::choose_head(tx, child)? {
            let now = tx.now;
            tx.effects.turn_claimable_at(now);
        }
    }
    Ok((starts.len(), *left > 0))
}

/// Ends the leases of children that were claimed for their first turn, and whose starts are still to go.
pub(super) fn revoke_leases(tx: &Tx<'_>, parent: Incarnation) -> Result<()> {
    for child in orchestrator_queue::leased_children(tx, parent)? {
        if instances::incarnation(tx, &child)?.is_none() {
            instance_locks::revoke(tx, &child)?;
        }
    }
    Ok(())
}
