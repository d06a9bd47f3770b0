//! Why something failed, as it is stored and as it is shown.

use serde::{Deserialize, Serialize};

/// The operation of a failure by a time limit of the whole orchestration.
const TIME_IS_UP: &str = "timeout:execution";

/// Why an activity or an orchestration failed.
///
/// ```
/// use duroxide_core::{AppErrorKind, ErrorDetails};
/// let details = ErrorDetails::Application {
///     kind: AppErrorKind::Cancelled { reason: "asked".into() },
///     message: String::new(),
///     retryable: false,
/// };
/// assert_eq!(details.category(), "application");
/// assert_eq!(details.display_message(), "canceled: asked");
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum ErrorDetails {
    /// The store or the engine could not do its part.
    Infrastructure {
        /// The operation that was attempted.
        operation: String,
        /// The failure in words.
        message: String,
        /// Whether trying again may help.
        retryable: bool,
    },
    /// Code and history, or code and configuration, do not fit together.
    Configuration {
        /// In which way.
        kind: ConfigErrorKind,
        /// The subject; may be empty.
        resource: String,
        /// The explanation.
        message: Option<String>,
    },
    /// The author's code failed.
    Application {
        /// In which way.
        kind: AppErrorKind,
        /// The author's words.
        message: String,
        /// Always false; kept because it is part of the stored format.
        retryable: bool,
    },
    /// Something was tried too often.
    Poison {
        /// Number of attempts.
        attempt_count: u32,
        /// The largest number of attempts.
        max_attempts: u32,
        /// What it was.
        message_type: PoisonMessageType,
        /// The thing itself, as text.
        message: String,
    },
}

/// Ways in which code and history or configuration can disagree.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum ConfigErrorKind {
    /// The code decided something else than what is recorded, or waits for something that cannot be recorded.
    Nondeterminism,
}

/// Ways in which the author's code can fail.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum AppErrorKind {
    /// An activity returned an error or panicked.
    ActivityFailed,
    /// An orchestration returned an error or broke a limit.
    OrchestrationFailed,
    /// An orchestration panicked.
    Panicked,
    /// A client, or its parent, cancelled the orchestration.
    Cancelled {
        /// The reason that the caller gave.
        reason: String,
    },
}

/// What was tried too often.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum PoisonMessageType {
    /// A turn of an orchestration.
    Orchestration {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
    },
    /// An activity.
    Activity {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
        /// Registered name.
        activity_name: String,
        /// Scheduling event id.
        activity_id: u64,
    },
    /// A history that does not decode.
    FailedDeserialization {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
        /// The decoder's words.
        error: String,
    },
}

