//! What can go wrong, and the exit code that says so.

use duroxide_core::provider::ProviderError;
use duroxide_pg::PgError;
use duroxide_runtime::client::ClientError;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments do not fit together, or a value cannot be read.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    /// `start`: the id is taken.
    #[error("{0}")]
    Exists(String),
    /// `signal`, `enqueue`: there is nobody to take it.
    #[error("{0}")]
    Ended(String),
    #[error("the instance did not end in time")]
    Timeout,
    /// `wait`: the instance ended without a value.
    #[error("the instance failed: {0}")]
    InstanceFailed(String),
    #[error("{0}; nothing was changed. Look with --dry-run, then repeat with --yes")]
    NeedsYes(String),
    /// `export`: the file would be replaced.
    #[error("{0} exists; nothing was written. --yes replaces it")]
    WouldReplace(String),
    /// `check`, `export`: something in the store is wrong or cannot be read.
    #[error("{0} problems were found")]
    Problems(usize),
    #[error("cannot open {store}: {why}")]
    Open { store: String, why: String },
    #[error("{0}")]
    Store(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Failure {
    /// The exit code; `docs/cli.md` lists them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Store(_) | Self::Io(_) | Self::Exists(_) | Self::Ended(_) => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::Timeout => 4,
            Self::InstanceFailed(_) => 5,
            Self::NeedsYes(_) | Self::WouldReplace(_) => 6,
            Self::Problems(_) => 7,
            Self::Open { .. } => 8,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::InstanceNotFound { .. } => Self::NotFound(error.to_string()),
            ClientError::Timeout => Self::Timeout,
            ClientError::InvalidInput { message } => Self::Usage(message),
            // The library's words name an argument of its own; here there is an option.
            ClientError::InstanceStillRunning { instance_id } => Self::Store(format!(
                "{instance_id} has not ended: cancel or terminate it first, or delete it all the same with --force"
            )),
            other => Self::Store(other.to_string()),
        }
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Store(format!("cannot write JSON: {error}"))
    }
}
