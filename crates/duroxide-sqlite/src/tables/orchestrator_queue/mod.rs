//! Messages for instances, timers included. In: messages, claims, the ends of claims. Out: rows, by instance and lane.
//! A message can be claimed from its `visible_at` on. Leases are not here: `instance_locks.rs` has them.
//!
//! `idx_orch_lane` finds instances with something to do by the code they need (`heads.rs`), `idx_orch_instance` the
//! messages of one of them; both skip what is not due, so that parked timers cost nothing.

mod awaiting;
mod enqueue;
mod heads;
mod held_back;
mod paused;
mod resting;
mod row;
mod sent_by;
mod unwritten;

pub(crate) use awaiting::*;
pub(crate) use enqueue::*;
pub(crate) use heads::*;
pub(crate) use held_back::*;
pub(crate) use paused::*;
pub(crate) use resting::*;
pub(crate) use sent_by::*;
pub(crate) use unwritten::*;

use duroxide_core::provider::{CLAIM_BYTES_MAX, CLAIM_QUEUE_MESSAGES_MAX, PendingMessage};
use rusqlite::Row;

use crate::error::Result;
use crate::tables::budget::Going;
use crate::tx::{Tx, count, payload, payload_text, shown_ms};

/// A claimed message.
#[derive(Debug)]
pub(crate) struct ClaimedMessage {
    pub(crate) id: i64,
    pub(crate) json: Vec<u8>,
    /// This attempt included.
    pub(crate) attempts: u32,
    pub(crate) created_at: i64,
    visible_at: i64,
    /// Whether it is a queue message.
    is_queued: bool,
    /// Whether it carries unread queue messages of the execution before.
    carries: bool,
}

/// What one claim takes of the messages of an instance.
#[derive(Debug)]
pub(crate) struct MessageBatch {
    /// In the order they were enqueued.
    pub(crate) messages: Vec<ClaimedMessage>,
    pub(crate) bounds: Bounds,
    /// Whether the instance has no other message, due or not.
    pub(crate) is_all: bool,
    /// Queue messages that were met and are held back.
    pub(crate) to_hide: Vec<i64>,
}

impl MessageBatch {
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.messages.iter().map(|message| message.id).collect()
    }
}

/// Where the messages of a claim are found again: all were visible by a time, but perhaps two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) visible_by: i64,
    /// The message that begins the next execution and the oldest request to cancel, if they came later than the others.
    pub(crate) late: [Option<i64>; 2],
    /// Whether more messages were visible than the claim could take.
    pub(crate) is_cut: bool,
}

/// The oldest visible messages of the instance, this attempt counted: at most `max`, and no more queue messages or
/// bytes than a claim may have. The message that begins the next execution and the oldest request to cancel come with
/// them in any case. Queue messages stay behind a continue-as-new that carries some, and those that are held back stay
/// in any case.
pub(crate) fn visible(
    tx: &Tx<'_>,
    instance: &str,
    max: usize,
    claimable: ClaimableQueueMessages,
) -> Result<MessageBatch> {
    if let Some(batch) = unwritten_batch(tx, instance) {
        return Ok(batch);
    }
    let limit = i64::try_from(max.max(1)).unwrap_or(i64::MAX);
    let mut messages: Vec<ClaimedMessage> = Vec::new();
    let mut to_hide = Vec::new();
    let mut bytes = 0_usize;
    let mut queued = 0_usize;
    let mut looked_at = 0_usize;
    let mut is_cut = false;
    let mut is_all = true;
    // One more than wanted, to know whether some are left.
    tx.walk(
        "SELECT id, work_item, attempt_count + 1, created_at, visible_at, kind = 'QueueMessage', carries
         FROM orchestrator_queue WHERE instance_id = ?1 ORDER BY visible_at, id LIMIT ?2",
        (instance, limit.saturating_add(1)),
        |row| {
            if row.get::<_, i64>(4)? > tx.now {
                is_all = false;
                return Ok(false);
            }
            is_cut = looked_at > 0 && looked_at >= max;
            looked_at += 1;
            let is_queued: bool = row.get(5)?;
            if !is_cut && is_queued && !claimable.include(row.get(0)?) {
                to_hide.push(row.get(0)?);
                return Ok(true);
            }
            let message = message(row)?;
            bytes = bytes.saturating_add(message.json.len());
            queued += usize::from(is_queued);
            let is_full = bytes > CLAIM_BYTES_MAX || queued > CLAIM_QUEUE_MESSAGES_MAX;
            is_cut |= !messages.is_empty() && is_full;
            if !is_cut {
                messages.push(message);
            }
            Ok(!is_cut)
        },
    )?;
    let mut bounds = Bounds {
        visible_by: tx.now,
        late: [None; 2],
        is_cut,
    };
    if is_cut {
        bounds.visible_by = messages.last().map_or(tx.now, |last| last.visible_at);
        bounds.late = add_late(tx, instance, &mut messages)?;
    }
    if messages.iter().any(|message| message.carries) {
        let found = messages.len();
        messages.retain(|message| !message.is_queued);
        is_all &= messages.len() == found;
    }
    messages.sort_unstable_by_key(|message| message.id);
    Ok(MessageBatch {
        messages,
        bounds,
        is_all: is_all && !is_cut && to_hide.is_empty(),
        to_hide,
    })
}

