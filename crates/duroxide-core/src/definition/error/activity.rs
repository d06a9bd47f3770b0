//! Why a call of an activity gave no value.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Timeout, Undecodable};
use crate::codec;
use crate::definition::misfit;
use crate::event::{AppErrorKind, ErrorDetails};

/// Why a call of an activity gave no value.
///
/// ```
/// use duroxide_core::{ActivityError, Timeout};
///
/// fn in_words(error: &ActivityError<String>) -> String {
///     match error {
///         ActivityError::Failed(own) => format!("the activity said: {own}"),
///         ActivityError::TimedOut { which: Timeout::Queue } => "no worker took it".to_owned(),
///         other => other.to_string(),
///     }
/// }
/// assert_eq!(in_words(&ActivityError::Failed("no".to_owned())), "the activity said: no");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ActivityError<E> {
    /// The activity returned this error.
    Failed(E),
    /// A time limit of the call passed.
    TimedOut {
        /// The limit that passed.
        which: Timeout,
    },
    /// The activity was cancelled.
    Cancelled {
        /// The reason that was given with the request.
        reason: String,
    },
    /// Workers died with it, or gave it up, too often.
    Poisoned {
        /// The failure in words.
        message: String,
    },
    /// The activity panicked.
    Panicked {
        /// The failure in words.
        message: String,
    },
    /// The input did not decode for the activity, or its output or error does not decode here.
    Undecodable(Undecodable),
    /// The engine could not have the activity run.
    Unavailable {
        /// The failure in words.
        message: String,
        /// Whether trying again may help.
        retryable: bool,
    },
}

impl<E> ActivityError<E> {
    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_core::ActivityError;
    /// assert_eq!(ActivityError::Failed("no").code(), "D0901");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Failed(_) => "D0901",
            Self::TimedOut { .. } => "D0902",
            Self::Cancelled { .. } => "D0903",
            Self::Poisoned { .. } => "D0904",
            Self::Panicked { .. } => "D0905",
            Self::Undecodable(what) => what.code(),
            Self::Unavailable { .. } => "D0906",
        }
    }

    /// The activity's own error, if that is what it is.
    #[must_use]
    pub fn failed(&self) -> Option<&E> {
        match self {
            Self::Failed(own) => Some(own),
            _ => None,
        }
    }

    /// The same failure with another error of the author.
    pub fn map<F>(self, f: impl FnOnce(E) -> F) -> ActivityError<F> {
        match self {
            Self::Failed(own) => ActivityError::Failed(f(own)),
            Self::TimedOut { which } => ActivityError::TimedOut { which },
            Self::Cancelled { reason } => ActivityError::Cancelled { reason },
            Self::Poisoned { message } => ActivityError::Poisoned { message },
            Self::Panicked { message } => ActivityError::Panicked { message },
            Self::Undecodable(what) => ActivityError::Undecodable(what),
            Self::Unavailable { message, retryable } => {
                ActivityError::Unavailable { message, retryable }
            }
        }
    }
}

impl<E: DeserializeOwned> ActivityError<E> {
    /// A stored failure of an activity whose own error is `E`.
    #[must_use]
    pub fn of(details: ErrorDetails) -> Self {
        let message = details.display_message();
        match details {
            ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { reason },
                ..
            } => Self::Cancelled { reason },
            ErrorDetails::Application {
                kind: AppErrorKind::Panicked,
                message,
                ..
            } => Self::Panicked { message },
            ErrorDetails::Application { message, .. } => Self::of_text(message),
            ErrorDetails::Infrastructure {
                operation,
                retryable,
                ..
            } => match Timeout::of_operation(&operation) {
                Some(which) => Self::TimedOut { which },
                None => Self::Unavailable { message, retryable },
            },
            ErrorDetails::Configuration { .. } => Self::Unavailable {
                message,
                retryable: false,
            },
            ErrorDetails::Poison { .. } => Self::Poisoned { message },
        }
    }

    /// The engine's own words come first: some errors decode from any text.
    fn of_text(text: String) -> Self {
        if misfit::is_panic(&text) {
            return Self::Panicked { message: text };
        }
        if misfit::is_misfit(&text) {
            return Self::Undecodable(Undecodable::by_engine(text));
        }
        match codec::decode(&text) {
            Ok(own) => Self::Failed(own),
            Err(error) => Self::Undecodable(Undecodable { text, error }),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ActivityError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(own) => own.fmt(f),
            Self::TimedOut { which } => write!(f, "timeout: {which}"),
            Self::Cancelled { reason } => write!(f, "canceled: {reason}"),
            Self::Poisoned { message }
            | Self::Panicked { message }
            | Self::Unavailable { message, .. } => f.write_str(message),
            Self::Undecodable(what) => what.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for ActivityError<E> {}

// `?` in functions whose error is plain text, the published form.
impl<E: fmt::Display> From<ActivityError<E>> for String {
    fn from(error: ActivityError<E>) -> Self {
        error.to_string()
    }
}
