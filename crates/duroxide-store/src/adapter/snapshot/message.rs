//! Between queued messages of the store and those of a snapshot.

use duroxide_core::WorkItem;
use duroxide_core::provider::rules::work_item_from_json;
use duroxide_core::provider::{
    Awaiting, DeadLetterRecord, InstanceRecord, QueuedActivity, QueuedMessage, StoredIncarnation,
};

use crate::adapter::error::Result;
use crate::adapter::names;
use crate::adapter::rows::{self, DeadRow};
use crate::message::{Message, NewMessage, Visible};

/// Why a message for an earlier life lies among the dead letters.
const FOR_ANOTHER_LIFE: &str = "the instance that started the child was deleted";

/// A message as a snapshot has it.
pub(super) enum Read {
    Message(QueuedMessage),
    /// It is for an earlier life of the instance: the claim that meets it would dead-letter it.
    DeadLetter(DeadLetterRecord),
}

/// When a message can be claimed; one that could be at once, since it was enqueued.
fn visible_at_ms(message: &Message) -> u64 {
    match message.visible_at {
        0 => message.enqueued_at,
        at => at,
    }
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.payload).into_owned()
}

fn stamped_incarnation(stamp: Option<u64>) -> Option<StoredIncarnation> {
    stamp.map(|stamp| StoredIncarnation(stamp.cast_signed()))
}

pub(super) fn read(message: &Message, record: Option<&InstanceRecord>) -> Read {
    let item = work_item_from_json(&message.payload);
    let stamp = stamped_incarnation(message.stamp);
    let is_start = match &item {
        Ok(item) => item.is_start(),
        Err(_) => message
            .key
            .as_deref()
            .is_some_and(|key| key.starts_with("start/")),
    };
    let own = record.and_then(|record| record.incarnation);
    if !is_start && stamp.zip(own).is_some_and(|(stamp, own)| stamp != own) {
        return Read::DeadLetter(DeadLetterRecord {
            queue: names::TURNS.name.into_owned(),
            payload: text(message),
            reason: FOR_ANOTHER_LIFE.to_owned(),
            dead_lettered_at_ms: message.enqueued_at,
            ..DeadLetterRecord::default()
        });
    }
    Read::Message(QueuedMessage {
        json: text(message),
        visible_at_ms: visible_at_ms(message),
        attempts: message.attempts,
        sent_by: stamp.filter(|_| is_start),
        awaiting: match item {
            Ok(_) => None,
            Err(_) => message.key.as_deref().and_then(awaiting),
        },
    })
}

/// What a key says of a message that cannot be read.
fn awaiting(key: &str) -> Option<Awaiting> {
    let mut parts = key.splitn(4, '/');
    let kind = match parts.next()? {
        "activity" => "ActivityCompleted",
        "child" => "SubOrchCompleted",
        "timer" => "TimerFired",
        "start" => "StartOrchestration",
        _ => return None,
    };
    Some(Awaiting {
        kind: kind.to_owned(),
        execution_id: parts.next()?.parse().ok()?,
        operation_id: parts.next()?.parse().ok()?,
        parent: match kind {
            "StartOrchestration" => Some(parts.next()?.to_owned()),
            _ => None,
        },
    })
}

/// The key that such a message had.
fn key_of(awaiting: &Awaiting, visible_at_ms: u64) -> Option<String> {
    let operation = format!("{}/{}", awaiting.execution_id, awaiting.operation_id);
    Some(match awaiting.kind.as_str() {
        "ActivityCompleted" | "ActivityFailed" => format!("activity/{operation}"),
        "SubOrchCompleted" | "SubOrchFailed" => format!("child/{operation}"),
        "TimerFired" => format!("timer/{operation}/{visible_at_ms}"),
        "StartOrchestration" => format!("start/{operation}/{}", awaiting.parent.as_deref()?),
        _ => return None,
    })
}

/// The message to enqueue for a snapshot's.
pub(super) fn restored(
    instance: &str,
    message: &QueuedMessage,
    record: Option<&InstanceRecord>,
) -> Result<(NewMessage, Option<WorkItem>)> {
    let visible = Visible::At(message.visible_at_ms);
    let stamp = |incarnation: Option<StoredIncarnation>| {
        incarnation.map(|StoredIncarnation(incarnation)| incarnation.cast_unsigned())
    };
    let item = work_item_from_json(message.json.as_bytes()).ok();
    let mut new = match &item {
        Some(item) => names::to_instance(item, visible)?,
        None => NewMessage {
            key: message
                .awaiting
                .as_ref()
                .and_then(|it| key_of(it, message.visible_at_ms)),
            visible,
            ..NewMessage::default()
        },
    };
    new.group = instance.to_owned();
    // As it was, to the byte.
    new.payload = message.json.clone().into_bytes();
    new.attempts = message.attempts;
    let is_notice = matches!(
        item,
        Some(WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. })
    );
    new.stamp = if is_notice {
        // How a child ended is for the life that waits for it.
        stamp(record.and_then(|record| record.incarnation))
    } else {
        stamp(message.sent_by)
    };
    Ok((new, item))
}

/// An activity as a snapshot has it; one of a paused instance that a claim held back counts as ready.
pub(super) fn read_activity(message: &Message, is_paused: bool) -> Option<QueuedActivity> {
    let (execution_id, activity_id) = names::parse_activity_key(message.key.as_deref()?)?;
    Some(QueuedActivity {
        json: text(message),
        execution_id,
        activity_id,
        name: message.kind.clone(),
        session: message.affinity.clone(),
        tag: message.label.clone(),
        visible_at_ms: if is_paused {
            message.enqueued_at.min(visible_at_ms(message))
        } else {
            visible_at_ms(message)
        },
        attempts: message.attempts,
        incarnation: stamped_incarnation(message.stamp),
    })
}

pub(super) fn restored_activity(instance: &str, activity: &QueuedActivity) -> NewMessage {
    NewMessage {
        key: Some(names::activity_key(
            activity.execution_id,
            activity.activity_id,
        )),
        affinity: activity.session.clone(),
        label: activity.tag.clone(),
        kind: activity.name.clone(),
        stamp: activity
            .incarnation
            .map(|StoredIncarnation(incarnation)| incarnation.cast_unsigned()),
        visible: Visible::At(activity.visible_at_ms),
        attempts: activity.attempts,
        ..NewMessage::new(instance, activity.json.clone())
    }
}

pub(super) fn read_dead_letter(message: &Message) -> Result<DeadLetterRecord> {
    let what = || format!("dead letter {}", message.id);
    let row: DeadRow = rows::decode(&message.payload, what)?;
    Ok(DeadLetterRecord {
        dead_lettered_at_ms: row.dead_lettered_at_ms.unwrap_or(message.enqueued_at),
        queue: row.queue,
        payload: row.payload,
        reason: row.reason,
        incarnation: row.incarnation.map(StoredIncarnation),
        answered: row.answered,
    })
}

pub(super) fn restored_dead_letter(
    instance: &str,
    letter: &DeadLetterRecord,
) -> Result<NewMessage> {
    let row = DeadRow {
        queue: letter.queue.clone(),
        instance: Some(instance.to_owned()).filter(|id| !id.is_empty()),
        payload: letter.payload.clone(),
        reason: letter.reason.clone(),
        incarnation: letter
            .incarnation
            .map(|StoredIncarnation(incarnation)| incarnation),
        answered: letter.answered,
        dead_lettered_at_ms: Some(letter.dead_lettered_at_ms),
    };
    Ok(NewMessage::new(instance, rows::encode(&row)?))
}
