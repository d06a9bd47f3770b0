//! Where an instance stands, as a client sees it.

use duroxide_core::ErrorDetails;
use duroxide_core::provider::{InstanceOutcome, OutcomeStatus};

/// Where an instance stands.
///
/// ```
/// use duroxide::OrchestrationStatus;
///
/// fn in_words(status: &OrchestrationStatus) -> String {
///     match status {
///         OrchestrationStatus::NotFound => "unknown".to_owned(),
///         OrchestrationStatus::Running { custom_status, .. } => format!("running {custom_status:?}"),
///         OrchestrationStatus::Completed { output, .. } => format!("gave {output}"),
///         OrchestrationStatus::Failed { details, .. } => format!("failed: {}", details.display_message()),
///     }
/// }
/// assert_eq!(in_words(&OrchestrationStatus::NotFound), "unknown");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrchestrationStatus {
    /// Unknown, or started and not yet picked up.
    NotFound,
    /// Not ended; also between two executions.
    Running {
        /// What the orchestration says about itself.
        custom_status: Option<String>,
        /// Number of changes of the custom status.
        custom_status_version: u64,
    },
    /// Ended with a value.
    Completed {
        /// The value.
        output: String,
        /// What the orchestration last said about itself.
        custom_status: Option<String>,
        /// Number of changes of the custom status.
        custom_status_version: u64,
    },
    /// Ended without a value.
    Failed {
        /// The cause of the failure.
        details: ErrorDetails,
        /// What the orchestration last said about itself.
        custom_status: Option<String>,
        /// Number of changes of the custom status.
        custom_status_version: u64,
    },
}

impl OrchestrationStatus {
    pub(crate) fn of(outcome: Option<InstanceOutcome>) -> Self {
        let Some(outcome) = outcome else {
            return Self::NotFound;
        };
        let custom_status = outcome.custom_status;
        let custom_status_version = outcome.custom_status_version;
        match outcome.status {
            OutcomeStatus::Running => Self::Running {
                custom_status,
                custom_status_version,
            },
            OutcomeStatus::Completed { output } => Self::Completed {
                output,
                custom_status,
                custom_status_version,
            },
            OutcomeStatus::Failed { details } => Self::Failed {
                details,
                custom_status,
                custom_status_version,
            },
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. })
    }

    pub(crate) fn custom_status_version(&self) -> u64 {
        match self {
            Self::NotFound => 0,
            Self::Running {
                custom_status_version,
                ..
            }
            | Self::Completed {
                custom_status_version,
                ..
            }
            | Self::Failed {
                custom_status_version,
                ..
            } => *custom_status_version,
        }
    }
}

/// What runs under an instance id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestrationDescriptor {
    /// Registered name.
    pub name: String,
    /// Pinned version.
    pub version: String,
    /// The instance that awaits its result.
    pub parent_instance: Option<String>,
    /// The parent's scheduling event.
    pub parent_id: Option<u64>,
}
