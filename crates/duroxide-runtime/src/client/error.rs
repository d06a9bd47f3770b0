//! What a client call can answer instead of a result.

use duroxide_core::provider::ProviderError;

/// A client call that did not work.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide::providers::sqlite::SqliteProvider;
/// use duroxide::{Client, ClientError};
/// use std::{sync::Arc, time::Duration};
///
/// let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
/// let refused = client.start_orchestration("", "order", "{}").await;
/// assert!(matches!(refused, Err(ClientError::InvalidInput { .. })));
/// let late = client.wait_for_orchestration("nobody", Duration::from_millis(10)).await;
/// assert!(late.is_err_and(|error| error.is_retryable()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The store said no.
    #[error("{0}")]
    Provider(#[from] ProviderError),
    /// The store has no administrative half.
    #[error("Management features not available - provider doesn't implement ProviderAdmin")]
    ManagementNotAvailable,
    /// The caller's mistake.
    #[error("Invalid input: {message}")]
    InvalidInput {
        /// The problem in words.
        message: String,
    },
    /// The deadline passed.
    #[error("Operation timed out")]
    Timeout,
    /// It runs; deleting it needs force.
    #[error("Instance {instance_id} is still running. Use force=true or cancel first.")]
    InstanceStillRunning {
        /// The instance.
        instance_id: String,
    },
    /// It is a child; only whole trees are deleted.
    #[error(
        "Cannot delete sub-orchestration {instance_id} directly. Delete the root orchestration instead."
    )]
    CannotDeleteSubOrchestration {
        /// The instance.
        instance_id: String,
    },
    /// The store has no instance of this id.
    #[error("Instance {instance_id} not found")]
    InstanceNotFound {
        /// The instance.
        instance_id: String,
    },
}

impl ClientError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidInput {
            message: message.into(),
        }
    }

    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Provider(error) => error.code(),
            Self::ManagementNotAvailable => "D0101",
            Self::InvalidInput { .. } => "D0102",
            Self::Timeout => "D0103",
            Self::InstanceStillRunning { .. } => "D0104",
            Self::CannotDeleteSubOrchestration { .. } => "D0105",
            Self::InstanceNotFound { .. } => "D0106",
        }
    }

    /// Whether the same call may work later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Provider(error) => error.is_retryable(),
            Self::Timeout => true,
            Self::ManagementNotAvailable
            | Self::InvalidInput { .. }
            | Self::InstanceStillRunning { .. }
            | Self::CannotDeleteSubOrchestration { .. }
            | Self::InstanceNotFound { .. } => false,
        }
    }
}
