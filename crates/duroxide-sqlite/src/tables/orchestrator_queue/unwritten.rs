//! Messages of the open transaction that are not rows yet. In: messages that come in. Out: what the rows would show,
//! and the rows themselves as soon as anything else has to see them. `early/mod.rs` has the protocol.

use super::row::{NewRow, insert_row};
use super::{Bounds, ClaimedMessage, Head, MessageBatch, Stretch};
use crate::error::Result;
use crate::tx::{Tx, Unwritten, UnwrittenMessage};

/// The number that the next message gets; `None` if there is none after the last.
pub(super) fn next_id(tx: &Tx<'_>, unwritten: &Unwritten) -> Result<Option<i64>> {
    if !unwritten.is_empty() {
        return Ok(unwritten.give_id());
    }
    let last: Option<i64> = tx.one("SELECT MAX(id) FROM orchestrator_queue", [], |row| {
        row.get(0)
    })?;
    Ok(last.unwrap_or(0).max(0).checked_add(1))
}

/// Whether a message is queued for the instance, due or not, or the instance is leased.
pub(super) fn has_rows(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    tx.one(
        "SELECT EXISTS (SELECT 1 FROM orchestrator_queue WHERE instance_id = ?1)
             OR EXISTS (SELECT 1 FROM instance_locks WHERE instance_id = ?1)",
        [instance],
        |row| row.get(0),
    )
}

/// Writes all of them, in the order of their numbers.
pub(crate) fn write_unwritten(tx: &Tx<'_>, unwritten: &Unwritten) -> Result<()> {
    if unwritten.is_empty() {
        return Ok(());
    }
    for message in unwritten.take_all() {
        insert_row(tx, row(&message))?;
    }
    Ok(())
}

/// Writes all of them if one is for this instance: the request has to see it.
pub(crate) fn write_unwritten_for(tx: &Tx<'_>, instance: &str) -> Result<()> {
    match tx.unwritten() {
        Some(unwritten) if unwritten.contains(instance) => write_unwritten(tx, unwritten),
        _ => Ok(()),
    }
}

/// Writes all of them: the request reads or changes rows.
pub(crate) fn write_all_unwritten(tx: &Tx<'_>) -> Result<()> {
    tx.unwritten()
        .map_or(Ok(()), |unwritten| write_unwritten(tx, unwritten))
}

fn row(message: &UnwrittenMessage) -> NewRow<'_> {
    (
        &message.instance,
        message.kind,
        &message.json,
        message.visible_at,
        message.created_at,
        None,
        message.answers.map(|(execution_id, _)| execution_id),
        message.answers.map(|(_, operation_id)| operation_id),
        Some(&message.lane),
        message.starts_child_of.as_deref(),
        message.carries.then_some(1),
        None,
        Some(message.id),
    )
}

/// Deletes messages of an instance, rows or not.
pub(crate) fn end(tx: &Tx<'_>, instance: &str, ids: &[i64]) -> Result<()> {
    if tx.unwritten().is_some_and(|it| it.end(instance, ids)) {
        // It was the only message of the instance.
        return Ok(());
    }
    super::delete(tx, ids)
}

/// What a claim takes of an instance whose message is not written: that one, which is all there is.
pub(super) fn unwritten_batch(tx: &Tx<'_>, instance: &str) -> Option<MessageBatch> {
    let message = tx.unwritten()?.get(instance)?;
    Some(MessageBatch {
        messages: vec![ClaimedMessage {
            id: message.id,
            json: message.json.into_bytes(),
            attempts: 1,
            created_at: message.created_at,
            visible_at: message.visible_at,
            is_queued: message.kind == "QueueMessage",
            carries: message.carries,
        }],
        bounds: Bounds {
            visible_by: tx.now,
            late: [None; 2],
            is_cut: false,
        },
        is_all: true,
        to_hide: Vec::new(),
    })
}

/// The instances that have one, by lane, the one that waited longest first; not those that the caller passes over.
pub(crate) fn unwritten_heads(
    tx: &Tx<'_>,
    fits: impl Fn(&str) -> bool,
    passes_over: impl Fn(&str) -> bool,
) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let Some(unwritten) = tx.unwritten() else {
        return found;
    };
    unwritten.each(|message| {
        if passes_over(&message.instance) {
            return;
        }
        let head = Head {
            id: message.id,
            instance: message.instance.clone(),
            since: message.visible_at,
        };
        match found.iter_mut().find(|it| it.lane == message.lane) {
            Some(stretch) => stretch.heads.push(head),
            None if fits(&message.lane) => found.push(Stretch {
                lane: message.lane.clone(),
                heads: vec![head],
                is_cut: false,
                next_due: None,
            }),
            None => {}
        }
    });
    for stretch in &mut found {
        stretch
            .heads
            .sort_unstable_by_key(|head| (head.since, head.id));
    }
    found
}
