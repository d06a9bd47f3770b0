//! What one turn writes, by name. Nothing is written here.

use super::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use crate::event::Event;

/// Everything that one turn writes: what [`Provider::ack_orchestration_item`](super::Provider::ack_orchestration_item)
/// takes one by one, where neighbours of the same type could change places.
///
/// ```
/// use duroxide_core::provider::TurnWrites;
/// let writes = TurnWrites::nothing(1);
/// assert!(writes.history.is_empty() && writes.to_orchestrators.is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct TurnWrites {
    /// The execution that the turn belongs to.
    pub execution_id: u64,
    /// New events, which are appended to its history.
    pub history: Vec<Event>,
    /// Activities for the worker queue.
    pub to_workers: Vec<WorkItem>,
    /// Messages for the orchestrator queue, timers included.
    pub to_orchestrators: Vec<WorkItem>,
    /// Changes to the execution and its instance beside the history.
    pub metadata: ExecutionMetadata,
    /// Activities that are cancelled, also those of this very turn.
    pub cancelled: Vec<ScheduledActivityIdentifier>,
}

impl TurnWrites {
    /// A turn that only consumes the messages it was claimed with.
    #[must_use]
    pub fn nothing(execution_id: u64) -> Self {
        Self {
            execution_id,
            history: Vec::new(),
            to_workers: Vec::new(),
            to_orchestrators: Vec::new(),
            metadata: ExecutionMetadata::default(),
            cancelled: Vec::new(),
        }
    }
}
