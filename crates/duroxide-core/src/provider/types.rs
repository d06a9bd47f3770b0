//! What crosses the storage contract, besides events and work items.

use std::collections::HashMap;
use std::time::Duration;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::work_item::WorkItem;

/// One value of an instance's key-value store.
#[derive(Debug, Clone, PartialEq)]
pub struct KvEntry {
    /// The value.
    pub value: String,
    /// Time at which it was set, in milliseconds since the Unix epoch.
    pub last_updated_at_ms: u64,
}

/// Everything a dispatcher needs to run one turn.
#[derive(Debug, Clone)]
pub struct OrchestrationItem {
    /// The instance.
    pub instance: String,
    /// Handler name.
    pub orchestration_name: String,
    /// The instance's current execution.
    pub execution_id: u64,
    /// Handler version, `"unknown"` if none is known yet.
    pub version: String,
    /// History of the current execution, by event id.
    pub history: Vec<Event>,
    /// Messages claimed for this turn, in the order they were enqueued.
    pub messages: Vec<WorkItem>,
    /// Set when the history could not be decoded; `history` is empty then and the lease is held.
    pub history_error: Option<String>,
    /// Key-values at the end of the previous execution.
    pub kv_snapshot: HashMap<String, KvEntry>,
}

/// What a commit says about the instance and the execution. Computed by the runtime, stored as it is.
#[derive(Debug, Clone, Default)]
pub struct ExecutionMetadata {
    /// New execution status: `Completed`, `Failed` or `ContinuedAsNew`; `None` leaves it as it is.
    pub status: Option<String>,
    /// Result, error text or next input; written together with `status`.
    pub output: Option<String>,
    /// Handler name; with the version it creates the instance row.
    pub orchestration_name: Option<String>,
    /// Handler version.
    pub orchestration_version: Option<String>,
    /// Parent; stored when the instance row is created.
    pub parent_instance_id: Option<String>,
    /// Engine version that began the execution; overwrites what is stored.
    pub pinned_duroxide_version: Option<Version>,
}

/// Names one scheduled activity, for cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledActivityIdentifier {
    /// The instance that scheduled it.
    pub instance: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// Scheduling event id.
    pub activity_id: u64,
}

/// Who asks for session-bound work, and for how long a session is leased to them.
#[derive(Debug, Clone)]
pub struct SessionFetchConfig {
    /// Owner of the session.
    pub owner_id: String,
    /// Session lease.
    pub lock_timeout: Duration,
}

/// Sizes of one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemStats {
    /// Events of the current execution.
    pub history_event_count: u64,
    /// Bytes of these events as stored.
    pub history_size_bytes: u64,
    /// Queue messages carried into the current execution.
    pub queue_pending_count: u64,
    /// Keys of the instance.
    pub kv_user_key_count: u64,
    /// Bytes of their values.
    pub kv_total_value_bytes: u64,
}
