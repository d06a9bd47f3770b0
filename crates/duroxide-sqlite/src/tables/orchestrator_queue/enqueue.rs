//! Messages that come in. In: a message with what its row needs. Out: a row, in the lane of its instance if it stands
//! for the instance; or, while the transaction is open, a message that is not written yet.

use duroxide_core::provider::rules::{self, lane};
use duroxide_core::provider::{Incarnation, WorkItem};

use super::row::{NewRow, insert_row};
use super::unwritten::{has_rows, next_id};
use super::{bring_back, end_rest, write_unwritten_for};
use crate::error::Result;
use crate::tables::pauses;
use crate::tx::{Enqueued, LATEST, Tx, Unwritten, UnwrittenMessage};

/// A message ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewMessage {
    pub(crate) instance: String,
    pub(crate) kind: &'static str,
    pub(crate) json: String,
    pub(crate) due: Due,
    /// Of a message that begins an execution: the code it names.
    pub(crate) begins: Option<String>,
    /// Of a result or a timer: execution and scheduling event of the operation that waits for it.
    pub(crate) answers: Option<(i64, i64)>,
    /// Of the start of a child: its parent, which waits for it with the operation in `answers`.
    pub(crate) starts_child_of: Option<String>,
    /// Of a continue-as-new: whether it carries unread queue messages.
    pub(crate) carries: bool,
    /// Of a request to cancel: what it asks for.
    pub(crate) asks: Option<Asks>,
}

impl NewMessage {
    /// The row of an item, visible at `due`.
    pub(crate) fn of(item: &WorkItem, due: Due) -> Result<Self> {
        rules::orchestrator_only(item)?;
        Ok(Self {
            instance: item.target_instance().to_owned(),
            kind: item.kind_name(),
            json: rules::work_item_to_json(item)?,
            due,
            begins: lane::begun_by(item),
            answers: item.answers().and_then(stored_ids),
            starts_child_of: item.starts_child_of().map(str::to_owned),
            carries: item.carries_messages(),
            asks: match item {
                WorkItem::CancelInstance { .. } if item.terminates() => Some(Asks::ToTerminate),
                WorkItem::CancelInstance { .. } => Some(Asks::ToCancel),
                _ => None,
            },
        })
    }

    /// Whether it begins an instance.
    pub(crate) fn is_start(&self) -> bool {
        self.kind == "StartOrchestration"
    }

    /// Whether it reports to a parent how its child ended.
    pub(crate) fn is_notice(&self) -> bool {
        matches!(self.kind, "SubOrchCompleted" | "SubOrchFailed")
    }
}

/// Ids beyond what a column holds name no operation that could wait.
fn stored_ids((execution_id, id): (u64, u64)) -> Option<(i64, i64)> {
    Some((execution_id.try_into().ok()?, id.try_into().ok()?))
}

/// What a request to cancel asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asks {
    /// Its code is to come to an end. Nodes without it may end the instance once the request is old.
    ToCancel,
    /// An end at once, by any node.
    ToTerminate,
}

/// When a message becomes visible.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// After this much time from the moment it is written.
    After(Option<std::time::Duration>),
    /// At this time.
    At(i64),
}

pub(crate) fn push(tx: &mut Tx<'_>, message: &NewMessage) -> Result<()> {
    push_from(tx, message, None)
}

/// As [`push`], for the start of an instance that does not exist: its lane is the one it names.
pub(crate) fn push_first(tx: &mut Tx<'_>, message: &NewMessage) -> Result<()> {
    insert(tx, message, None, message.begins.as_deref())
}

/// As [`push`], stamped with the life of the instance that sent it.
pub(crate) fn push_from(
    tx: &mut Tx<'_>,
    message: &NewMessage,
    sender: Option<Incarnation>,
) -> Result<()> {
    insert(tx, message, sender, None)
}

/// `lane` is the lane of the message, if that is certain.
fn insert(
    tx: &mut Tx<'_>,
    message: &NewMessage,
    sender: Option<Incarnation>,
    lane: Option<&str>,
) -> Result<()> {
    let visible_at = match message.due {
        Due::After(delay) => tx.after(delay),
        // Computed with the clock that callers read.
        Due::At(at) => at.saturating_add(tx.ahead).min(LATEST),
    };
    let asked_at = message.asks.map(|asks| match asks {
        Asks::ToCancel => tx.now,
        Asks::ToTerminate => 0,
    });
    write_unwritten_for(tx, &message.instance)?;
    let remembered = tx.memory().and_then(|memory| {
        if asked_at.is_some() {
            memory.cancel_enqueued(asked_at.unwrap_or(tx.now));
        }
        memory.message_enqueued(&message.instance)
    });
    let place = place_of(message, visible_at, lane, remembered.as_ref());
    let is_plain = sender.is_none() && asked_at.is_none() && visible_at <= tx.now;
    let is_kept = match place {
        Place::Lane(lane) if is_plain => keep_unwritten(tx, message, lane, visible_at)?,
        Place::Lane(_) | Place::BehindHead | Place::ToBeFound(_) => false,
    };
    let row = (
        &message.instance,
        message.kind,
        &message.json,
        visible_at,
        tx.now,
        sender.map(Incarnation::to_stored),
        message.answers.map(|(execution_id, _)| execution_id),
        message.answers.map(|(_, operation_id)| operation_id),
        match place {
            Place::Lane(lane) => Some(lane),
            Place::BehindHead | Place::ToBeFound(_) => message.begins.as_deref(),
        },
        message.starts_child_of.as_deref(),
        message.carries.then_some(1),
        asked_at,
        if is_kept {
            None
        } else {
            tx.unwritten().and_then(Unwritten::give_id)
        },
    );
    match place {
        _ if is_kept => {}
        Place::Lane(_) | Place::BehindHead => insert_row(tx, row)?,
        Place::ToBeFound(of_instance) => insert_into_lane(tx, row, of_instance)?,
    }
    if let (Place::Lane(_), Some(memory)) = (place, tx.memory()) {
        memory.head_is(&message.instance, Some(visible_at));
    }
    note_claimable(tx, message, visible_at)
}

