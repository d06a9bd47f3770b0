//! Why an orchestration gave no value.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Undecodable;
use crate::codec;
use crate::definition::misfit;
use crate::event::{AppErrorKind, ErrorDetails};

/// Why an orchestration gave no value: to its parent, or to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OrchestrationError<E> {
    /// It returned this error.
    Failed(E),
    /// A client, or its parent, cancelled or terminated it.
    Cancelled {
        /// The reason that was given with the request.
        reason: String,
    },
    /// It panicked.
    Panicked {
        /// The failure in words.
        message: String,
    },
    /// A turn of it was tried too often.
    Poisoned {
        /// The failure in words.
        message: String,
    },
    /// The time limit that it was started with passed, or the total limit of a child that is tried again.
    TimedOut {
        /// The failure in words.
        message: String,
    },
    /// Its code does not fit its history.
    Diverged {
        /// The report.
        message: String,
    },
    /// The input did not decode for it, or its output or error does not decode here; also a refusal of the engine in
    /// words, such as an id that is taken.
    Undecodable(Undecodable),
    /// The engine could not run it.
    Unavailable {
        /// The failure in words.
        message: String,
    },
}

impl<E> OrchestrationError<E> {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Failed(_) => "D0911",
            Self::Cancelled { .. } => "D0912",
            Self::Panicked { .. } => "D0913",
            Self::Poisoned { .. } => "D0914",
            Self::Diverged { .. } => "D0915",
            Self::Undecodable(what) => what.code(),
            Self::Unavailable { .. } => "D0916",
            Self::TimedOut { .. } => "D0917",
        }
    }

    /// The orchestration's own error, if that is what it is.
    #[must_use]
    pub fn failed(&self) -> Option<&E> {
        match self {
            Self::Failed(own) => Some(own),
            _ => None,
        }
    }

    /// The same failure with another error of the author.
    pub fn map<F>(self, f: impl FnOnce(E) -> F) -> OrchestrationError<F> {
        match self {
            Self::Failed(own) => OrchestrationError::Failed(f(own)),
            Self::Cancelled { reason } => OrchestrationError::Cancelled { reason },
            Self::Panicked { message } => OrchestrationError::Panicked { message },
            Self::Poisoned { message } => OrchestrationError::Poisoned { message },
            Self::TimedOut { message } => OrchestrationError::TimedOut { message },
            Self::Diverged { message } => OrchestrationError::Diverged { message },
            Self::Undecodable(what) => OrchestrationError::Undecodable(what),
            Self::Unavailable { message } => OrchestrationError::Unavailable { message },
        }
    }
}

impl<E: DeserializeOwned> OrchestrationError<E> {
    /// A stored failure of an orchestration whose own error is `E`.
    #[must_use]
    pub fn of(details: ErrorDetails) -> Self {
        let shown = details.display_message();
        match details {
            ErrorDetails::Application { kind, message, .. } => match kind {
                AppErrorKind::Cancelled { reason } => Self::Cancelled { reason },
                AppErrorKind::Panicked => Self::Panicked { message },
                AppErrorKind::ActivityFailed | AppErrorKind::OrchestrationFailed => {
                    if misfit::is_refusal(&message) {
                        return Self::Undecodable(Undecodable::by_engine(message));
                    }
                    match codec::decode(&message) {
                        Ok(own) => Self::Failed(own),
                        Err(error) => Self::Undecodable(Undecodable {
                            text: message,
                            error,
                        }),
                    }
                }
            },
            timed_out if timed_out.is_timed_out() => Self::TimedOut { message: shown },
            ErrorDetails::Infrastructure { .. } => Self::Unavailable { message: shown },
            ErrorDetails::Configuration { .. } => Self::Diverged { message: shown },
            ErrorDetails::Poison { .. } => Self::Poisoned { message: shown },
        }
    }
}

impl<E: fmt::Display> fmt::Display for OrchestrationError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(own) => own.fmt(f),
            Self::Cancelled { reason } => write!(f, "canceled: {reason}"),
            Self::Panicked { message }
            | Self::Poisoned { message }
            | Self::Diverged { message }
            | Self::TimedOut { message }
            | Self::Unavailable { message } => f.write_str(message),
            Self::Undecodable(what) => what.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for OrchestrationError<E> {}

// `?` in functions whose error is plain text, the published form.
impl<E: fmt::Display> From<OrchestrationError<E>> for String {
    fn from(error: OrchestrationError<E>) -> Self {
        error.to_string()
    }
}
