//! From a turn to its writes. Pure: in goes what was stored before, out come the operations, in the order the contract
//! asks for.

use duroxide_core::defect::Defect;
use duroxide_core::provider::{Incarnation, OutcomeStatus, rules};
use duroxide_core::{Event, WorkItem, label_changes};
use semver::Version;

use super::input::{Before, TurnWritesInput};
use super::kv;
use crate::adapter::error::Result;
use crate::adapter::kinds;
use crate::adapter::names::{self, INSTANCES, RUNNING_INSTANCES, TURNS, WORK};
use crate::adapter::rows::{self, CONTINUED, ExecutionRow, InstanceRow, Outcome, RUNNING};
use crate::adapter::token::{Asker, TurnToken, stamp_of};
use crate::atomic::Operation;
use crate::message::{NewMessage, Visible};
use crate::record::Record;

pub(super) fn run(
    token: &TurnToken<'_>,
    turn: &TurnWritesInput<'_>,
    before: Before,
    now_ms: u64,
) -> Result<Vec<Operation>> {
    let instance = token.instance;
    let incarnations = Incarnations::of(token, before.row.as_ref());
    let mut operations = vec![Operation::Complete {
        lease: token.lease.clone(),
    }];
    if turn.holds_queue_messages && !turn.ends_instance() {
        operations.push(Operation::HoldFollowers {
            queue: TURNS,
            group: instance.to_owned(),
        });
    }
    let stored = before.execution.clone();
    let execution = execution_row(turn, before.execution, now_ms)?;
    let is_current = before
        .row
        .as_ref()
        .is_none_or(|row| row.execution <= turn.execution);
    if stored.as_ref().map(ExecutionRow::summary) != Some(execution.clone()) {
        operations.push(Operation::Put {
            scope: names::executions(instance),
            key: names::execution_key(turn.execution),
            value: rows::encode(&execution)?,
        });
    }
    if is_current {
        let labelled = before.row.as_ref().is_some_and(|row| row.current.is_some());
        let labels = labels(&execution);
        if !labelled || stored.as_ref().map(self::labels) != Some(labels.clone()) {
            operations.push(Operation::SetLabel {
                queue: TURNS,
                group: instance.to_owned(),
                label: labels.0,
                kind: labels.1,
            });
        }
    }
    let mut writer = InstanceWriter {
        instance,
        incarnations,
        turn,
        now_ms,
        operations: &mut operations,
    };
    writer.write(before.row, is_current.then_some(&execution))?;
    operations.push(append(instance, turn.execution, &turn.history)?);
    let written = (&turn.history[..], turn.metadata.status.as_deref());
    operations.extend(kv::plan(instance, written, &before.key_values, now_ms)?);
    send(instance, incarnations, turn, &mut operations)?;
    Ok(operations)
}

/// Which life of the instance writes, which life of its parent waits for it, and which life sent the start that came
/// with this turn: a later life of the parent may ask for a child that an earlier one has begun.
#[derive(Debug, Clone, Copy)]
struct Incarnations<'t> {
    own: Option<Incarnation>,
    parent: Option<Incarnation>,
    /// Of the first start of the batch.
    asking: Option<Incarnation>,
    /// Of all starts of the batch, if there is more than one.
    askers: &'t [Asker],
}

impl<'t> Incarnations<'t> {
    fn of(token: &'t TurnToken<'_>, row: Option<&InstanceRow>) -> Self {
        Self {
            own: row.and_then(InstanceRow::incarnation).or(token.incarnation),
            parent: match row {
                Some(row) => row.parent_incarnation(),
                None => token.parent_incarnation,
            },
            asking: token.parent_incarnation,
            askers: &token.askers,
        }
    }

