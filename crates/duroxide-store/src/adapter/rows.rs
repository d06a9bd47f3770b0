//! What the adapter keeps in entries and dead letters, as JSON. Readers ignore fields they do not know.

use duroxide_core::ErrorDetails;
use duroxide_core::provider::{Incarnation, OutcomeStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// One instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct InstanceRow {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) execution: u64,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) custom_status: Option<String>,
    #[serde(default)]
    pub(super) custom_status_version: u64,
    /// Which life of the id; a row of an earlier release has none until its next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<i64>,
    /// Which life of the parent started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent_incarnation: Option<i64>,
}

impl InstanceRow {
    pub(super) fn life(&self) -> Option<Incarnation> {
        self.incarnation.and_then(Incarnation::from_stored)
    }

    pub(super) fn parent_life(&self) -> Option<Incarnation> {
        self.parent_incarnation.and_then(Incarnation::from_stored)
    }
}

/// One execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ExecutionRow {
    pub(super) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
    pub(super) started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<u64>,
    /// Engine version that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pinned: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) handler: Option<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Outcome>,
}

pub(super) const RUNNING: &str = "Running";
pub(super) const CONTINUED: &str = "ContinuedAsNew";

impl ExecutionRow {
    pub(super) fn begun(now_ms: u64) -> Self {
        Self {
            status: RUNNING.to_owned(),
            output: None,
            started_at: now_ms,
            completed_at: None,
            pinned: None,
            handler: None,
            outcome: None,
        }
    }

    /// Whether the instance still has something to do: its execution runs, or the next one is about to begin.
    pub(super) fn is_live(&self) -> bool {
        self.status == RUNNING || self.status == CONTINUED
    }
}

/// How an execution ended for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Completed(String),
    Failed(ErrorDetails),
}

impl Outcome {
    pub(super) fn of(status: OutcomeStatus) -> Option<Self> {
        match status {
            OutcomeStatus::Running => None,
            OutcomeStatus::Completed { output } => Some(Self::Completed(output)),
            OutcomeStatus::Failed { details } => Some(Self::Failed(details)),
        }
    }

    pub(super) fn into_status(self) -> OutcomeStatus {
        match self {
            Self::Completed(output) => OutcomeStatus::Completed { output },
            Self::Failed(details) => OutcomeStatus::Failed { details },
        }
    }
}

/// One key-value; without a value it hides the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KvRow {
    pub(super) value: Option<String>,
    pub(super) at: u64,
}

/// A message that was set aside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DeadRow {
    pub(super) queue: String,
    pub(super) instance: Option<String>,
    pub(super) payload: String,
    pub(super) reason: String,
}

pub(super) fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(row).map_err(|error| Error::Undecodable {
        what: std::any::type_name::<T>().to_owned(),
        reason: error.to_string(),
    })
}

pub(super) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Undecodable {
        what: what(),
        reason: error.to_string(),
    })
}
