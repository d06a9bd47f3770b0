//! What lies in the queues for one instance, as an operator sees it.

use serde::{Deserialize, Serialize};

/// What lies in the queues for one instance, read as one snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingWork {
    /// Time of the store when it was asked, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Time until which a node holds the instance for a turn; `None` if none does.
    pub turn_leased_until_ms: Option<u64>,
    /// Messages for the instance, in the order of the queue; timers are among them.
    pub messages: Vec<PendingMessage>,
    /// Its activities, in the order of the queue.
    pub activities: Vec<PendingActivity>,
}

/// A message that no turn has taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMessage {
    /// The kind of work item, as [`WorkItem::kind_name`](crate::WorkItem::kind_name) says it.
    pub kind: String,
    /// Time from which it can be claimed, in milliseconds since the Unix epoch.
    pub visible_at_ms: u64,
    /// Number of claims so far.
    pub attempts: u32,
    /// The handler and version that it asks for, if it begins an execution.
    pub begins: Option<(String, Option<String>)>,
}

/// An activity that has not been acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingActivity {
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The event that scheduled it.
    pub activity_id: u64,
    /// Time from which it can be claimed, in milliseconds since the Unix epoch.
    pub visible_at_ms: u64,
    /// Time until which a worker holds it, in milliseconds since the Unix epoch; `None` if none does.
    pub leased_until_ms: Option<u64>,
    /// Number of claims so far.
    pub attempts: u32,
}
