//! Dead letters: written together with the removal of the message, listed for operators.

use duroxide_core::WorkItem;
use duroxide_core::provider::{DeadLetter, DeadLetterOrigin, Incarnation, Requeue};

use super::error::{Error, Result};
use super::names::{self, DEAD, INSTANCES, TURNS, WORK};
use super::rows::{self, DeadRow, InstanceRow};
use super::{awaited, closing, token};
use crate::atomic::{Batch, Operation, Query};
use crate::message::{Message, NewMessage, Queue, Visible};
use crate::{EventStore, StoreError};

/// The write that keeps a message as a dead letter. The caller removes the message in the same batch.
pub(super) fn keep(
    queue: &Queue,
    message: &Message,
    reason: &str,
    origin: DeadLetterOrigin,
) -> Result<Operation> {
    let row = DeadRow {
        queue: queue.name.to_string(),
        instance: Some(message.group.clone()),
        payload: String::from_utf8_lossy(&message.payload).into_owned(),
        reason: reason.to_owned(),
        incarnation: origin.incarnation.map(Incarnation::to_stored),
        answered: origin.answered,
        dead_lettered_at_ms: None,
    };
    tracing::warn!(
        target: "duroxide::providers::store",
        queue = %queue.name, instance_id = %message.group, message = message.id, reason,
        "a message was dead-lettered"
    );
    Ok(Operation::Enqueue {
        queue: DEAD,
        message: NewMessage::new(message.group.clone(), rows::encode(&row)?),
    })
}

/// What is known of a message by itself: its stamp names the life it is for. The stamp of a start names its sender
/// instead.
pub(super) fn stamped(message: &Message) -> DeadLetterOrigin {
    let is_start = message
        .key
        .as_deref()
        .is_some_and(|key| key.starts_with("start/"));
    DeadLetterOrigin {
        incarnation: token::incarnation_of(message.stamp).filter(|_| !is_start),
        answered: false,
    }
}

/// The write that fails the operation that waits for an unreadable message; `None` if none waits.
pub(super) fn instead_of(message: &Message, reason: &str) -> Result<Option<Operation>> {
    let Some(item) = awaited::instead_of(message, reason) else {
        return Ok(None);
    };
    Ok(Some(Operation::Enqueue {
        queue: TURNS,
        message: NewMessage {
            stamp: message.stamp,
            ..names::to_instance(&item, Visible::Now)?
        },
    }))
}

/// Puts the message of a dead letter back into its queue; judged by what the instance is at that moment.
///
/// The caller lets one requeue run at a time: a batch cannot make sure that a message exists.
pub(super) async fn requeue<S: EventStore>(store: &S, id: u64) -> Result<Requeue> {
    let Some(kept) = find(store, id).await? else {
        return Ok(Requeue::NoSuchDeadLetter);
    };
    let row: DeadRow = rows::decode(&kept.payload, || format!("dead letter {id}"))?;
    let item: WorkItem = match serde_json::from_str(&row.payload) {
        Ok(item) => item,
        Err(error) => {
            let why = format!("it cannot be read: {error}");
            return Ok(Requeue::Refused { why });
        }
    };
    let (instance, origin) = (item.target_instance(), row.origin());
    loop {
        let stored = store.get(INSTANCES, instance).await?;
        let living = stored
            .as_deref()
            .and_then(|row| InstanceRow::read(row).ok());
        if let Some(why) = origin.refusal(&item, living.and_then(|row| row.incarnation())) {
            return Ok(Requeue::Refused { why });
        }
        let stamp = token::stamp_of(origin.incarnation);
        let (queue, message) = match &item {
            WorkItem::ActivityExecute { .. } => (WORK, names::to_workers(&item)?),
            _ => (TURNS, names::to_instance(&item, Visible::Now)?),
        };
        let again = Operation::Enqueue {
            queue,
            message: NewMessage { stamp, ..message },
        };
        let forget = Operation::DeleteMessages {
            queue: DEAD,
            ids: vec![id],
        };
        let guard = names::unchanged(instance, stored.as_ref());
        let batch = Batch::of([forget, again]).guarded_by(guard);
        match closing::commit(store, batch).await {
            // A turn moved the instance meanwhile: judge again.
            Err(Error::Store(StoreError::Conflict(_))) => {}
            committed => {
                committed?;
                return Ok(Requeue::Done);
            }
        }
    }
}

pub(super) async fn get<S: EventStore>(store: &S, id: u64) -> Result<Option<DeadLetter>> {
    find(store, id).await?.as_ref().map(read).transpose()
}

async fn find<S: EventStore>(store: &S, id: u64) -> Result<Option<Message>> {
    let by_id = Query::MessagesById {
        queue: DEAD,
        ids: vec![id],
    };
    Ok(store.query_one(by_id).await?.into_messages()?.pop())
}

pub(super) async fn list<S: EventStore>(store: &S, limit: u32) -> Result<Vec<DeadLetter>> {
    let page = Query::Messages {
        queue: DEAD,
        group: None,
        after: 0,
        limit: limit as usize,
    };
    let messages = store.query_one(page).await?.into_messages()?;
    messages.iter().map(read).collect()
}

fn read(message: &Message) -> Result<DeadLetter> {
    let what = || format!("dead letter {}", message.id);
    let row: DeadRow = rows::decode(&message.payload, what)?;
    Ok(DeadLetter {
        id: message.id,
        queue: row.queue,
        instance_id: row.instance,
        payload: row.payload,
        reason: row.reason,
        dead_lettered_at_ms: row.dead_lettered_at_ms.unwrap_or(message.enqueued_at),
    })
}

pub(super) async fn delete<S: EventStore>(store: &S, id: u64) -> Result<bool> {
    let delete = Operation::DeleteMessages {
        queue: DEAD,
        ids: vec![id],
    };
    let counts = closing::commit(store, Batch::of([delete])).await?;
    Ok(counts.first().is_some_and(|count| *count > 0))
}
