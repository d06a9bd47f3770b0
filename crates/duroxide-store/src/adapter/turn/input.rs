//! What a commit begins with: what the turn decided, and what is stored before it.

use duroxide_core::provider::{ExecutionMetadata, ScheduledActivityIdentifier, TurnWrites};
use duroxide_core::{Event, EventKind, WorkItem};

use super::kv;
use crate::adapter::rows::{CONTINUED, ExecutionRow, InstanceRow, RUNNING};
use crate::atomic::Guard;

/// Everything one turn writes: committed together or not at all.
#[derive(Debug)]
pub(in crate::adapter) struct TurnWritesInput<'a> {
    pub(in crate::adapter) lock_token: &'a str,
    pub(in crate::adapter) execution: u64,
    pub(in crate::adapter) history: Vec<Event>,
    pub(in crate::adapter) to_workers: Vec<WorkItem>,
    pub(in crate::adapter) to_orchestrators: Vec<WorkItem>,
    pub(in crate::adapter) metadata: ExecutionMetadata,
    pub(in crate::adapter) cancelled: Vec<ScheduledActivityIdentifier>,
    /// Whether queue messages are held back until the next turn.
    pub(in crate::adapter) holds_queue_messages: bool,
}

/// What is stored before the turn.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) row: Option<InstanceRow>,
    pub(super) execution: Option<ExecutionRow>,
    pub(super) key_values: kv::Stored,
    /// What the row must still be.
    pub(super) guard: Option<Guard>,
}

impl<'a> TurnWritesInput<'a> {
    pub(in crate::adapter) fn of(lock_token: &'a str, writes: TurnWrites) -> Self {
        Self {
            lock_token,
            execution: writes.execution_id,
            history: writes.history,
            to_workers: writes.to_workers,
            to_orchestrators: writes.to_orchestrators,
            metadata: writes.metadata,
            cancelled: writes.cancelled,
            holds_queue_messages: false,
        }
    }

    /// The same turn; queue messages are held back until the next one.
    pub(in crate::adapter) fn holding_queue_messages(mut self) -> Self {
        self.holds_queue_messages = true;
        self
    }
}

impl TurnWritesInput<'_> {
    /// Whether the turn ends its execution.
    pub(super) fn ends(&self) -> bool {
        let status = self.metadata.status.as_deref();
        status.is_some_and(|status| status != RUNNING)
    }

    /// Whether the turn ends its instance.
    pub(super) fn ends_instance(&self) -> bool {
        let status = self.metadata.status.as_deref();
        self.ends() && status != Some(CONTINUED)
    }

    pub(super) fn clears_all_keys(&self) -> bool {
        let mut kinds = self.history.iter().map(|event| &event.kind);
        kinds.any(|kind| matches!(kind, EventKind::KeyValuesCleared))
    }
}
