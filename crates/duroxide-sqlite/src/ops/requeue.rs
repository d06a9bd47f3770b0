//! Puts the message of a dead letter back into its queue.

use duroxide_core::WorkItem;
use duroxide_core::provider::Requeue;

use super::enqueue;
use crate::codec;
use crate::error::Result;
use crate::tables::orchestrator_queue::Due;
use crate::tables::{dead_letters, instances, worker_queue};
use crate::tx::Tx;

/// Judges, sends and forgets in this one transaction, so that nothing is delivered twice or to another life of the id.
pub(crate) fn run(tx: &mut Tx<'_>, id: u64) -> Result<Requeue> {
    let Some((text, origin)) = dead_letters::origin(tx, id)? else {
        return Ok(Requeue::NoSuchDeadLetter);
    };
    let item = match codec::decode_work_item(text.as_bytes()) {
        Ok(item) => item,
        Err(error) => {
            let why = format!("it cannot be read: {error}");
            return Ok(Requeue::Refused { why });
        }
    };
    let current = instances::incarnation(tx, item.target_instance())?;
    if let Some(why) = origin.refusal(&item, current) {
        return Ok(Requeue::Refused { why });
    }
    match &item {
        WorkItem::ActivityExecute { .. } => {
            worker_queue::push(tx, &codec::work(&item)?, origin.incarnation)?;
        }
        _ => enqueue::message(tx, &codec::message(&item, Due::After(None))?)?,
    }
    dead_letters::delete(tx, id)?;
    Ok(Requeue::Done)
}
