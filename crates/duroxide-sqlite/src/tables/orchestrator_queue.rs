//! Messages for instances, timers included. `visible_at` says from when on a message can be claimed.
//!
//! `idx_orch_visible` finds instances with something to do, `idx_orch_instance` the messages of one of them; both
//! skip what is not due, so that parked timers cost nothing.

use duroxide_core::provider::Incarnation;

use crate::tables::instances::life;
use crate::tx::{Result, Tx, payload, payload_text};

/// Stands in `lock_token` for a message whose instance nobody has started yet.
const AWAITING_START: &str = "awaiting-start";

/// A message ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewMessage {
    pub(crate) instance: String,
    pub(crate) kind: &'static str,
    pub(crate) json: String,
    pub(crate) due: Due,
    /// Of the start of a child: its parent.
    pub(crate) starts_child_of: Option<String>,
}

impl NewMessage {
    /// Whether it begins an instance.
    pub(crate) fn is_start(&self) -> bool {
        self.kind == "StartOrchestration"
    }

    /// Whether a child tells its parent how it ended.
    pub(crate) fn is_notice(&self) -> bool {
        matches!(self.kind, "SubOrchCompleted" | "SubOrchFailed")
    }
}

/// When a message becomes visible.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// After this much time from the moment it is written.
    After(Option<std::time::Duration>),
    /// At this time.
    At(i64),
}

/// A claimed message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: i64,
    pub(crate) json: Vec<u8>,
    /// This attempt included.
    pub(crate) attempts: u32,
    pub(crate) created_at: i64,
}

pub(crate) fn push(tx: &mut Tx<'_>, message: &NewMessage) -> Result<()> {
    push_from(tx, message, None)
}

/// As [`push`], stamped with the life of the instance that sent it.
pub(crate) fn push_from(
    tx: &mut Tx<'_>,
    message: &NewMessage,
    sender: Option<Incarnation>,
) -> Result<()> {
    let visible_at = match message.due {
        Due::After(delay) => tx.after(delay),
        Due::At(at) => at,
    };
    tx.execute(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, sender_incarnation)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            &message.instance,
            message.kind,
            &message.json,
            visible_at,
            tx.now,
            sender.map(Incarnation::to_stored),
        ),
    )?;
    tx.effects.turn_claimable_at(visible_at);
    Ok(())
}

/// The instance is known now: what waited for its start can be claimed with it.
pub(crate) fn end_wait_for_start(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET visible_at = ?2, lock_token = NULL WHERE instance_id = ?1 AND lock_token = ?3",
        (instance, tx.now, AWAITING_START),
    )?;
    Ok(())
}

/// Hides the visible messages of an instance nobody has started, at most until `until` for each.
pub(crate) fn await_start(tx: &Tx<'_>, instance: &str, grace_ms: i64) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET visible_at = created_at + ?3, lock_token = ?4
         WHERE instance_id = ?1 AND visible_at <= ?2 AND created_at > ?2 - ?3",
        (instance, tx.now, grace_ms, AWAITING_START),
    )?;
    Ok(())
}

/// Hides the visible messages of an instance until its own start, which is delayed, becomes visible.
pub(crate) fn hide_until(tx: &Tx<'_>, instance: &str, at: i64) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET visible_at = ?3, lock_token = NULL WHERE instance_id = ?1 AND visible_at <= ?2",
        (instance, tx.now, at),
    )?;
    Ok(())
}

/// Instances with a visible message and no valid lease, the one that waited longest first; an instance comes once per
/// message.
pub(crate) fn walk_claimable(
    tx: &Tx<'_>,
    mut visit: impl FnMut(&str) -> Result<bool>,
) -> Result<()> {
    tx.walk(
        "SELECT q.instance_id FROM orchestrator_queue AS q INDEXED BY idx_orch_visible
         WHERE q.visible_at <= ?1 AND NOT EXISTS
             (SELECT 1 FROM instance_locks AS l WHERE l.instance_id = q.instance_id AND l.locked_until > ?1)
         ORDER BY q.visible_at",
        [tx.now],
        |row| visit(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?),
    )
}

/// The visible messages of the instance in the order they were enqueued, this attempt counted.
pub(crate) fn visible(tx: &Tx<'_>, instance: &str) -> Result<Vec<Message>> {
    let mut messages = tx.all(
        "SELECT id, work_item, attempt_count + 1, created_at FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2",
        (instance, tx.now),
        |row| {
            Ok(Message {
                id: row.get(0)?,
                json: payload(row, 1)?,
                attempts: row.get::<_, i64>(2)?.try_into().unwrap_or(u32::MAX),
                created_at: row.get(3)?,
            })
        },
    )?;
    messages.sort_unstable_by_key(|message| message.id);
    Ok(messages)
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

/// Deletes exactly the messages of this claim. They were all visible when it was made.
pub(crate) fn delete_claimed(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    claimed_at: i64,
) -> Result<()> {
    tx.execute(
        "DELETE FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token = ?3",
        (instance, claimed_at, token),
    )?;
    Ok(())
}

/// Gives the messages of this claim back.
pub(crate) fn release_claimed(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    claimed_at: i64,
    visible_at: Option<i64>,
    ignore_attempt: bool,
) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue
         SET lock_token = NULL, visible_at = COALESCE(?4, visible_at), attempt_count = MAX(0, attempt_count - ?5)
         WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token = ?3",
        (
            instance,
            claimed_at,
            token,
            visible_at,
            i64::from(ignore_attempt),
        ),
    )?;
    Ok(())
}

