//! From what a turn decided to what is written. Pure: a turn in, one commit out.

use duroxide_core::defect::Defect;
use duroxide_core::provider::{
    ExecutionMetadata, ExecutionStatus, Incarnation, ScheduledActivityIdentifier, TurnWrites,
};
use duroxide_core::replay::{Outcome, ParentLink, Turn};
use duroxide_core::{
    Action, Event, EventKind, INITIAL_EXECUTION_ID, WorkItem, build_child_instance_id,
    reason_from_parent,
};
use semver::Version;

/// Everything one turn writes: committed together or not at all.
#[derive(Debug, Clone)]
pub(super) struct TurnCommit {
    pub(super) execution_id: u64,
    pub(super) history: Vec<Event>,
    pub(super) to_workers: Vec<WorkItem>,
    pub(super) to_orchestrators: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
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
    pub(super) fn whose(&self) -> Whose<'_> {
        Whose {
            instance: &self.instance,
            incarnation: self.incarnation,
        }
    }
}

/// The commit of a turn.
pub(super) fn plan(of: &ExecutionRef, turn: Turn) -> TurnCommit {
    let mut commit = TurnCommit {
        execution_id: of.execution_id,
        metadata: metadata(of, &turn),
        history: turn.events,
        to_workers: Vec::new(),
        to_orchestrators: Vec::new(),
        cancelled: Vec::new(),
        holds_queue_messages: turn.holds_queue_messages,
    };
    for action in turn.actions {
        commit.perform(of, action);
    }
    for activity_id in turn.cancelled_activities {
        commit.cancelled.push(ScheduledActivityIdentifier {
            instance: of.instance.clone(),
            execution_id: of.execution_id,
            activity_id,
        });
    }
    for child in turn.cancelled_children {
        if Defect::DroppedChildRunsOn.is_on() {
            break;
        }
        commit.to_orchestrators.push(WorkItem::CancelInstance {
            instance: build_child_instance_id(&of.instance, &child.instance),
            reason: reason_from_parent(&of.instance, &child.reason),
        });
    }
    commit.to_orchestrators.extend(successor(of, &turn.outcome));
    let handed_on = turn.handed_on.map(|reason| WorkItem::CancelInstance {
        instance: of.instance.clone(),
        reason,
    });
    commit.to_orchestrators.extend(handed_on);
    commit.to_orchestrators.extend(notice(of, &turn.outcome));
    commit
}

impl TurnCommit {
    /// Whether queue messages are held back, and the rest as a store takes it.
    pub(super) fn writes(self) -> (bool, TurnWrites) {
        let writes = TurnWrites {
            execution_id: self.execution_id,
            history: self.history,
            to_workers: self.to_workers,
            to_orchestrators: self.to_orchestrators,
            metadata: self.metadata,
            cancelled: self.cancelled,
        };
        (self.holds_queue_messages, writes)
    }

    /// A commit that only consumes the claimed messages.
    pub(super) fn nothing(execution_id: u64) -> Self {
        Self {
            execution_id,
            history: Vec::new(),
            to_workers: Vec::new(),
            to_orchestrators: Vec::new(),
            metadata: ExecutionMetadata::default(),
            cancelled: Vec::new(),
            holds_queue_messages: false,
        }
    }

    fn perform(&mut self, of: &ExecutionRef, action: Action) {
        match action {
            Action::CallActivity {
                scheduling_event_id,
                name,
                input,
                session_id,
                tag,
            } => self.to_workers.push(WorkItem::ActivityExecute {
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
            } => self.to_orchestrators.push(WorkItem::TimerFired {
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
            } => self.to_orchestrators.push(WorkItem::StartOrchestration {
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
            } => self.to_orchestrators.push(WorkItem::StartOrchestration {
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