/// Adds what comes with a claim that older messages fill: the message that begins the next execution and the oldest
/// request to cancel. Returns those that were not among the others.
fn add_late(
    tx: &Tx<'_>,
    instance: &str,
    messages: &mut Vec<ClaimedMessage>,
) -> Result<[Option<i64>; 2]> {
    let mut late = [None; 2];
    for (place, found) in [beginning(tx, instance)?, cancel(tx, instance)?]
        .into_iter()
        .enumerate()
    {
        if let Some(found) = found
            && messages.iter().all(|message| message.id != found.id)
        {
            late[place] = Some(found.id);
            messages.push(found);
        }
    }
    Ok(late)
}

/// The visible message that begins the next execution; one that continues the instance goes before a start.
fn beginning(tx: &Tx<'_>, instance: &str) -> Result<Option<ClaimedMessage>> {
    tx.first(
        "SELECT id, work_item, attempt_count + 1, created_at, visible_at, 0, carries
         FROM orchestrator_queue INDEXED BY idx_orch_begin
         WHERE instance_id = ?1 AND kind IN ('StartOrchestration', 'ContinueAsNew') AND visible_at <= ?2
         ORDER BY kind, id LIMIT 1",
        (instance, tx.now),
        message,
    )
}

/// The oldest visible request to cancel, one that terminates before others.
fn cancel(tx: &Tx<'_>, instance: &str) -> Result<Option<ClaimedMessage>> {
    tx.first(
        "SELECT id, work_item, attempt_count + 1, created_at, visible_at, 0, carries
         FROM orchestrator_queue INDEXED BY idx_orch_cancel_of
         WHERE kind = 'CancelInstance' AND instance_id = ?1 AND visible_at <= ?2
         ORDER BY asked_at, id LIMIT 1",
        (instance, tx.now),
        message,
    )
}

fn message(row: &Row<'_>) -> rusqlite::Result<ClaimedMessage> {
    Ok(ClaimedMessage {
        id: row.get(0)?,
        json: payload(row, 1)?,
        attempts: row.get::<_, i64>(2)?.try_into().unwrap_or(u32::MAX),
        created_at: row.get(3)?,
        visible_at: row.get(4)?,
        is_queued: row.get(5)?,
        carries: row.get::<_, Option<i64>>(6)?.is_some(),
    })
}

/// Marks messages as claimed and counts the attempt. One by one: an update of many sets up a temporary table.
pub(crate) fn tag(tx: &Tx<'_>, ids: &[i64], token: &str) -> Result<()> {
    for id in ids {
        tx.execute(
            "UPDATE orchestrator_queue SET lock_token = ?2, attempt_count = attempt_count + 1 WHERE id = ?1",
            (id, token),
        )?;
    }
    Ok(())
}

/// Deletes messages.
pub(crate) fn delete(tx: &Tx<'_>, ids: &[i64]) -> Result<()> {
    for id in ids {
        tx.execute("DELETE FROM orchestrator_queue WHERE id = ?1", [id])?;
    }
    Ok(())
}

/// Deletes exactly the messages of this claim.
pub(crate) fn delete_claimed(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    bounds: Bounds,
) -> Result<()> {
    tx.execute(
        "DELETE FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token = ?3",
        (instance, bounds.visible_by, token),
    )?;
    for id in bounds.late.into_iter().flatten() {
        tx.execute(
            "DELETE FROM orchestrator_queue WHERE id = ?1 AND lock_token = ?2",
            (id, token),
        )?;
    }
    Ok(())
}

