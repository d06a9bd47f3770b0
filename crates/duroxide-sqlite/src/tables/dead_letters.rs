//! Dead letters: messages that could not be decoded or delivered, kept for an operator.

use duroxide_core::provider::{DeadLetter, DeadLetterOrigin, Incarnation};

use crate::error::Result;
use crate::tx::{Tx, Unsigned, shown_ms, unsigned};

/// A message to be dead-lettered.
pub(crate) struct NewDeadLetter<'a> {
    pub(crate) queue: &'static str,
    pub(crate) instance: &'a str,
    pub(crate) payload: &'a str,
    pub(crate) reason: &'a str,
    /// Its number on the queue and the claim it was part of, if the holder of the claim dead-lettered it.
    pub(crate) claimed: Option<(i64, &'a str)>,
}

/// Which instance a dead letter was for, and what that instance knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// For the instance as it lives now, which waits for it or does not.
    Living,
    /// For the instance as it lives now, whose operation got a failure in its place.
    Answered,
    /// For an instance that is gone; its id may live again.
    Gone,
}

pub(crate) fn push(tx: &Tx<'_>, letter: &NewDeadLetter<'_>) -> Result<()> {
    push_as(tx, letter, Recipient::Living)
}

pub(crate) fn push_as(tx: &Tx<'_>, letter: &NewDeadLetter<'_>, recipient: Recipient) -> Result<()> {
    let NewDeadLetter {
        queue,
        instance,
        payload,
        reason,
        claimed,
    } = *letter;
    tx.execute(
        "INSERT INTO dead_letters
             (queue, instance_id, payload, reason, set_aside_at, message_id, lock_token, answered, incarnation)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
                 CASE WHEN ?9 THEN NULL ELSE (SELECT incarnation FROM instances WHERE instance_id = ?2) END)",
        (
            queue,
            instance,
            payload,
            reason,
            tx.now,
            claimed.map(|(id, _)| id),
            claimed.map(|(_, token)| token),
            recipient == Recipient::Answered,
            recipient == Recipient::Gone,
        ),
    )?;
    tracing::warn!(
        target: "duroxide::providers::sqlite",
        queue,
        instance_id = instance,
        reason,
        "a message was dead-lettered"
    );
    Ok(())
}

/// Marks the newest dead letter: its instance got a failure in its place.
pub(crate) fn last_was_answered(tx: &Tx<'_>) -> Result<()> {
    tx.execute(
        "UPDATE dead_letters SET answered = 1 WHERE id = (SELECT MAX(id) FROM dead_letters)",
        [],
    )?;
    Ok(())
}

/// Queue numbers of the messages dead-lettered under this claim.
pub(crate) fn ids_of_claim(tx: &Tx<'_>, token: &str) -> Result<Vec<i64>> {
    tx.all(
        "SELECT message_id FROM dead_letters WHERE lock_token = ?1 AND message_id IS NOT NULL",
        [token],
        |row| row.get(0),
    )
}

/// Oldest first.
pub(crate) fn list(tx: &Tx<'_>, limit: u32) -> Result<Vec<DeadLetter>> {
    tx.all(
        "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM dead_letters ORDER BY id LIMIT ?1",
        [limit],
        letter,
    )
}

/// Those that name the instance, newest first. Relies on `idx_dead_letters_instance`.
pub(crate) fn list_of(tx: &Tx<'_>, instance: &str, limit: u32) -> Result<Vec<DeadLetter>> {
    tx.all(
        "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM dead_letters
         WHERE instance_id IS NOT NULL AND instance_id = ?1 ORDER BY id DESC LIMIT ?2",
        (instance, limit),
        letter,
    )
}

pub(crate) fn get(tx: &Tx<'_>, id: u64) -> Result<Option<DeadLetter>> {
    let Ok(id) = i64::try_from(id) else {
        return Ok(None);
    };
    tx.first(
        "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM dead_letters WHERE id = ?1",
        [id],
        letter,
    )
}

pub(crate) fn count(tx: &Tx<'_>) -> Result<u64> {
    let count = tx.first("SELECT COUNT(*) FROM dead_letters", [], |row| {
        unsigned(row, 0)
    })?;
    Ok(count.unwrap_or(0))
}

/// The text of a dead letter, and what is known of it.
pub(crate) fn origin(tx: &Tx<'_>, id: u64) -> Result<Option<(String, DeadLetterOrigin)>> {
    let Ok(id) = i64::try_from(id) else {
        return Ok(None);
    };
    tx.first(
        "SELECT payload, incarnation, answered FROM dead_letters WHERE id = ?1",
        [id],
        |row| {
            let incarnation: Option<i64> = row.get(1)?;
            let origin = DeadLetterOrigin {
                incarnation: incarnation.and_then(Incarnation::from_stored),
                answered: row.get(2)?,
            };
            Ok((row.get(0)?, origin))
        },
    )
}

fn letter(row: &rusqlite::Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: unsigned(row, 0)?,
        queue: row.get(1)?,
        instance_id: row.get(2)?,
        payload: row.get(3)?,
        reason: row.get(4)?,
        dead_lettered_at_ms: shown_ms(row.get(5)?),
    })
}

pub(crate) fn delete(tx: &Tx<'_>, id: u64) -> Result<bool> {
    Ok(tx.execute("DELETE FROM dead_letters WHERE id = ?1", [Unsigned(id)])? == 1)
}
