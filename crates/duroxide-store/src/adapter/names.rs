//! Where things live in the generic store: names of queues, scopes and keys. Only this file spells them.

use duroxide_core::WorkItem;
use duroxide_core::provider::Incarnation;
use duroxide_core::provider::rules::Refusal;

use super::error::{Error, Result};
use super::{awaited, kinds};
use crate::atomic::Guard;
use crate::message::{Followers, NewMessage, Queue, Role, Visible};

/// Messages to instances; the group is the instance, its label the engine version that began the execution, its kind
/// the handler it needs.
pub(super) const TURNS: Queue = Queue::grouped("orchestrator");
/// Activities; the group is the instance, the label the tag, the kind the activity's name, the affinity the session.
pub(super) const WORK: Queue = Queue::single("worker");
/// Dead letters.
pub(super) const DEAD: Queue = Queue::single("dead_letters");
/// Label of messages that wait for their due time.
pub(super) const TIMER: &str = "timer";

/// Scope of instance rows, by instance.
pub(super) const INSTANCES: &str = "instances";
/// Scope of duties, by name.
pub(super) const DUTIES: &str = "duties";
/// Scope of what is said of the store itself.
pub(super) const STORE: &str = "store";
/// Key of why the store is closed.
pub(super) const CLOSED: &str = "closed";
/// Scope of nodes, by id.
pub(super) const NODES: &str = "nodes";
/// Scope that lists the instances whose current execution runs.
pub(super) const RUNNING_INSTANCES: &str = "running";

/// That the row of an instance is still what was read.
pub(super) fn unchanged(instance: &str, row: Option<&Vec<u8>>) -> Guard {
    let (scope, key) = (INSTANCES.to_owned(), instance.to_owned());
    match row {
        Some(value) => Guard::Equals {
            scope,
            key,
            value: value.clone(),
        },
        None => Guard::Absent { scope, key },
    }
}

/// Scope of an instance's execution rows.
pub(super) fn executions(instance: &str) -> String {
    format!("executions/{instance}")
}

/// Key of an execution row: as many digits as the largest number has, so that keys sort like numbers.
pub(super) fn execution_key(execution: u64) -> String {
    format!("{execution:020}")
}

/// The number in an execution key.
pub(super) fn parse_execution_key(key: &str) -> Result<u64> {
    key.parse()
        .map_err(|_| Error::undecodable(format!("execution key {key}"), "not a number"))
}

/// Scope that lists the direct children of an instance, those of its earlier lives included; see [`is_child`].
pub(super) fn children(instance: &str) -> String {
    format!("children/{instance}")
}

/// Scope that lists the children that an instance has asked for and that have not begun.
pub(super) fn asked(instance: &str) -> String {
    format!("asked/{instance}")
}

/// Content of a child's entry: which life of the parent started it.
pub(super) fn child_value(parent: Option<Incarnation>) -> Vec<u8> {
    parent.map_or_else(Vec::new, |incarnation| {
        incarnation.to_stored().to_string().into_bytes()
    })
}

/// Whether a child with this entry was started by this life of the parent. Entries of earlier releases name none.
pub(super) fn is_child(value: &[u8], parent: Option<Incarnation>) -> bool {
    value.is_empty() || value == child_value(parent)
}

/// Scope of key-values at the end of the previous execution.
pub(super) fn kv_base(instance: &str) -> String {
    format!("kv/{instance}")
}

/// Scope of key-value changes of the running execution.
pub(super) fn kv_delta(instance: &str) -> String {
    format!("kv_delta/{instance}")
}

/// Scope of what calls of an instance's activities said last.
pub(super) fn heartbeats(instance: &str) -> String {
    format!("heartbeats/{instance}")
}

/// Key of what a call said last; begins with the key of its execution.
pub(super) fn heartbeat_key(execution: u64, call: u64) -> String {
    format!("{}/{call:020}", execution_key(execution))
}

/// The execution in such a key.
pub(super) fn execution_of_heartbeat(key: &str) -> Result<u64> {
    parse_execution_key(key.split('/').next().unwrap_or_default())
}

/// Key by which an activity can be cancelled, within its instance.
pub(super) fn activity_key(execution: u64, activity: u64) -> String {
    format!("{execution}/{activity}")
}

/// The execution and the activity in such a key.
pub(super) fn parse_activity_key(key: &str) -> Option<(u64, u64)> {
    let (execution, activity) = key.split_once('/')?;
    Some((execution.parse().ok()?, activity.parse().ok()?))
}

/// The message that carries an item to an instance.
pub(super) fn to_instance(item: &WorkItem, visible: Visible) -> Result<NewMessage> {
    let mut message = NewMessage {
        key: awaited::key_of(item),
        visible,
        ..NewMessage::new(item.target_instance(), super::rows::encode(item)?)
    };
    match item {
        WorkItem::ActivityExecute { .. } => {
            return Err(Error::Refused(Refusal::WrongKind {
                queue: "orchestrator",
                kind: item.kind_name(),
            }));
        }
        WorkItem::TimerFired { .. } => message.label = Some(TIMER.to_owned()),
        WorkItem::CancelInstance { .. } => {
            message.role = if item.terminates() {
                Role::UrgentAlarm
            } else {
                Role::Alarm
            };
        }
        WorkItem::StartOrchestration {
            orchestration,
            version,
            ..
        } => {
            message.role = Role::Lead;
            message.kind = Some(kinds::of(orchestration, version.as_deref()));
        }
        WorkItem::ContinueAsNew {
            orchestration,
            version,
            ..
        } => {
            message.role = Role::Successor(if item.carries_messages() {
                // What was carried is read before what is still queued, and carries the queue no further.
                Followers::Stay
            } else {
                Followers::Come
            });
            message.kind = Some(kinds::of(orchestration, version.as_deref()));
        }
        WorkItem::QueueMessage { .. } => message.role = Role::Follower,
        _ => {}
    }
    Ok(message)
}

/// The message that carries an activity to the workers.
pub(super) fn to_workers(item: &WorkItem) -> Result<NewMessage> {
    let WorkItem::ActivityExecute {
        instance,
        execution_id,
        id,
        name,
        session_id,
        tag,
        ..
    } = item
    else {
        return Err(Error::Refused(Refusal::WrongKind {
            queue: "worker",
            kind: item.kind_name(),
        }));
    };
    Ok(NewMessage {
        key: Some(activity_key(*execution_id, *id)),
        affinity: session_id.clone(),
        label: tag.clone(),
        kind: Some(name.clone()),
        ..NewMessage::new(instance, super::rows::encode(item)?)
    })
}
