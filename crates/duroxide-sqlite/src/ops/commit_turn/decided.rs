//! What one turn decided, ready to be written. In: what the contract was given. Out: rows, and what the rows mean for
//! the instance. Runs in the caller's task, so that the writer only moves bytes.

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::rules::{self, lane};
use duroxide_core::provider::{
    ExecutionStatus, Incarnation, OutcomeStatus, ScheduledActivityIdentifier, TurnWrites,
};
use duroxide_core::{LabelChange, is_label_key, label_changes, memo_at_birth};

use crate::codec;
use crate::error::Result;
use crate::tables::executions::ExecutionChange;
use crate::tables::history::NewEvent;
use crate::tables::instances::Named;
use crate::tables::kv::KvChange;
use crate::tables::labels::NewLabels;
use crate::tables::orchestrator_queue::{Bounds, NewMessage};
use crate::tables::worker_queue::NewWork;
use crate::token::{self, TurnToken};

/// Everything one turn writes.
pub(crate) struct Commit {
    pub(super) token: String,
    /// Where the instance begins in the token.
    instance_at: usize,
    /// Where the messages of the claim are.
    pub(super) bounds: Bounds,
    /// The life that this turn gives an instance that does not exist yet.
    pub(super) next_incarnation: Incarnation,
    pub(super) execution_id: u64,
    /// Whether it begins an execution after another one.
    pub(super) begins_later: bool,
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
    pub(super) labels: Vec<LabelChange>,
    /// The labels that the instance is created with; none if it was there before.
    pub(super) born_with: NewLabels,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
    /// Whether queue messages are held back until the next commit.
    pub(super) holds_queue_messages: bool,
    /// How the instance ends with this turn, if it does.
    pub(super) ended: Option<OutcomeStatus>,
}

impl Commit {
    pub(crate) fn new(token: &str, writes: TurnWrites) -> Result<Self> {
        let (history, metadata) = (&*writes.history, writes.metadata);
        let TurnToken {
            instance,
            bounds,
            next_incarnation,
        } = token::turn(token)?;
        let to_orchestrators = writes
            .to_orchestrators
            .iter()
            .map(codec::decided_message)
            .collect::<Result<Vec<_>>>()?;
        let mut commit = Self {
            lane: lane::after_turn(&metadata, &writes.to_orchestrators),
            ended: rules::ended_by(history, metadata.status.as_deref()),
            token: token.to_owned(),
            instance_at: token.len() - instance.len(),
            bounds,
            next_incarnation,
            execution_id: writes.execution_id,
            begins_later: rules::begins_later_execution(history),
            events: codec::events(instance, history)?,
            to_workers: writes
                .to_workers
                .iter()
                .map(codec::work)
                .collect::<Result<_>>()?,
            to_orchestrators,
            named: match (metadata.orchestration_name, metadata.orchestration_version) {
                (Some(name), Some(version)) => Some(Named {
                    name,
                    version,
                    parent: metadata.parent_instance_id,
                    memo: memo_at_birth(history),
                }),
                _ => None,
            },
            execution: ExecutionChange {
                status: metadata.status,
                output: metadata.output,
                pinned: metadata.pinned_duroxide_version,
            },
            custom_status: rules::last_custom_status(history)
                .map(|status| status.map(str::to_owned)),
            kv: history.iter().filter_map(kv_change).collect(),
            labels: label_changes(history),
            born_with: NewLabels::default(),
            cancelled: writes.cancelled,
            holds_queue_messages: false,
        };
        if commit.creates_instance() {
            commit.born_with = NewLabels::of(&commit.labels);
        }
        Ok(commit)
    }

    /// The same turn; queue messages of its instance are held back until the next one.
    pub(crate) fn holding_queue_messages(mut self) -> Self {
        self.holds_queue_messages = true;
        self
    }

    /// The instance whose turn it is.
    pub(super) fn instance(&self) -> &str {
        &self.token[self.instance_at..]
    }

    /// Whether it has the very first event: nothing was stored for the instance before it.
    pub(super) fn begins_instance(&self) -> bool {
        self.execution_id == 1 && self.events.first().is_some_and(|event| event.event_id == 1)
    }

    /// Whether the row of the instance is made by it.
    pub(super) fn creates_instance(&self) -> bool {
        self.begins_instance() && self.named.is_some()
    }

    /// Whether its execution runs on after it.
    pub(super) fn keeps_running(&self) -> bool {
        let status = self.execution.status.as_deref();
        status.is_none_or(|status| status == ExecutionStatus::Running.as_str())
    }

    /// Whether it sends a message to this instance.
    pub(super) fn sends_to(&self, instance: &str) -> bool {
        self.to_orchestrators
            .iter()
            .any(|message| message.instance == instance)
    }

    /// Whether its execution ends with it.
    pub(super) fn ends_execution(&self) -> bool {
        let status = self.execution.status.as_deref();
        status
            .and_then(ExecutionStatus::parse)
            .is_some_and(ExecutionStatus::has_ended)
    }

    /// Whether its instance ends with it.
    pub(super) fn ends_instance(&self) -> bool {
        let status = self.execution.status.as_deref();
        matches!(
            status.and_then(ExecutionStatus::parse),
            Some(ExecutionStatus::Completed | ExecutionStatus::Failed)
        )
    }
}

fn kv_change(event: &Event) -> Option<KvChange> {
    match &event.kind {
        EventKind::KeyValueSet { key, .. } | EventKind::KeyValueCleared { key }
            if is_label_key(key) =>
        {
            None
        }
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
