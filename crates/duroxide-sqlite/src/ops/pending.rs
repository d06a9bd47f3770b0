//! What lies in the queues for one instance, as one snapshot.

use duroxide_core::provider::{PendingWork, WorkItem};

use crate::error::Result;
use crate::tables::{instance_locks, orchestrator_queue, worker_queue};
use crate::tx::{Tx, shown_ms};

/// How many messages and activities of one instance an answer lists.
const TOLD_MAX: u32 = 1_000;

pub(crate) fn run(tx: &Tx<'_>, instance: &str) -> Result<PendingWork> {
    orchestrator_queue::write_unwritten_for(tx, instance)?;
    let queued = orchestrator_queue::pending(tx, instance, TOLD_MAX)?;
    let messages = queued.into_iter().map(|(mut message, start)| {
        let item = start.and_then(|json| serde_json::from_slice::<WorkItem>(&json).ok());
        let begins = item.as_ref().and_then(WorkItem::begins);
        let owned =
            |(name, version): (&str, Option<&str>)| (name.to_owned(), version.map(str::to_owned));
        message.begins = begins.map(owned);
        message
    });
    Ok(PendingWork {
        now_ms: shown_ms(tx.now),
        turn_leased_until_ms: instance_locks::valid_until(tx, instance)?.map(shown_ms),
        messages: messages.collect(),
        activities: worker_queue::pending(tx, instance, TOLD_MAX)?,
    })
}
