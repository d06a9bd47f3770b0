//! What a store keeps of an instance that a node cannot go on with. Plain data.

use serde::{Deserialize, Serialize};

use super::BlockedInstance;

/// A node's note that it cannot go on with an instance.
///
/// It holds until the instance has a further event, has ended or begins another life; so nothing has to be written when
/// an instance goes on. It outlives the node.
///
/// ```
/// use duroxide_core::provider::{BlockNote, BlockedInstance};
/// let blocked = BlockedInstance {
///     instance_id: "order-7".into(),
///     execution_id: 1,
///     orchestration_name: "order".into(),
///     report: "recorded: timer, attempted: activity".into(),
///     attempts: 3,
/// };
/// let note = BlockNote::new(blocked, "worker-1", 1_700_000_000_000);
/// assert_eq!(note.node, "worker-1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockNote {
    /// The instance, the report, and how often that node has tried.
    pub blocked: BlockedInstance,
    /// The name of the node; of several, of the one that tried last.
    pub node: String,
    /// When it tried last, by the clock of the store, in milliseconds since the Unix epoch.
    pub noted_at_ms: u64,
}

impl BlockNote {
    /// A note of this node; stores make it.
    #[must_use]
    pub fn new(blocked: BlockedInstance, node: impl Into<String>, noted_at_ms: u64) -> Self {
        Self {
            blocked,
            node: node.into(),
            noted_at_ms,
        }
    }
}
