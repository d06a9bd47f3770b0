//! From what a turn decided to what is written. Pure: a turn in, one commit out.

use duroxide_core::defect::Defect;
use duroxide_core::provider::{
    ExecutionMetadata, ExecutionStatus, Incarnation, OrchestrationItem,
    ScheduledActivityIdentifier, TurnWrites,
};
use duroxide_core::replay::{Outcome, ParentLink, Turn};
use duroxide_core::{
    Action, EventKind, INITIAL_EXECUTION_ID, WorkItem, build_child_instance_id, reason_from_parent,
};
use semver::Version;

/// What a turn writes, and how.
#[derive(Debug, Clone)]
pub(super) struct TurnCommit {
    /// Committed together or not at all.
    pub(super) writes: TurnWrites,
    /// Queue messages stay in the store until the next commit.
    pub(super) holds_queue_messages: bool,
}

/// The execution a turn belongs to.
#[derive(Debug, Clone)]
pub(super) struct ExecutionRef {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) name: String,
    pub(super) parent: Option<ParentLink>,
    /// The life of the instance, if the store tells lives apart.
    pub(super) incarnation: Option<Incarnation>,
}

/// An instance and its life.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whose<'a> {
    pub(super) instance: &'a str,
    pub(super) incarnation: Option<Incarnation>,
}

impl ExecutionRef {
    /// The execution that a claimed turn belongs to. Who awaits it is not known yet.
    pub(super) fn of(item: OrchestrationItem, incarnation: Option<Incarnation>) -> Self {
        Self {
            instance: item.instance,
            execution_id: item.execution_id,
            name: item.orchestration_name,
            parent: None,
            incarnation,
        }
    }

    pub(super) fn whose(&self) -> Whose<'_> {
        Whose {
            instance: &self.instance,
            incarnation: self.incarnation,
        }
    }
}

/// The commit of a turn.
pub(super) fn plan(of: &ExecutionRef, turn: Turn) -> TurnCommit {
    let mut writes = TurnWrites {
        metadata: metadata(of, &turn),
        history: turn.events,
        ..TurnWrites::nothing(of.execution_id)
    };
    for action in turn.actions {
        perform(&mut writes, of, action);
    }
    for activity_id in turn.cancelled_activities {
        writes.cancelled.push(ScheduledActivityIdentifier {
            instance: of.instance.clone(),
            execution_id: of.execution_id,
            activity_id,
        });
    }
    for child in turn.cancelled_children {
        if Defect::DroppedChildRunsOn.is_on() {
            break;
        }
        writes.to_orchestrators.push(WorkItem::CancelInstance {
            instance: build_child_instance_id(&of.instance, &child.instance),
            reason: reason_from_parent(&of.instance, &child.reason),
        });
    }
    writes.to_orchestrators.extend(successor(of, &turn.outcome));
    let cancel_for_successor = turn
        .cancel_for_successor
        .map(|reason| WorkItem::CancelInstance {
            instance: of.instance.clone(),
            reason,
        });
    writes.to_orchestrators.extend(cancel_for_successor);
    writes.to_orchestrators.extend(notice(of, &turn.outcome));
    TurnCommit {
        writes,
        holds_queue_messages: turn.holds_queue_messages,
    }
}

impl TurnCommit {
    /// A commit that only consumes the claimed messages, and sends these.
    pub(super) fn sending(execution_id: u64, to_orchestrators: Vec<WorkItem>) -> Self {
        let writes = TurnWrites {
            to_orchestrators,
            ..TurnWrites::nothing(execution_id)
        };
        Self::of(writes)
    }

    /// A commit that holds no queue messages back.
    pub(super) fn of(writes: TurnWrites) -> Self {
        Self {
            writes,
            holds_queue_messages: false,
        }
    }
}

