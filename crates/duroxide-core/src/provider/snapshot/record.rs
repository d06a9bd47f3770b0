//! The parts of a snapshot that are no queue: the instance, its executions with their events, key-values, heartbeats.

use serde::{Deserialize, Serialize};

use super::super::{ExecutionStatus, Incarnation};
use crate::label::Labels;

/// What an instance is, beside its executions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// Name of the orchestration.
    pub name: String,
    /// Its version, if the store knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The current execution.
    pub execution_id: u64,
    /// The instance that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The life of the id; `None` if an early build wrote it.
    #[serde(rename = "life", default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<StoredIncarnation>,
    /// Which life of the parent started it, as far as that is known.
    #[serde(
        rename = "parent_life",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub parent_incarnation: Option<StoredIncarnation>,
    /// The custom status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    /// How often it was set.
    #[serde(default)]
    pub custom_status_version: u64,
    /// Time at which it was created, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// Time at which its last turn was committed, in milliseconds since the Unix epoch.
    pub updated_at_ms: u64,
    /// Time since which it is paused, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at_ms: Option<u64>,
    /// Its labels, those of its code and those of operators.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// A life of an id as it is written down; see [`Incarnation`].
///
/// ```
/// use duroxide_core::provider::{Incarnation, StoredIncarnation};
/// let incarnation = Incarnation::from_random(7 << 1);
/// assert_eq!(StoredIncarnation::from(incarnation).incarnation(), Some(incarnation));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredIncarnation(pub i64);

impl StoredIncarnation {
    /// The life; `None` if the number is none.
    #[must_use]
    pub fn incarnation(self) -> Option<Incarnation> {
        Incarnation::from_stored(self.0)
    }
}

impl From<Incarnation> for StoredIncarnation {
    fn from(incarnation: Incarnation) -> Self {
        Self(incarnation.to_stored())
    }
}

/// One execution with its history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionRecord {
    /// Its number.
    pub execution_id: u64,
    /// Its status, as [`ExecutionStatus`] is stored; `None` if there are only events of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Its output, or the reason of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Time at which it began, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub started_at_ms: u64,
    /// Time at which it ended, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// The engine version that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// Its history, by number.
    #[serde(default)]
    pub events: Vec<EventRecord>,
}

impl ExecutionRecord {
    /// Where it stands, if that is known.
    #[must_use]
    pub fn parsed_status(&self) -> Option<ExecutionStatus> {
        self.status.as_deref().and_then(ExecutionStatus::parse)
    }
}

/// One event, as its store keeps it: also one that cannot be read comes along.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its number.
    pub id: u64,
    /// JSON of an [`Event`](crate::Event).
    pub json: String,
}

/// One key-value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValueRecord {
    /// The key.
    pub key: String,
    /// The value; `None` hides the key.
    pub value: Option<String>,
    /// Time at which it was set, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// What a call of an activity said last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatRecord {
    /// The execution.
    pub execution_id: u64,
    /// The event that scheduled the first attempt.
    pub call_id: u64,
    /// Details of the heartbeat.
    pub details: String,
}
