//! What one turn decided, ready to be written. In: the arguments of the contract. Out: rows, and what the rows mean for
//! the instance. Runs in the caller's task, so that the writer only moves bytes.

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{
    ExecutionMetadata, OutcomeStatus, ScheduledActivityIdentifier, WorkItem,
};

use crate::codec;
use crate::error::Result;
use crate::lane;
use crate::tables::executions::ExecutionChange;
use crate::tables::history::NewEvent;
use crate::tables::instances::Named;
use crate::tables::kv::KvChange;
use crate::tables::orchestrator_queue::NewMessage;
use crate::tables::worker_queue::NewWork;
use crate::token;

/// Everything one turn writes.
pub(crate) struct Commit {
    pub(super) token: String,
    pub(super) execution_id: u64,
    pub(super) events: Vec<NewEvent>,
    pub(super) to_workers: Vec<NewWork>,
    pub(super) to_orchestrators: Vec<NewMessage>,
    pub(super) named: Option<Named>,
    /// The code that the instance needs next, if that changes with this turn.
    pub(super) lane: Option<String>,
    pub(super) execution: ExecutionChange,
    /// The last custom status of the turn, if it changed.
    pub(super) custom_status: Option<Option<String>>,
    pub(super) kv: Vec<KvChange>,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
    /// How the instance ends with this turn, if it does.
    pub(super) ended: Option<OutcomeStatus>,
}

impl Commit {
    pub(crate) fn new(
        token: &str,
        execution_id: u64,
        history_delta: &[Event],
        worker_items: &[WorkItem],
        orchestrator_items: &[WorkItem],
        metadata: ExecutionMetadata,
        cancelled: Vec<ScheduledActivityIdentifier>,
    ) -> Result<Self> {
        let instance = token::turn(token)?.instance;
        let to_orchestrators = orchestrator_items
            .iter()
            .map(codec::decided_message)
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            lane: next_lane(&metadata, &to_orchestrators),
            ended: ended(history_delta, metadata.status.as_deref()),
            token: token.to_owned(),
            execution_id,
            events: codec::events(instance, history_delta)?,
            to_workers: worker_items
                .iter()
                .map(codec::work)
                .collect::<Result<_>>()?,
            to_orchestrators,
            named: match (metadata.orchestration_name, metadata.orchestration_version) {
                (Some(name), Some(version)) => Some(Named {
                    name,
                    version,
                    parent: metadata.parent_instance_id,
                }),
                _ => None,
            },
            execution: ExecutionChange {
                status: metadata.status,
                output: metadata.output,
                pinned: metadata.pinned_duroxide_version,
            },
            custom_status: last_custom_status(history_delta),
            kv: history_delta.iter().filter_map(kv_change).collect(),
            cancelled,
        })
    }

    /// Whether it has the very first event: nothing was stored for the instance before it.
    pub(super) fn begins_instance(&self) -> bool {
        self.execution_id == 1 && self.events.first().is_some_and(|event| event.event_id == 1)
    }

    /// Whether its execution runs on after it.
    pub(super) fn keeps_running(&self) -> bool {
        matches!(self.execution.status.as_deref(), None | Some("Running"))
    }

    /// Whether it sends a message to this instance.
    pub(super) fn sends_to(&self, instance: &str) -> bool {
        self.to_orchestrators
            .iter()
            .any(|message| message.instance == instance)
    }

    /// Whether its execution ends with it.
    pub(super) fn ends_execution(&self) -> bool {
        matches!(
            self.execution.status.as_deref(),
            Some("Completed" | "Failed" | "ContinuedAsNew")
        )
    }
}

fn ended(events: &[Event], status: Option<&str>) -> Option<OutcomeStatus> {
    match (status, &events.last()?.kind) {
        (Some("Completed"), EventKind::OrchestrationCompleted { output }) => {
            Some(OutcomeStatus::Completed {
                output: output.clone(),
            })
        }
        (Some("Failed"), EventKind::OrchestrationFailed { details }) => {
            Some(OutcomeStatus::Failed {
                details: details.clone(),
            })
        }
        _ => None,
    }
}

/// The code that the instance needs after a turn: that of what continues it, none once it has ended, else what the turn
/// names. A turn that names nothing changes nothing.
fn next_lane(metadata: &ExecutionMetadata, sent: &[NewMessage]) -> Option<String> {
    match metadata.status.as_deref() {
        Some("Completed" | "Failed") => return Some(lane::ANY_NODE.to_owned()),
        Some("ContinuedAsNew") => {
            let next = sent
                .iter()
                .filter(|message| message.kind == "ContinueAsNew")
                .find_map(|message| message.begins.clone());
            return Some(next.unwrap_or_else(|| lane::BETWEEN.to_owned()));
        }
        _ => {}
    }
    let name = metadata.orchestration_name.as_deref()?;
    let version = metadata.orchestration_version.as_deref()?;
    let pinned = metadata.pinned_duroxide_version.as_ref();
    Some(lane::of(name, Some(version), pinned))
}

fn last_custom_status(events: &[Event]) -> Option<Option<String>> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.clone()),
        _ => None,
    })
}

fn kv_change(event: &Event) -> Option<KvChange> {
    match &event.kind {
        EventKind::KeyValueSet {
            key,
            value,
            last_updated_at_ms,
        } => Some(KvChange::Set {
            key: key.clone(),
            value: value.clone(),
            at_ms: *last_updated_at_ms,
        }),
        EventKind::KeyValueCleared { key } => Some(KvChange::Clear { key: key.clone() }),
        EventKind::KeyValuesCleared => Some(KvChange::ClearAll),
        _ => None,
    }
}