/// Gives the messages of this claim back.
pub(crate) fn release_claimed(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    bounds: Bounds,
    visible_at: Option<i64>,
    ignore_attempt: bool,
) -> Result<()> {
    for id in claimed_ids(tx, instance, token, bounds)? {
        tx.execute(
            "UPDATE orchestrator_queue
             SET lock_token = NULL, visible_at = COALESCE(?2, visible_at), attempt_count = MAX(0, attempt_count - ?3)
             WHERE id = ?1",
            (id, visible_at, i64::from(ignore_attempt)),
        )?;
    }
    Ok(())
}

/// Numbers of the messages of this claim, in the order they were enqueued.
pub(crate) fn claimed_ids(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    bounds: Bounds,
) -> Result<Vec<i64>> {
    let mut ids: Vec<i64> = tx.all(
        "SELECT id FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token = ?3",
        (instance, bounds.visible_by, token),
        |row| row.get(0),
    )?;
    for id in bounds.late.into_iter().flatten() {
        let is_there = tx.first(
            "SELECT 1 FROM orchestrator_queue WHERE id = ?1 AND lock_token = ?2",
            (id, token),
            |_| Ok(()),
        )?;
        ids.extend(is_there.map(|()| id));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// A message that was removed.
#[derive(Debug)]
pub(crate) struct Taken {
    /// What it said.
    pub(crate) payload: String,
    pub(crate) kind: String,
    /// When it was due.
    pub(crate) visible_at: i64,
    /// Execution and scheduling event of the operation that waits for it, if the row names one.
    pub(crate) answers: Option<(i64, i64)>,
    /// Of the start of a child: the instance that waits for it.
    pub(crate) awaited_by: Option<String>,
}

/// Removes one message.
pub(crate) fn take(tx: &Tx<'_>, id: i64) -> Result<Option<Taken>> {
    tx.first(
        "DELETE FROM orchestrator_queue WHERE id = ?1
         RETURNING work_item, kind, visible_at, execution_id, operation_id, awaited_by",
        [id],
        |row| {
            let execution_id: Option<i64> = row.get(3)?;
            Ok(Taken {
                payload: payload_text(row, 0)?,
                kind: payload_text(row, 1)?,
                visible_at: row.get(2)?,
                answers: execution_id.zip(row.get(4)?),
                awaited_by: row.get(5)?,
            })
        },
    )
}

/// The execution has ended, and its timers are of no use.
pub(crate) fn delete_pending_timers(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "DELETE FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at > ?2 AND visible_at < ?3 AND kind = 'TimerFired'",
        (instance, tx.now, HELD_BACK),
    )?;
    Ok(())
}

/// The number of the last message of an instance.
pub(crate) fn last_id(tx: &Tx<'_>, instance: &str) -> Result<Option<i64>> {
    tx.one(
        "SELECT MAX(id) FROM orchestrator_queue INDEXED BY idx_orch_instance WHERE instance_id = ?1",
        [instance],
        |row| row.get(0),
    )
}

/// Numbers of messages of an instance below this one, at most `max`, without those that are passed over. The rows
/// themselves are not read.
pub(crate) fn ids_below(
    tx: &Tx<'_>,
    instance: &str,
    last: i64,
    max: usize,
    is_passed_over: impl Fn(i64) -> bool,
) -> Result<Going> {
    let mut going = Going::default();
    tx.walk(
        "SELECT id FROM orchestrator_queue INDEXED BY idx_orch_instance WHERE instance_id = ?1 AND id < ?2",
        (instance, last),
        |row| {
            let id = row.get(0)?;
            Ok(going.meet(id, is_passed_over(id), max))
        },
    )?;
    Ok(going)
}

/// How long the payload of a message is.
pub(crate) fn payload_bytes(tx: &Tx<'_>, id: i64) -> Result<i64> {
    tx.one(
        "SELECT octet_length(work_item) FROM orchestrator_queue WHERE id = ?1",
        [id],
        |row| row.get(0),
    )
}

/// Deletes a message if it is of this instance; returns whether it was.
pub(crate) fn delete_of(tx: &Tx<'_>, instance: &str, id: i64) -> Result<bool> {
    let deleted = tx.execute(
        "DELETE FROM orchestrator_queue WHERE id = ?2 AND instance_id = ?1",
        (instance, id),
    )?;
    Ok(deleted == 1)
}

/// How many messages are not claimed, and how many timers are not due yet.
pub(crate) fn depths(tx: &Tx<'_>) -> Result<(usize, usize)> {
    tx.one(
        "SELECT
             COUNT(*) FILTER (WHERE NOT (q.kind = 'TimerFired' AND q.visible_at > ?1)
                 AND (q.lock_token IS NULL OR q.lock_token = ?2 OR NOT EXISTS
                     (SELECT 1 FROM instance_locks AS l
                      WHERE l.instance_id = q.instance_id AND l.lock_token = q.lock_token AND l.locked_until > ?1))),
             COUNT(*) FILTER (WHERE q.kind = 'TimerFired' AND q.visible_at > ?1)
         FROM orchestrator_queue AS q",
        (tx.now, awaiting::AWAITING_START),
        |row| Ok((count(row, 0)?, count(row, 1)?)),
    )
}

/// The first rows as text, for a person.
pub(crate) fn dump(tx: &Tx<'_>) -> Result<(i64, Vec<String>)> {
    let count = tx.one("SELECT COUNT(*) FROM orchestrator_queue", [], |row| {
        row.get(0)
    })?;
    let rows = tx.all(
        "SELECT id, instance_id, kind, visible_at, lock_token, attempt_count, work_item
         FROM orchestrator_queue ORDER BY id LIMIT 10",
        [],
        |row| {
            Ok(format!(
                "#{} {} {} visible_at={} lock={:?} attempts={} {}",
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, Option<String>>(4)?,
                row.get::<_, i64>(5)?,
                payload_text(row, 6)?,
            ))
        },
    )?;
    Ok((count, rows))
}

/// The messages of an instance in the order of the queue, each with its text if it begins an execution; none that go
/// with a deleted instance.
pub(crate) fn pending(
    tx: &Tx<'_>,
    instance: &str,
    limit: u32,
) -> Result<Vec<(PendingMessage, Option<Vec<u8>>)>> {
    tx.all(
        "SELECT kind, CASE visible_at WHEN ?3 THEN created_at ELSE visible_at END, attempt_count,
             kind IN ('StartOrchestration', 'ContinueAsNew'), work_item
         FROM orchestrator_queue AS q WHERE instance_id = ?1
             AND id > COALESCE((SELECT queued_to FROM deletions WHERE instance_id = ?1), -1)
             AND NOT EXISTS (SELECT 1 FROM deletions AS d WHERE d.life = q.sender_incarnation)
         ORDER BY visible_at, id LIMIT ?2",
        (instance, limit, HELD_BACK),
        |row| {
            let message = PendingMessage {
                kind: row.get(0)?,
                visible_at_ms: shown_ms(row.get(1)?),
                attempts: row.get(2)?,
                begins: None,
            };
            let begins: bool = row.get(3)?;
            let start = begins.then(|| payload(row, 4)).transpose()?;
            Ok((message, start))
        },
    )
}

/// Whether a start is queued for an instance that does not exist. Messages up to `gone_to` belong to a deleted life,
/// and what a deleted parent sent goes with it.
pub(crate) fn has_start(tx: &Tx<'_>, instance: &str, gone_to: Option<i64>) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue AS q
         WHERE instance_id = ?1 AND kind IN ('StartOrchestration', 'ContinueAsNew') AND kind = 'StartOrchestration'
           AND id > ?2 AND NOT EXISTS (SELECT 1 FROM deletions AS d WHERE d.life = q.sender_incarnation) LIMIT 1",
        (instance, gone_to.unwrap_or(i64::MIN)),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// The first start that is queued for an instance, beside what is left of a deleted one, as stored.
pub(crate) fn start(tx: &Tx<'_>, instance: &str, gone_to: Option<i64>) -> Result<Option<Vec<u8>>> {
    tx.first(
        "SELECT work_item FROM orchestrator_queue AS q
         WHERE instance_id = ?1 AND kind IN ('StartOrchestration', 'ContinueAsNew') AND kind = 'StartOrchestration'
           AND id > ?2 AND NOT EXISTS (SELECT 1 FROM deletions AS d WHERE d.life = q.sender_incarnation)
         ORDER BY id LIMIT 1",
        (instance, gone_to.unwrap_or(i64::MIN)),
        |row| payload(row, 0),
    )
}