    /// The life of the parent whose start, one of several, is refused.
    fn refused(self, item: &WorkItem) -> Option<Incarnation> {
        let WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            parent_id,
            ..
        } = item
        else {
            return None;
        };
        let is_for = |asker: &&Asker| {
            asker.parent == *parent_instance
                && asker.execution == *parent_execution_id
                && asker.id == *parent_id
        };
        self.askers.iter().find(is_for)?.incarnation
    }

    /// What a message of this turn is stamped with: a child's start with the life that waits for it, a child's end
    /// with the life that it is for, and the refusal of a start with the life that asked.
    fn for_message(self, instance: &str, item: &WorkItem, is_own_end: bool) -> Option<Incarnation> {
        if Defect::RefusalToEarlierLife.is_on() && is_notice(item) {
            return self.parent;
        }
        match item {
            WorkItem::StartOrchestration {
                parent_instance: Some(parent),
                ..
            } if parent == instance => self.own,
            _ if !is_notice(item) => None,
            _ if is_own_end => self.parent,
            _ if self.askers.is_empty() => self.asking.or(self.parent),
            _ => self.refused(item),
        }
    }
}

/// Whether a message reports to a parent how its child ended.
fn is_notice(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. }
    )
}

/// Label and kind of an instance whose current execution has this row.
pub(in crate::adapter) fn labels(execution: &ExecutionRow) -> (Option<String>, Option<String>) {
    let pinned = execution.pinned.as_deref();
    let version = pinned.and_then(|text| Version::parse(text).ok());
    let handler = execution.handler.as_ref();
    let kind = match execution.status.as_str() {
        RUNNING => handler.map(|(name, version)| kinds::of(name, Some(version))),
        // The message that begins the next execution says what it is.
        CONTINUED => None,
        _ => Some(kinds::ANY_NODE.to_owned()),
    };
    (version.as_ref().map(kinds::version), kind)
}

fn execution_row(
    turn: &TurnWritesInput<'_>,
    before: Option<ExecutionRow>,
    now_ms: u64,
) -> Result<ExecutionRow> {
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
    if let Some(outcome) = ended.and_then(Outcome::of) {
        row.set_outcome(&outcome)?;
    }
    Ok(row)
}

/// Writes the instance row. It exists from the first turn that names a handler and its version.
struct InstanceWriter<'w> {
    instance: &'w str,
    incarnations: Incarnations<'w>,
    turn: &'w TurnWritesInput<'w>,
    now_ms: u64,
    operations: &'w mut Vec<Operation>,
}

