//! Why an adapter call failed, and how that reads at the published edge.

use duroxide_core::provider::ProviderError;
use duroxide_core::provider::rules::Refusal;
use thiserror::Error;

use crate::error::StoreError;

pub(super) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub(super) enum Error {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("Invalid lock token: {0}")]
    InvalidToken(String),
    #[error("Invalid work item type for the {queue} queue: {kind}")]
    WrongKind {
        queue: &'static str,
        kind: &'static str,
    },
    #[error("event_id 0 is not a position in a history")]
    ZeroEventId,
    #[error("{what} does not decode: {reason}")]
    Undecodable { what: String, reason: String },
    #[error("position {position} is outside a batch of {size} messages")]
    NoSuchPosition { position: usize, size: usize },
    #[error("Instance {0} not found")]
    InstanceNotFound(String),
    #[error("Execution {execution} not found for instance {instance}")]
    ExecutionNotFound { instance: String, execution: u64 },
    #[error("Instance {0} is still running; use force to delete it")]
    Running(String),
    #[error("Instance {parent} has a child {child} outside the set; delete the whole tree")]
    WouldOrphan { parent: String, child: String },
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("the data kept changing: {0}")]
    Contended(String),
}

impl Error {
    /// The published form: tells the caller whether to try again.
    pub(super) fn at(self, operation: &str) -> ProviderError {
        let message = self.to_string();
        match self {
            Self::Store(StoreError::Retryable(_) | StoreError::Unknown(_)) | Self::Contended(_) => {
                ProviderError::retryable(operation, message)
            }
            Self::Store(StoreError::LeaseLost(_)) => {
                let words = format!("Invalid lock token: {message}");
                ProviderError::lease_lost(operation, words)
            }
            Self::Refused(refusal) => refusal.into_provider_error(operation),
            Self::InvalidToken(_) => ProviderError::lease_lost(operation, message),
            Self::Store(
                StoreError::Permanent(_) | StoreError::Conflict(_) | StoreError::Corrupt(_),
            )
            | Self::WrongKind { .. }
            | Self::ZeroEventId
            | Self::Undecodable { .. }
            | Self::NoSuchPosition { .. }
            | Self::InstanceNotFound(_)
            | Self::ExecutionNotFound { .. }
            | Self::Running(_)
            | Self::WouldOrphan { .. } => ProviderError::permanent(operation, message),
        }
    }
}

/// Ignores a lease that was lost meanwhile: its new holder goes on.
pub(super) fn unless_lost<T>(result: Result<T>) -> Result<()> {
    match result {
        Ok(_) | Err(Error::Store(StoreError::LeaseLost(_))) => Ok(()),
        Err(error) => Err(error),
    }
}
