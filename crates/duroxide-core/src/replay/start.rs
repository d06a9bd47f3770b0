//! What an execution begins with, and who awaits its result.

use crate::event::{Event, EventKind};

/// Who awaits the result of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentLink {
    /// The parent.
    pub instance: String,
    /// Its scheduling event.
    pub id: u64,
    /// Its execution; unknown for children begun by very old engines.
    pub execution_id: Option<u64>,
}

impl ParentLink {
    /// Who awaits the execution with this history.
    #[must_use]
    pub fn recorded_in(history: &[Event]) -> Option<Self> {
        history.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                parent_instance: Some(instance),
                parent_id,
                parent_execution_id,
                ..
            } => Some(Self {
                instance: instance.clone(),
                id: parent_id.unwrap_or_default(),
                execution_id: *parent_execution_id,
            }),
            _ => None,
        })
    }
}

/// What an execution begins with.
#[derive(Debug, Clone, Default)]
pub struct ExecutionStart {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution_id: u64,
    /// Registered name of the handler.
    pub name: String,
    /// The version it was resolved to.
    pub version: String,
    /// The serialized input.
    pub input: String,
    /// The instance that awaits the result.
    pub parent: Option<ParentLink>,
    /// Unread queue messages of the previous execution.
    pub carried: Vec<(String, String)>,
    /// Custom status at the end of the previous execution.
    pub custom_status: Option<String>,
}
