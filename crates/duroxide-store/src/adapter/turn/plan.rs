//! From a turn to its writes. Pure: in goes what was stored before, out come the operations, in the order the contract
//! asks for.

use duroxide_core::provider::{Incarnation, OutcomeStatus};
use duroxide_core::{Event, EventKind, WorkItem};

use super::commit::{Before, Turn};
use super::kv;
use crate::adapter::error::Result;
use crate::adapter::names::{self, INSTANCES, TURNS, WORK};
use crate::adapter::rows::{self, ExecutionRow, InstanceRow, Outcome};
use crate::adapter::token::{TurnToken, stamp_of};
use crate::atomic::Operation;
use crate::log::Record;
use crate::queue::{NewMessage, Visible};

pub(super) fn run(
    token: &TurnToken<'_>,
    turn: &Turn<'_>,
    before: Before,
    now_ms: u64,
) -> Result<Vec<Operation>> {
    let instance = token.instance;
    let lives = Lives::of(token, before.row.as_ref());
    let mut operations = vec![Operation::Complete {
        lease: token.lease.clone(),
    }];
    let first_of_execution = before.execution.is_none();
    let execution = execution_row(turn, before.execution, now_ms);
    let is_current = before
        .row
        .as_ref()
        .is_none_or(|row| row.execution <= turn.execution);
    if is_current && (first_of_execution || turn.metadata.pinned_duroxide_version.is_some()) {
        operations.push(Operation::SetLabel {
            queue: TURNS,
            group: instance.to_owned(),
            label: execution.pinned.clone(),
        });
    }
    operations.push(Operation::Put {
        scope: names::executions(instance),
        key: names::execution_key(turn.execution),
        value: rows::encode(&execution)?,
    });
    write_instance(instance, lives, turn, before.row, now_ms, &mut operations)?;
    operations.push(append(instance, turn.execution, &turn.history)?);
    operations.extend(kv::plan(
        instance,
        &turn.history,
        turn.ends(),
        &before.key_values,
        now_ms,
    )?);
    send(instance, lives, turn, &mut operations)?;
    Ok(operations)
}

/// Which life of the instance writes, and which life of its parent waits for it.
#[derive(Debug, Clone, Copy)]
struct Lives {
    own: Option<Incarnation>,
    parent: Option<Incarnation>,
}

impl Lives {
    fn of(token: &TurnToken<'_>, row: Option<&InstanceRow>) -> Self {
        Self {
            own: row.and_then(InstanceRow::life).or(token.life),
            parent: match row {
                Some(row) => row.parent_life(),
                None => token.parent_life,
            },
        }
    }

    /// What a message of this turn is stamped with: a child's start with the life that waits for it, a child's end
    /// with the life that it is for.
    fn for_message(self, instance: &str, item: &WorkItem) -> Option<Incarnation> {
        match item {
            WorkItem::StartOrchestration {
                parent_instance: Some(parent),
                ..
            } if parent == instance => self.own,
            WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. } => self.parent,
            _ => None,
        }
    }
}

fn execution_row(turn: &Turn<'_>, before: Option<ExecutionRow>, now_ms: u64) -> ExecutionRow {
    let mut row = before.unwrap_or_else(|| ExecutionRow::begun(now_ms));
    let metadata = &turn.metadata;
    if let Some(version) = &metadata.pinned_duroxide_version {
        row.pinned = Some(version.to_string());
    }
    if let Some(status) = &metadata.status {
        row.status.clone_from(status);
        row.output.clone_from(&metadata.output);
        row.completed_at = turn.ends().then_some(now_ms);
    }
    let named = metadata
        .orchestration_name
        .clone()
        .zip(metadata.orchestration_version.clone());
    let started = turn.history.iter().find_map(Event::started_handler);
    row.handler = started.or(row.handler).or(named);
    let ended = turn.history.iter().rev().find_map(OutcomeStatus::of_event);
    row.outcome = ended.and_then(Outcome::of).or(row.outcome);
    row
}

/// The instance row exists from the first turn that names a handler and its version.
fn write_instance(
    instance: &str,
    lives: Lives,
    turn: &Turn<'_>,
    before: Option<InstanceRow>,
    now_ms: u64,
    operations: &mut Vec<Operation>,
) -> Result<()> {
    let metadata = &turn.metadata;
    let handler = metadata
        .orchestration_name
        .as_ref()
        .zip(metadata.orchestration_version.as_ref());
    let mut row = match (before, handler) {
        (Some(row), _) => row,
        (None, None) => return Ok(()),
        (None, Some((name, version))) => {
            if let Some(parent) = &metadata.parent_instance_id {
                operations.push(Operation::Put {
                    scope: names::children(parent),
                    key: instance.to_owned(),
                    value: names::child_value(lives.parent),
                });
            }
            InstanceRow {
                name: name.clone(),
                version: version.clone(),
                execution: turn.execution,
                created_at: now_ms,
                updated_at: now_ms,
                parent: metadata.parent_instance_id.clone(),
                custom_status: None,
                custom_status_version: 0,
                incarnation: None,
                parent_incarnation: lives.parent.map(Incarnation::to_stored),
            }
        }
    };
    if let Some((name, version)) = handler {
        row.name.clone_from(name);
        row.version.clone_from(version);
    }
    row.incarnation = lives.own.map(Incarnation::to_stored);
    row.execution = row.execution.max(turn.execution);
    row.updated_at = now_ms;
    let status = turn
        .history
        .iter()
        .rev()
        .find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status),
            _ => None,
        });
    if let Some(status) = status {
        row.custom_status.clone_from(status);
        row.custom_status_version += 1;
    }
    operations.push(Operation::Put {
        scope: INSTANCES.to_owned(),
        key: instance.to_owned(),
        value: rows::encode(&row)?,
    });
    Ok(())
}

/// The write that appends events to an execution.
pub(in crate::adapter) fn append(
    instance: &str,
    execution: u64,
    events: &[Event],
) -> Result<Operation> {
    let records = events.iter().map(|event| {
        Ok(Record {
            number: event.event_id,
            data: rows::encode(event)?,
        })
    });
    Ok(Operation::Append {
        entity: instance.to_owned(),
        partition: execution,
        events: records.collect::<Result<_>>()?,
    })
}

/// Activities first, then cancellations, so that what is scheduled and cancelled in one turn is never run.
fn send(
    instance: &str,
    lives: Lives,
    turn: &Turn<'_>,
    operations: &mut Vec<Operation>,
) -> Result<()> {
    for item in &turn.to_workers {
        operations.push(Operation::Enqueue {
            queue: WORK,
            message: NewMessage {
                stamp: stamp_of(lives.own),
                ..names::to_workers(item)?
            },
        });
    }
    for activity in &turn.cancelled {
        operations.push(Operation::DeleteKeyed {
            queue: WORK,
            group: activity.instance.clone(),
            key: names::activity_key(activity.execution_id, activity.activity_id),
        });
    }
    for item in &turn.to_orchestrators {
        let visible = match item {
            WorkItem::TimerFired { fire_at_ms, .. } => Visible::At(*fire_at_ms),
            _ => Visible::Now,
        };
        operations.push(Operation::Enqueue {
            queue: TURNS,
            message: NewMessage {
                stamp: stamp_of(lives.for_message(instance, item)),
                ..names::to_instance(item, visible)?
            },
        });
    }
    Ok(())
}
