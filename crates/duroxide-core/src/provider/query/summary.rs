//! What a query answers with: instances as a store read them, their status as text, counts and pages. Plain data;
//! nothing here reads a store.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::PageCursor;
use crate::label::Labels;
use crate::provider::{ExecutionStatus, Incarnation};

/// Status of the current execution of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InstanceStatus {
    /// It has not ended.
    Running,
    /// It ended in continue-as-new, and the next execution has not begun.
    ContinuedAsNew,
    /// It ended with a value.
    Completed,
    /// It ended without a value.
    Failed,
    /// A status that this build does not know.
    Unknown,
}

impl InstanceStatus {
    /// Every status that an instance can have.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::ContinuedAsNew,
        Self::Completed,
        Self::Failed,
        Self::Unknown,
    ];

    /// The status with this stored text.
    #[must_use]
    pub fn of_stored(text: &str) -> Self {
        match ExecutionStatus::parse(text) {
            Some(ExecutionStatus::Running) => Self::Running,
            Some(ExecutionStatus::ContinuedAsNew) => Self::ContinuedAsNew,
            Some(ExecutionStatus::Completed) => Self::Completed,
            Some(ExecutionStatus::Failed) => Self::Failed,
            None => Self::Unknown,
        }
    }

    /// The stored text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => ExecutionStatus::Running.as_str(),
            Self::ContinuedAsNew => ExecutionStatus::ContinuedAsNew.as_str(),
            Self::Completed => ExecutionStatus::Completed.as_str(),
            Self::Failed => ExecutionStatus::Failed.as_str(),
            Self::Unknown => "Unknown",
        }
    }

    /// Whether the instance completed or failed.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

impl fmt::Display for InstanceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for InstanceStatus {
    type Err = String;

    /// Reads a status as a person types it; upper and lower case do not matter.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_meant = |status: &Self| status.as_str().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(is_meant).ok_or_else(|| {
            format!("`{text}` is no status; one of running, continuedasnew, completed, failed")
        })
    }
}

/// Everything that a list shows of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InstanceSummary {
    /// Its id.
    pub instance_id: String,
    /// Handler name.
    pub name: String,
    /// Handler version.
    pub version: String,
    /// Status of the current execution.
    pub status: InstanceStatus,
    /// Custom status, if its code set one.
    pub custom_status: Option<String>,
    /// Current execution.
    pub execution_id: u64,
    /// Time at which it was created, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// Time at which its last turn was committed, in milliseconds since the Unix epoch.
    pub updated_at_ms: u64,
    /// Time at which its current execution completed or failed, in milliseconds since the Unix epoch.
    pub ended_at_ms: Option<u64>,
    /// Time since which it is paused, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub paused_at_ms: Option<u64>,
    /// Which life of its id it is; `None` if the store cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// Its parent, if it is a child.
    pub parent: Option<String>,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
    /// The memo that it was started with, as JSON.
    #[serde(default)]
    pub memo: Option<String>,
    /// Events in the history of the current execution.
    pub event_count: u64,
}

impl InstanceSummary {
    /// A running instance without a parent and without events; stores fill in the rest.
    #[must_use]
    pub fn new(
        instance_id: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
    ) -> Self {
        Self {
            instance_id: instance_id.into(),
            name: name.into(),
            version: version.into(),
            status: InstanceStatus::Running,
            custom_status: None,
            execution_id: 1,
            created_at_ms: 0,
            updated_at_ms: 0,
            ended_at_ms: None,
            paused_at_ms: None,
            incarnation: None,
            parent: None,
            labels: Labels::new(),
            memo: None,
            event_count: 0,
        }
    }
}

/// One page of answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The answers, in the order of the query.
    pub items: Vec<T>,
    /// Beginning of the next page; `None` if there is none. Only a query for what instances wait for has pages that
    /// are not full and lead to another one.
    pub next: Option<PageCursor>,
}

/// How many instances have something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceCount {
    /// The status, name, version or value of a label; empty if all were counted together.
    pub key: String,
    /// Their number.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_back_from_its_text() {
        for status in InstanceStatus::ALL {
            assert_eq!(InstanceStatus::of_stored(status.as_str()), status);
            assert_eq!(status.as_str().to_lowercase().parse(), Ok(status));
        }
        assert_eq!(InstanceStatus::of_stored("?"), InstanceStatus::Unknown);
        assert!("?".parse::<InstanceStatus>().is_err());
    }
}
