//! Puts work items on their queues. In: a work item. Out: nothing.

use std::time::Duration;

use duroxide_core::WorkItem;

use super::error::Result;
use super::names::{self, TURNS, WORK};
use super::{closing, ms};
use crate::EventStore;
use crate::atomic::{Batch, Operation};
use crate::message::Visible;

/// Puts an activity on the worker queue.
pub(super) async fn to_workers<S: EventStore>(store: &S, item: &WorkItem) -> Result<()> {
    let enqueue = Operation::Enqueue {
        queue: WORK,
        message: names::to_workers(item)?,
    };
    closing::commit(store, Batch::of([enqueue])).await?;
    Ok(())
}

/// Puts a message on the queue of its instance, to be seen after a delay if there is one.
pub(super) async fn to_instance<S: EventStore>(
    store: &S,
    item: &WorkItem,
    delay: Option<Duration>,
) -> Result<()> {
    let visible = delay.map_or(Visible::Now, |delay| Visible::AfterMs(ms(delay)));
    let enqueue = Operation::Enqueue {
        queue: TURNS,
        message: names::to_instance(item, visible)?,
    };
    closing::commit(store, Batch::of([enqueue])).await?;
    Ok(())
}
