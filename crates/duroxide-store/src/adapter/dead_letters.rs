//! Dead letters: written together with the removal of the message, listed for operators.

use duroxide_core::provider::DeadLetter;

use super::awaited;
use super::error::Result;
use super::names::{self, DEAD, TURNS};
use super::rows::{self, DeadRow};
use crate::EventStore;
use crate::atomic::{Batch, Operation, Query};
use crate::message::{Message, NewMessage, Queue, Visible};

/// The write that keeps a message as a dead letter. The caller removes the message in the same batch.
pub(super) fn keep(queue: &Queue, message: &Message, reason: &str) -> Result<Operation> {
    let row = DeadRow {
        queue: queue.name.to_string(),
        instance: Some(message.group.clone()),
        payload: String::from_utf8_lossy(&message.payload).into_owned(),
        reason: reason.to_owned(),
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

/// The write that tells the one who waits for a message that it cannot be read; `None` if nobody does.
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
        set_aside_at: message.enqueued_at,
    })
}

pub(super) async fn delete<S: EventStore>(store: &S, id: u64) -> Result<bool> {
    let delete = Operation::DeleteMessages {
        queue: DEAD,
        ids: vec![id],
    };
    let counts = store.commit(Batch::of([delete])).await?;
    Ok(counts.first().is_some_and(|count| *count > 0))
}
