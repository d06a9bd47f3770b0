//! Appends events without a lease. In: an execution and its events. Out: nothing; an event that is recorded already is
//! refused.

use duroxide_core::Event;

use super::error::{Error, Result};
use super::names::{self, INSTANCES};
use super::rows::{self, InstanceRow};
use super::{closing, turn};
use crate::atomic::{Batch, Operation};
use crate::{EventStore, StoreError};

/// Appends events to the history of an execution, whoever holds its lease.
pub(super) async fn run<S: EventStore>(
    store: &S,
    instance: &str,
    execution: u64,
    events: &[Event],
) -> Result<()> {
    if events.iter().any(|event| event.event_id == 0) {
        return Err(Error::event_without_id(instance));
    }
    let last = events.iter().map(|event| event.event_id).max();
    loop {
        let stored = store.get(INSTANCES, instance).await?;
        let append = turn::append(instance, execution, events)?;
        let mut batch = Batch {
            topics: vec![instance.to_owned()],
            ..Batch::of([append])
        };
        // The row says where the history ends, so it goes along.
        let row = stored
            .as_deref()
            .and_then(|row| InstanceRow::read(row).ok());
        if let Some(mut row) = row.filter(|row| row.execution == execution) {
            row.last_event = row.last_event.max(last.unwrap_or_default());
            batch.operations.push(Operation::Put {
                scope: INSTANCES.to_owned(),
                key: instance.to_owned(),
                value: rows::encode(&row)?,
            });
        }
        batch
            .guards
            .push(names::unchanged(instance, stored.as_ref()));
        match closing::commit(store, batch).await {
            Err(Error::Store(StoreError::Conflict(_)))
                if store.get(INSTANCES, instance).await? != stored => {}
            result => return result.map(drop),
        }
    }
}