impl ErrorDetails {
    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_core::ErrorDetails;
    /// assert_eq!(ErrorDetails::cancelled("enough").code(), "D0306");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Infrastructure { operation, .. } if operation == TIME_IS_UP => "D0310",
            Self::Infrastructure { .. } => "D0301",
            Self::Configuration {
                kind: ConfigErrorKind::Nondeterminism,
                ..
            } => "D0302",
            Self::Application { kind, .. } => match kind {
                AppErrorKind::ActivityFailed => "D0303",
                AppErrorKind::OrchestrationFailed => "D0304",
                AppErrorKind::Panicked => "D0305",
                AppErrorKind::Cancelled { .. } => "D0306",
            },
            Self::Poison { message_type, .. } => match message_type {
                PoisonMessageType::Orchestration { .. } => "D0307",
                PoisonMessageType::Activity { .. } => "D0308",
                PoisonMessageType::FailedDeserialization { .. } => "D0309",
            },
        }
    }

    /// `infrastructure`, `configuration`, `application` or `poison`.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Infrastructure { .. } => "infrastructure",
            Self::Configuration { .. } => "configuration",
            Self::Application { .. } => "application",
            Self::Poison { .. } => "poison",
        }
    }

    /// Whether the failure says that trying again may help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Infrastructure { retryable, .. } | Self::Application { retryable, .. } => {
                *retryable
            }
            Self::Configuration { .. } | Self::Poison { .. } => false,
        }
    }

    /// The failure in one line, as authors and operators see it.
    #[must_use]
    pub fn display_message(&self) -> String {
        match self {
            Self::Infrastructure {
                operation, message, ..
            } if operation == TIME_IS_UP => format!("timed out: {message}"),
            Self::Infrastructure {
                operation, message, ..
            } => format!("infrastructure:{operation}: {message}"),
            Self::Configuration {
                kind: ConfigErrorKind::Nondeterminism,
                resource,
                message,
            } => match message {
                Some(message) => format!("nondeterministic: {message}"),
                None => format!("nondeterministic in {resource}"),
            },
            Self::Application { kind, message, .. } => match kind {
                AppErrorKind::Cancelled { reason } => format!("canceled: {reason}"),
                AppErrorKind::Panicked => format!("orchestration panicked: {message}"),
                AppErrorKind::ActivityFailed | AppErrorKind::OrchestrationFailed => message.clone(),
            },
            Self::Poison {
                attempt_count,
                max_attempts,
                message_type,
                ..
            } => message_type.display(*attempt_count, *max_attempts),
        }
    }

    /// A failure that the author's code may handle as a value, as opposed to one that ends the orchestration.
    #[must_use]
    pub fn is_application(&self) -> bool {
        matches!(self, Self::Application { .. })
    }

    /// Whether the orchestration was cancelled or terminated.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Application {
                kind: AppErrorKind::Cancelled { .. },
                ..
            }
        )
    }

    /// Whether the time limit of the orchestration passed.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Self::Infrastructure { operation, .. } if operation == TIME_IS_UP)
    }

    /// An orchestration that failed with the author's own words.
    #[must_use]
    pub fn orchestration_failed(message: impl Into<String>) -> Self {
        Self::Application {
            kind: AppErrorKind::OrchestrationFailed,
            message: message.into(),
            retryable: false,
        }
    }

    /// An activity that failed with the author's own words.
    #[must_use]
    pub fn activity_failed(message: impl Into<String>) -> Self {
        Self::Application {
            kind: AppErrorKind::ActivityFailed,
            message: message.into(),
            retryable: false,
        }
    }

    /// A cancelled orchestration.
    #[must_use]
    pub fn cancelled(reason: impl Into<String>) -> Self {
        Self::Application {
            kind: AppErrorKind::Cancelled {
                reason: reason.into(),
            },
            message: String::new(),
            retryable: false,
        }
    }

    /// An orchestration whose time was up.
    #[must_use]
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::Infrastructure {
            operation: TIME_IS_UP.to_owned(),
            message: message.into(),
            retryable: false,
        }
    }

    /// An orchestration that panicked.
    #[must_use]
    pub fn panicked(message: impl Into<String>) -> Self {
        Self::Application {
            kind: AppErrorKind::Panicked,
            message: message.into(),
            retryable: false,
        }
    }

    /// Code and history that do not fit together.
    #[must_use]
    pub fn nondeterminism(message: impl Into<String>) -> Self {
        Self::Configuration {
            kind: ConfigErrorKind::Nondeterminism,
            resource: String::new(),
            message: Some(message.into()),
        }
    }
}

impl PoisonMessageType {
    fn display(&self, attempts: u32, max: u32) -> String {
        match self {
            Self::Orchestration { instance, .. } => {
                format!("poison: orchestration {instance} exceeded {attempts} attempts (max {max})")
            }
            Self::Activity {
                activity_name,
                activity_id,
                ..
            } => format!(
                "poison: activity {activity_name}#{activity_id} exceeded {attempts} attempts (max {max})"
            ),
            Self::FailedDeserialization {
                instance, error, ..
            } => format!(
                "poison: orchestration {instance} history deserialization failed after {attempts} attempts (max {max}): {error}"
            ),
        }
    }
}
