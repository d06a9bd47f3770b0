//! How a store says that something did not work, and what the caller can do about it.

use thiserror::Error;

/// A store call that failed. Nothing of a failed call is stored, except where [`Unknown`](Self::Unknown) says that this
/// is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The same call may succeed later: the store is busy or out of reach.
    #[error("{0}")]
    Retryable(String),
    /// The store broke down while it wrote: the call took effect or it did not. A caller that tries again guards
    /// against both.
    #[error("{0}; whether it took effect is not known")]
    Unknown(String),
    /// The same call will fail again.
    #[error("{0}")]
    Permanent(String),
    /// Another caller wrote first: a guard does not hold, or an event with that number exists.
    #[error("{0}")]
    Conflict(String),
    /// The lease is unknown, expired or taken over.
    #[error("lease {0} is unknown or expired")]
    LeaseLost(String),
    /// Stored data does not decode.
    #[error("{0}")]
    Corrupt(String),
}

impl StoreError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Retryable(_) => "D0601",
            Self::Unknown(_) => "D0602",
            Self::Permanent(_) => "D0603",
            Self::Conflict(_) => "D0604",
            Self::LeaseLost(_) => "D0605",
            Self::Corrupt(_) => "D0606",
        }
    }
}
