//! Puts something on a queue, or events into a history, without a lease. In: encoded rows. Out: the rows, and the
//! effects that wake claims and watches. Asks nothing about the caller: whoever has the store may send.

use crate::error::Result;
use crate::tables::history::NewEvent;
use crate::tables::orchestrator_queue::NewMessage;
use crate::tables::worker_queue::NewWork;
use crate::tables::{history, instances, orchestrator_queue, worker_queue};
use crate::tx::{InstanceChange, Tx};
use crate::writer_tx::WriterTx;

pub(crate) fn message(tx: &mut Tx<'_>, message: &NewMessage) -> Result<()> {
    let instance = &message.instance;
    // A second start of an instance that is there already begins nothing.
    if message.is_start() && instances::current_execution(tx, instance)?.is_none() {
        tx.effects
            .instance_changed(instance, InstanceChange::Started);
        return orchestrator_queue::push_first(tx, message);
    }
    orchestrator_queue::push(tx, message)
}

pub(crate) fn work(tx: &mut Tx<'_>, work: &NewWork) -> Result<()> {
    let incarnation = instances::incarnation(tx, &work.instance)?;
    worker_queue::push(tx, work, incarnation)
}

/// Appends events; messages that waited for the instance to become known can be claimed then.
pub(crate) fn events(
    tx: &mut WriterTx<'_>,
    instance: &str,
    execution_id: u64,
    events: &[NewEvent],
) -> Result<()> {
    tx.writer().memory.forget(instance);
    for event in events {
        history::append(tx, instance, execution_id, event)?;
    }
    orchestrator_queue::end_wait_for_start(tx, instance)?;
    let now = tx.now;
    tx.effects.turn_claimable_at(now);
    tx.effects
        .instance_changed(instance, InstanceChange::Unknown);
    Ok(())
}
