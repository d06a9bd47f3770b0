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
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("the data kept changing: {0}")]
    Contended(String),
}

impl Error {
    pub(super) fn instance_not_found(instance: &str) -> Self {
        let instance = instance.to_owned();
        Self::Refused(Refusal::InstanceNotFound { instance })
    }

    pub(super) fn still_running(instance: String) -> Self {
        Self::Refused(Refusal::StillRunning { instance })
    }

    pub(super) fn event_without_id(instance: &str) -> Self {
        let instance = instance.to_owned();
        Self::Refused(Refusal::EventWithoutId { instance })
    }

    pub(super) fn undecodable(what: String, reason: &(impl ToString + ?Sized)) -> Self {
        Self::Refused(Refusal::undecodable(what, reason))
    }

    /// Whether another instance may fare better: neither is the store away, nor is it closed.
    pub(super) fn is_of_one_instance(&self) -> bool {
        !matches!(
            self,
            Self::Store(StoreError::Retryable(_) | StoreError::Unknown(_))
                | Self::Refused(Refusal::Closed { .. })
        )
    }

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
            ) => ProviderError::permanent(operation, message),
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
