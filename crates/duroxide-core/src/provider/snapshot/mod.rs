//! Everything that a store holds of one instance, as data, and what becomes of it in another store. In: rows that
//! stores read. Out: values that can be compared, written to a file, and restored. Leases, sessions and rests are left
//! out: their holders belong to the old store.

mod check;
mod family;
mod incarnations;
mod queued;
mod record;

pub use queued::{Awaiting, DeadLetterRecord, QueuedActivity, QueuedMessage};
pub use record::{
    EventRecord, ExecutionRecord, HeartbeatRecord, InstanceRecord, KeyValueRecord,
    StoredIncarnation,
};

use serde::{Deserialize, Serialize};

use super::rules;
use crate::start::StartExtras;

/// Everything that a store holds of one instance, read as one state.
///
/// An instance that has not begun has no [`record`](Self::record): its start lies in the queue. Two stores that hold
/// the same give equal snapshots, whatever they are made of.
///
/// ```
/// use duroxide_core::provider::InstanceSnapshot;
/// let nothing = InstanceSnapshot::of("order-7");
/// assert!(nothing.is_empty());
/// assert_eq!(nothing.check(), Ok(()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceSnapshot {
    /// The instance.
    pub instance_id: String,
    /// Its row; `None` if it has not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<InstanceRecord>,
    /// Its executions with their histories, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<ExecutionRecord>,
    /// Key-values at the end of the execution before the current one, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_values: Vec<KeyValueRecord>,
    /// Changes of the running execution to them, by key; without a value a key is hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_value_changes: Vec<KeyValueRecord>,
    /// Last heartbeats of calls of its activities, by execution and call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heartbeats: Vec<HeartbeatRecord>,
    /// Its messages in the order in which they were enqueued, timers included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<QueuedMessage>,
    /// Its activities in the order in which they were enqueued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<QueuedActivity>,
    /// Dead letters that name it, oldest first.
    #[serde(rename = "letters", default, skip_serializing_if = "Vec::is_empty")]
    pub dead_letters: Vec<DeadLetterRecord>,
}

impl InstanceSnapshot {
    /// A snapshot that holds nothing of an instance.
    #[must_use]
    pub fn of(instance: impl Into<String>) -> Self {
        Self {
            instance_id: instance.into(),
            ..Self::default()
        }
    }

    /// Whether the store holds nothing of the instance.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record.is_none()
            && self.executions.is_empty()
            && self.key_values.is_empty()
            && self.key_value_changes.is_empty()
            && self.heartbeats.is_empty()
            && self.messages.is_empty()
            && self.activities.is_empty()
            && self.dead_letters.is_empty()
    }

    /// The current execution, if it is there.
    #[must_use]
    pub fn current(&self) -> Option<&ExecutionRecord> {
        let current = self.record.as_ref()?.execution_id;
        let mut executions = self.executions.iter();
        executions.find(|it| it.execution_id == current)
    }
}

impl InstanceSnapshot {
    /// The memo that the instance was started with: the first event of each execution repeats it. Stores that keep it
    /// in a place of its own restore it from there.
    #[must_use]
    pub fn memo(&self) -> Option<String> {
        let first = self.current()?.events.first()?;
        let first = rules::event_from_json(&self.instance_id, first.json.as_bytes()).ok()?;
        StartExtras::recorded_in(&first.kind).memo
    }
}

/// What became of a snapshot that was to be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restoring {
    /// The store holds all of it.
    Done,
    /// Nothing was changed: the store holds something of this id already.
    Exists,
    /// Nothing was changed: the store is closed with this reason, or (`None`) open, and not as the caller expects.
    Unexpected(Option<String>),
}

/// What became of an attempt to close a store, or to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closing {
    /// It is as the caller wants it.
    Done,
    /// Nothing was changed: the store is closed with this reason, or (`None`) open, and not as the caller expects.
    Unexpected(Option<String>),
}

/// Some of the ids that a store holds anything of, and where the next page begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldIds {
    /// Ids. One may come again on a later page.
    pub ids: Vec<String>,
    /// To be handed in for the next page; `None` after the last one.
    pub next: Option<String>,
}