impl InstanceWriter<'_> {
    /// `current` is the turn's execution, unless a later one exists.
    fn write(&mut self, before: Option<InstanceRow>, current: Option<&ExecutionRow>) -> Result<()> {
        let metadata = &self.turn.metadata;
        let handler = metadata
            .orchestration_name
            .as_ref()
            .zip(metadata.orchestration_version.as_ref());
        let mut row = match (before, handler) {
            (Some(row), _) => row,
            (None, None) => return Ok(()),
            (None, Some(_)) => self.begin(),
        };
        if let Some((name, version)) = handler {
            row.name.clone_from(name);
            row.version.clone_from(version);
        }
        row.incarnation = self.incarnations.own.map(Incarnation::to_stored);
        row.updated_at = self.now_ms;
        if !self.turn.history.is_empty() {
            row.blocked = None;
        }
        row.key_values |= self.turn.history.iter().any(kv::touches);
        self.set_status(&mut row);
        for change in label_changes(&self.turn.history) {
            change.apply(&mut row.labels);
        }
        if let Some(current) = current {
            self.set_current(&mut row, current);
        }
        self.operations.push(Operation::Put {
            scope: INSTANCES.to_owned(),
            key: self.instance.to_owned(),
            value: rows::encode(&row)?,
        });
        Ok(())
    }

    fn begin(&mut self) -> InstanceRow {
        let parent = self.turn.metadata.parent_instance_id.clone();
        if let Some(parent) = &parent {
            self.operations.push(Operation::Put {
                scope: names::children(parent),
                key: self.instance.to_owned(),
                value: names::child_value(self.incarnations.parent),
            });
            self.operations.push(Operation::Delete {
                scope: names::asked(parent),
                key: self.instance.to_owned(),
            });
        }
        InstanceRow {
            created_at: self.now_ms,
            parent,
            parent_incarnation: self.incarnations.parent.map(Incarnation::to_stored),
            ..InstanceRow::default()
        }
    }

    fn set_status(&self, row: &mut InstanceRow) {
        if let Some(status) = rules::last_custom_status(&self.turn.history) {
            row.custom_status = status.map(str::to_owned);
            row.custom_status_version += 1;
        }
    }

    fn set_current(&mut self, row: &mut InstanceRow, current: &ExecutionRow) {
        let ran = row
            .current
            .as_ref()
            .is_some_and(|before| before.status == RUNNING);
        let (scope, key) = (RUNNING_INSTANCES.to_owned(), self.instance.to_owned());
        match (ran, current.status == RUNNING) {
            (false, true) => self.operations.push(Operation::Put {
                scope,
                key,
                value: Vec::new(),
            }),
            (true, false) => self.operations.push(Operation::Delete { scope, key }),
            _ => {}
        }
        let last = self.turn.history.iter().map(|event| event.event_id).max();
        // A row of an earlier release does not say where its history ends, and never will.
        let is_known = row.last_event > 0;
        row.last_event = if row.execution != self.turn.execution {
            last.unwrap_or(0)
        } else if is_known {
            last.unwrap_or(0).max(row.last_event)
        } else {
            0
        };
        if !current.is_live() {
            row.paused_at = None;
        }
        row.execution = self.turn.execution;
        row.current = Some(current.summary());
    }
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

/// Whether the turn that cancels this activity also schedules it. Only a defect that is put back asks.
fn defective_order(turn: &TurnWritesInput<'_>, activity: u64) -> bool {
    let is_it =
        |item: &WorkItem| matches!(item, WorkItem::ActivityExecute { id, .. } if *id == activity);
    turn.to_workers.iter().any(is_it)
}

/// Activities first, then cancellations, so that what is scheduled and cancelled in one turn is never run.
fn send(
    instance: &str,
    incarnations: Incarnations<'_>,
    turn: &TurnWritesInput<'_>,
    operations: &mut Vec<Operation>,
) -> Result<()> {
    for item in &turn.to_workers {
        operations.push(Operation::Enqueue {
            queue: WORK,
            message: NewMessage {
                stamp: stamp_of(incarnations.own),
                ..names::to_workers(item)?
            },
        });
    }
    for activity in &turn.cancelled {
        if Defect::CancelLeavesWork.is_on() {
            continue;
        }
        if Defect::CancelBeforeSchedule.is_on() && defective_order(turn, activity.activity_id) {
            continue;
        }
        operations.push(Operation::DeleteKeyed {
            queue: WORK,
            group: activity.instance.clone(),
            key: names::activity_key(activity.execution_id, activity.activity_id),
        });
    }
    // Of an instance that ends, the first notice is its own; refused starts come after it. One that continues sends
    // none.
    let mut own_end_to_come = turn.ends_instance();
    for item in &turn.to_orchestrators {
        let is_own_end = own_end_to_come && is_notice(item);
        own_end_to_come &= !is_own_end;
        let visible = match item {
            WorkItem::TimerFired { fire_at_ms, .. } => Visible::At(*fire_at_ms),
            _ => Visible::Now,
        };
        // A deletion that is being planned notices it.
        if item.starts_child_of() == Some(instance) {
            operations.push(Operation::Put {
                scope: names::asked(instance),
                key: item.target_instance().to_owned(),
                value: names::child_value(incarnations.own),
            });
        }
        operations.push(Operation::Enqueue {
            queue: TURNS,
            message: NewMessage {
                stamp: stamp_of(incarnations.for_message(instance, item, is_own_end)),
                ..names::to_instance(item, visible)?
            },
        });
    }
    Ok(())
}