fn perform(writes: &mut TurnWrites, of: &ExecutionRef, action: Action) {
    match action {
        Action::CallActivity {
            scheduling_event_id,
            name,
            input,
            session_id,
            tag,
        } => writes.to_workers.push(WorkItem::ActivityExecute {
            instance: of.instance.clone(),
            execution_id: of.execution_id,
            id: scheduling_event_id,
            name,
            input,
            session_id,
            tag,
        }),
        Action::CreateTimer {
            scheduling_event_id,
            fire_at_ms,
        } => writes.to_orchestrators.push(WorkItem::TimerFired {
            instance: of.instance.clone(),
            execution_id: of.execution_id,
            id: scheduling_event_id,
            fire_at_ms,
        }),
        Action::StartSubOrchestration {
            scheduling_event_id,
            name,
            version,
            instance,
            input,
        } => writes.to_orchestrators.push(WorkItem::StartOrchestration {
            instance: build_child_instance_id(&of.instance, &instance),
            orchestration: name,
            input,
            version,
            parent_instance: Some(of.instance.clone()),
            parent_id: Some(scheduling_event_id),
            parent_execution_id: Some(of.execution_id),
            execution_id: INITIAL_EXECUTION_ID,
        }),
        Action::StartOrchestrationDetached {
            name,
            version,
            instance,
            input,
            ..
        } => writes.to_orchestrators.push(WorkItem::StartOrchestration {
            instance,
            orchestration: name,
            input,
            version,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: INITIAL_EXECUTION_ID,
        }),
        // Recorded in the history, nothing to send.
        Action::WaitExternal { .. }
        | Action::ContinueAsNew { .. }
        | Action::UpdateCustomStatus { .. }
        | Action::DequeueEvent { .. }
        | Action::SetKeyValue { .. }
        | Action::ClearKeyValue { .. }
        | Action::ClearKeyValues => {}
    }
}

fn metadata(of: &ExecutionRef, turn: &Turn) -> ExecutionMetadata {
    let mut metadata = ExecutionMetadata::default();
    if let Some(first) = turn.events.first()
        && let EventKind::OrchestrationStarted { name, version, .. } = &first.kind
    {
        metadata.orchestration_name = Some(name.clone());
        metadata.orchestration_version = Some(version.clone());
        metadata.parent_instance_id = of.parent.as_ref().map(|p| p.instance.clone());
        metadata.pinned_duroxide_version = Version::parse(&first.duroxide_version).ok();
    }
    let (status, output) = match &turn.outcome {
        Outcome::Waiting => return metadata,
        Outcome::Completed { output } => (ExecutionStatus::Completed, output.clone()),
        Outcome::Failed { details } => (ExecutionStatus::Failed, details.display_message()),
        Outcome::ContinuedAsNew { input, .. } => (ExecutionStatus::ContinuedAsNew, input.clone()),
    };
    metadata.status = Some(status.as_str().to_owned());
    metadata.output = Some(output);
    metadata
}

fn successor(of: &ExecutionRef, outcome: &Outcome) -> Option<WorkItem> {
    let Outcome::ContinuedAsNew {
        input,
        version,
        carried,
        custom_status,
    } = outcome
    else {
        return None;
    };
    let mut parent = of.parent.as_ref();
    let mut carried = carried.clone();
    let mut status = custom_status.clone();
    if Defect::ParentLostAtContinue.is_on() {
        parent = None;
    }
    if Defect::QueueMessagesLostAtContinue.is_on() {
        carried.truncate(1);
    }
    if Defect::StatusLostAtContinue.is_on() {
        status = None;
    }
    Some(WorkItem::ContinueAsNew {
        instance: of.instance.clone(),
        orchestration: of.name.clone(),
        input: input.clone(),
        version: version.clone(),
        parent_instance: parent.map(|p| p.instance.clone()),
        parent_id: parent.map(|p| p.id),
        parent_execution_id: parent.and_then(|p| p.execution_id),
        carry_forward_events: carried,
        initial_custom_status: status,
    })
}

/// The message to the parent when an execution ends for good.
fn notice(of: &ExecutionRef, outcome: &Outcome) -> Option<WorkItem> {
    let parent = of.parent.as_ref()?;
    let parent_instance = parent.instance.clone();
    let parent_execution_id = parent.execution_id.unwrap_or(INITIAL_EXECUTION_ID);
    let parent_id = parent.id;
    match outcome {
        Outcome::Waiting | Outcome::ContinuedAsNew { .. } => None,
        Outcome::Completed { output } => Some(WorkItem::SubOrchCompleted {
            parent_instance,
            parent_execution_id,
            parent_id,
            result: output.clone(),
        }),
        Outcome::Failed { details } => Some(WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            parent_id,
            details: details.clone(),
        }),
    }
}
