//! What the adapter keeps in entries and dead letters, as JSON. Readers ignore fields they do not know.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{
    BlockNote, DeadLetterOrigin, ExecutionStatus, Incarnation, OutcomeStatus,
};
use duroxide_core::{ErrorDetails, Labels};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// One instance. Fields that are missing have their default, fields that are unknown are ignored: a row of an earlier
/// or a later release can be read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct InstanceRow {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) execution: u64,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom_status: Option<String>,
    pub(super) custom_status_version: u64,
    /// Which life of the id; a row of an earlier release has none until its next turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<i64>,
    /// Which life of the parent started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_incarnation: Option<i64>,
    /// The last event of the current execution; 0 if it is not known.
    pub(super) last_event: u64,
    /// The current execution, as in its own row but for how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<ExecutionRow>,
    /// Whether it ever wrote a key-value.
    pub(super) key_values: bool,
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paused_at: Option<u64>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub(super) labels: Labels,
    /// What a node noted that cannot go on with it; the next turn with events removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blocked: Option<BlockNote>,
}

impl InstanceRow {
    /// The row, or what is wrong with it.
    pub(super) fn read(bytes: &[u8]) -> std::result::Result<Self, String> {
        let row: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match row.execution {
            0 => Err("it names no execution".to_owned()),
            _ => Ok(row),
        }
    }

    /// Stands for a row that does not decode.
    pub(super) fn unknown() -> Self {
        Self {
            name: "Unknown".to_owned(),
            version: UNKNOWN_VERSION.to_owned(),
            execution: duroxide_core::INITIAL_EXECUTION_ID,
            ..Self::default()
        }
    }

    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation.and_then(Incarnation::from_stored)
    }

    pub(super) fn parent_incarnation(&self) -> Option<Incarnation> {
        self.parent_incarnation.and_then(Incarnation::from_stored)
    }
}

/// The row of an instance as a claim read it along, if the instance is paused.
pub(super) fn paused(attached: Option<&Vec<u8>>) -> Option<&Vec<u8>> {
    let bytes = attached?;
    let row = InstanceRow::read(bytes).ok()?;
    row.paused_at.is_some().then_some(bytes)
}

/// One execution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ExecutionRow {
    pub(super) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
    pub(super) started_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<u64>,
    /// Engine version that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pinned: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) handler: Option<(String, String)>,
    /// How it ended, as JSON of [`Outcome`], unless `output` says it all. Raw, so that a reader that does not know it
    /// can read the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<serde_json::Value>,
}

/// Stands for a version that is not known.
pub(super) const UNKNOWN_VERSION: &str = "unknown";
pub(super) const RUNNING: &str = ExecutionStatus::Running.as_str();
pub(super) const CONTINUED: &str = ExecutionStatus::ContinuedAsNew.as_str();
pub(super) const COMPLETED: &str = ExecutionStatus::Completed.as_str();
pub(super) const FAILED: &str = ExecutionStatus::Failed.as_str();

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

    /// Without how it ended, which may be long.
    pub(super) fn summary(&self) -> Self {
        Self {
            output: None,
            outcome: None,
            ..self.clone()
        }
    }

    /// How it ended, as far as the row has it.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match &self.outcome {
            Some(raw) => serde_json::from_value(raw.clone()).ok(),
            None => {
                let output = self.output.clone().filter(|_| self.status == COMPLETED);
                output.map(Outcome::Completed)
            }
        }
    }

    /// Notes how it ended; a value that is the output already is not written twice.
    pub(super) fn set_outcome(&mut self, outcome: &Outcome) -> Result<()> {
        let is_output = self.status == COMPLETED
            && matches!(outcome, Outcome::Completed(value) if self.output.as_ref() == Some(value));
        self.outcome = if is_output {
            None
        } else {
            Some(to_value(outcome)?)
        };
        Ok(())
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

/// A dead letter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DeadRow {
    pub(super) queue: String,
    pub(super) instance: Option<String>,
    pub(super) payload: String,
    pub(super) reason: String,
    /// The life of the instance that it was for, as far as that is known.
    #[serde(rename = "life", default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<i64>,
    /// Whether the instance got a failure in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) answered: bool,
    /// When it was dead-lettered, if that was in another store.
    #[serde(
        rename = "set_aside_at",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) dead_lettered_at_ms: Option<u64>,
}

impl DeadRow {
    pub(super) fn origin(&self) -> DeadLetterOrigin {
        DeadLetterOrigin {
            incarnation: self.incarnation.and_then(Incarnation::from_stored),
            answered: self.answered,
        }
    }
}

pub(super) fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(row)
        .map_err(|error| Refusal::unstorable(std::any::type_name::<T>(), &error).into())
}

fn to_value<T: Serialize>(row: &T) -> Result<serde_json::Value> {
    serde_json::to_value(row)
        .map_err(|error| Refusal::unstorable(std::any::type_name::<T>(), &error).into())
}

pub(super) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::undecodable(what(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores hold rows of earlier builds.
    #[test]
    fn a_dead_letter_is_written_as_it_was_read() {
        let text = r#"{"queue":"work","instance":"i","payload":"{}","reason":"r","life":7,"set_aside_at":4}"#;
        let row: DeadRow = decode(text.as_bytes(), String::new).unwrap();
        assert_eq!(
            (row.incarnation, row.dead_lettered_at_ms),
            (Some(7), Some(4))
        );
        assert_eq!(encode(&row).unwrap(), text.as_bytes());
    }
}
