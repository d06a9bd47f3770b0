//! The status of an execution as text, as commits carry it and stores keep it.

use std::fmt;

/// The status of an execution.
///
/// ```
/// use duroxide_core::provider::ExecutionStatus;
/// assert_eq!(ExecutionStatus::ContinuedAsNew.as_str(), "ContinuedAsNew");
/// assert_eq!(ExecutionStatus::parse("Failed"), Some(ExecutionStatus::Failed));
/// assert_eq!(ExecutionStatus::parse("Lost"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionStatus {
    /// Not ended.
    Running,
    /// Ended with a value.
    Completed,
    /// Ended without a value.
    Failed,
    /// Ended; the next execution of the instance goes on.
    ContinuedAsNew,
}

impl ExecutionStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::ContinuedAsNew,
    ];

    /// The text that commits carry and stores keep.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::ContinuedAsNew => "ContinuedAsNew",
        }
    }

    /// The status of this text; `None` if it is none of them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the execution has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        !matches!(self, Self::Running)
    }
}

impl fmt::Display for ExecutionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