/// Ends what keeps claims from the instance, and notes when the message can be claimed.
fn note_claimable(tx: &mut Tx<'_>, message: &NewMessage, visible_at: i64) -> Result<()> {
    // A paused instance is terminated all the same: its messages come back to where claims look.
    if matches!(message.asks, Some(Asks::ToTerminate))
        && pauses::since(tx, &message.instance)?.is_some()
    {
        bring_back(tx, &message.instance)?;
    }
    let is_rest_over = end_rest(tx, &message.instance)?;
    let claimable_at = if is_rest_over { tx.now } else { visible_at };
    tx.effects.turn_claimable_at(claimable_at);
    Ok(())
}

/// Where a new message goes.
#[derive(Debug, Clone, Copy)]
enum Place<'l> {
    /// Into this lane.
    Lane(&'l str),
    /// Into none: a message that is visible earlier stands for its instance.
    BehindHead,
    /// The tables decide; the lane of the instance, if that is known.
    ToBeFound(Option<&'l str>),
}

/// Where a message goes; `lane` is its lane, if that is certain, `remembered` what the writer remembers of the
/// instance.
fn place_of<'l>(
    message: &NewMessage,
    visible_at: i64,
    lane: Option<&'l str>,
    remembered: Option<&'l Enqueued>,
) -> Place<'l> {
    match (lane, remembered) {
        (Some(lane), _) => Place::Lane(lane),
        // The only message stands for its instance.
        (None, Some(it)) if it.is_only_one && it.lane != lane::BETWEEN => Place::Lane(&it.lane),
        // One that is visible earlier stands for it.
        (None, Some(it))
            if message.begins.is_none() && it.head_at.is_some_and(|at| at <= visible_at) =>
        {
            Place::BehindHead
        }
        (None, Some(it)) => Place::ToBeFound(Some(&it.lane)),
        (None, None) => Place::ToBeFound(None),
    }
}

/// Keeps a message of the open transaction unwritten, if the request may leave some so and no other message is queued
/// for its instance. Returns whether it did.
fn keep_unwritten(tx: &Tx<'_>, message: &NewMessage, lane: &str, visible_at: i64) -> Result<bool> {
    let Some(unwritten) = tx.unwritten() else {
        return Ok(false);
    };
    if has_rows(tx, &message.instance)? {
        return Ok(false);
    }
    let Some(id) = next_id(tx, unwritten)? else {
        return Ok(false);
    };
    unwritten.keep(UnwrittenMessage {
        id,
        instance: message.instance.clone(),
        kind: message.kind,
        json: message.json.clone(),
        visible_at,
        created_at: tx.now,
        lane: lane.to_owned(),
        begins: message.begins.is_some(),
        answers: message.answers,
        starts_child_of: message.starts_child_of.clone(),
        carries: message.carries,
    });
    Ok(true)
}

/// Finds the lane of the message: it needs one if it begins something, or if no message before it has one.
fn insert_into_lane(tx: &Tx<'_>, row: NewRow<'_>, of_instance: Option<&str>) -> Result<()> {
    tx.execute(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, sender_incarnation,
             execution_id, operation_id, awaited_by, carries, asked_at, id, lane)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10, ?11, ?12, ?13,
             CASE WHEN ?9 IS NOT NULL THEN COALESCE(
                      NULLIF(COALESCE(?14, (SELECT lane FROM instances WHERE instance_id = ?1)), 'between'), ?9)
                  WHEN (SELECT lane IS NOT NULL FROM orchestrator_queue
                        WHERE instance_id = ?1 AND visible_at <= ?4 ORDER BY visible_at, id LIMIT 1) THEN NULL
                  ELSE COALESCE(?14, (SELECT lane FROM instances WHERE instance_id = ?1), '') END)",
        (
            row.0,
            row.1,
            row.2,
            row.3,
            row.4,
            row.5,
            row.6,
            row.7,
            row.8,
            row.9,
            row.10,
            row.11,
            row.12,
            of_instance,
        ),
    )?;
    Ok(())
}