/// Numbers of the messages of this claim, in the order they were enqueued.
pub(crate) fn claimed_ids(
    tx: &Tx<'_>,
    instance: &str,
    token: &str,
    claimed_at: i64,
) -> Result<Vec<i64>> {
    tx.all(
        "SELECT id FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2 AND lock_token = ?3 ORDER BY id",
        (instance, claimed_at, token),
        |row| row.get(0),
    )
}

/// Removes one message; returns what it said.
pub(crate) fn take(tx: &Tx<'_>, id: i64) -> Result<Option<String>> {
    tx.first(
        "DELETE FROM orchestrator_queue WHERE id = ?1 RETURNING work_item",
        [id],
        |row| payload_text(row, 0),
    )
}

/// Whether the instance has a message that can be claimed now.
pub(crate) fn has_visible(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let found = tx.first(
        "SELECT 1 FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2 LIMIT 1",
        (instance, tx.now),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// What the messages of an instance without a row say about it.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// When the first start is or becomes visible.
    pub(crate) start_at: Option<i64>,
    /// Whether messages wait for the start.
    pub(crate) somebody_awaits: bool,
}

pub(crate) fn mailbox(tx: &Tx<'_>, instance: &str) -> Result<Mailbox> {
    tx.one(
        "SELECT MIN(visible_at) FILTER (WHERE kind IN ('StartOrchestration', 'ContinueAsNew')),
             COUNT(*) FILTER (WHERE lock_token = ?2)
         FROM orchestrator_queue WHERE instance_id = ?1",
        (instance, AWAITING_START),
        |row| {
            Ok(Mailbox {
                start_at: row.get(0)?,
                somebody_awaits: row.get::<_, i64>(1)? > 0,
            })
        },
    )
}

/// The lives of the parents that sent the visible starts of this instance, oldest start first.
pub(crate) fn senders(tx: &Tx<'_>, instance: &str) -> Result<Vec<Incarnation>> {
    let found = tx.all(
        "SELECT sender_incarnation FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2 AND sender_incarnation IS NOT NULL ORDER BY id",
        (instance, tx.now),
        |row| life(row, 0),
    )?;
    Ok(found.into_iter().flatten().collect())
}

/// Whether all visible messages of the instance are queue messages.
pub(crate) fn only_queue_messages(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let other = tx.first(
        "SELECT 1 FROM orchestrator_queue
         WHERE instance_id = ?1 AND (visible_at <= ?2 OR lock_token = ?3) AND kind <> 'QueueMessage' LIMIT 1",
        (instance, tx.now, AWAITING_START),
        |_| Ok(()),
    )?;
    Ok(other.is_none())
}

/// Deletes the visible messages of an instance; returns how many.
pub(crate) fn drop_visible(tx: &Tx<'_>, instance: &str) -> Result<usize> {
    tx.execute(
        "DELETE FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at <= ?2",
        (instance, tx.now),
    )
}

/// Visible messages of the instance, queue messages excepted, that were enqueued at or before `created_by`.
pub(crate) fn overdue_ids(tx: &Tx<'_>, instance: &str, created_by: i64) -> Result<Vec<i64>> {
    tx.all(
        "SELECT id FROM orchestrator_queue
         WHERE instance_id = ?1 AND visible_at <= ?2 AND created_at <= ?3 AND kind <> 'QueueMessage' ORDER BY id",
        (instance, tx.now, created_by),
        |row| row.get(0),
    )
}

/// The execution has ended: its timers would fire for nobody.
pub(crate) fn delete_pending_timers(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute(
        "DELETE FROM orchestrator_queue WHERE instance_id = ?1 AND visible_at > ?2 AND kind = 'TimerFired'",
        (instance, tx.now),
    )?;
    Ok(())
}

/// When the next message becomes visible.
pub(crate) fn next_due(tx: &Tx<'_>) -> Result<Option<i64>> {
    tx.one(
        "SELECT MIN(visible_at) FROM orchestrator_queue WHERE visible_at > ?1",
        [tx.now],
        |row| row.get(0),
    )
}

/// Deletes all messages of an instance; returns how many.
pub(crate) fn delete_instance(tx: &Tx<'_>, instance: &str) -> Result<usize> {
    tx.execute(
        "DELETE FROM orchestrator_queue WHERE instance_id = ?1",
        [instance],
    )
}

/// Messages nobody has claimed, and timers that are not due yet.
pub(crate) fn depths(tx: &Tx<'_>) -> Result<(usize, usize)> {
    tx.one(
        "SELECT
             COUNT(*) FILTER (WHERE NOT (q.kind = 'TimerFired' AND q.visible_at > ?1)
                 AND (q.lock_token IS NULL OR q.lock_token = ?2 OR NOT EXISTS
                     (SELECT 1 FROM instance_locks AS l
                      WHERE l.instance_id = q.instance_id AND l.lock_token = q.lock_token AND l.locked_until > ?1))),
             COUNT(*) FILTER (WHERE q.kind = 'TimerFired' AND q.visible_at > ?1)
         FROM orchestrator_queue AS q",
        (tx.now, AWAITING_START),
        |row| Ok((row.get(0)?, row.get(1)?)),
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
