//! Failures of typed calls: the author's own error comes back as its own type, everything else as a variant.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::codec;
use crate::event::{AppErrorKind, ErrorDetails};

/// What the text of a worker begins with that reports the panic of an activity.
const PANICKED: &str = "activity panicked";

/// A time limit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Timeout {
    /// One attempt ran too long on its worker, or longer than the policy gives an attempt.
    StartToClose,
    /// All attempts and the waits between them took too long.
    ScheduleToClose,
    /// No worker took the activity in time.
    Queue,
    /// The activity did not say that it lives.
    Heartbeat,
}

impl Timeout {
    /// The word in a stored failure.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::StartToClose => "start-to-close",
            Self::ScheduleToClose => "schedule-to-close",
            Self::Queue => "queue",
            Self::Heartbeat => "heartbeat",
        }
    }

    /// The failure that a worker stores when this limit passed.
    #[must_use]
    pub fn to_details(self, activity: &str, limit: Duration) -> ErrorDetails {
        ErrorDetails::Infrastructure {
            operation: format!("timeout:{}", self.word()),
            message: format!("activity '{activity}' exceeded {limit:?}"),
            retryable: true,
        }
    }

    fn of_operation(operation: &str) -> Option<Self> {
        let word = operation.strip_prefix("timeout:")?;
        [
            Self::StartToClose,
            Self::ScheduleToClose,
            Self::Queue,
            Self::Heartbeat,
        ]
        .into_iter()
        .find(|timeout| timeout.word() == word)
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A stored text that is not a value of the type asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecodable {
    /// The text.
    pub text: String,
    /// What the decoder says.
    pub error: String,
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` does not decode: {}", self.text, self.error)
    }
}

impl Error for Undecodable {}

/// A time limit that passed before the work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elapsed {
    /// The limit.
    pub limit: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?}", self.limit)
    }
}

impl Error for Elapsed {}

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
        /// Which one.
        which: Timeout,
    },
    /// The activity was cancelled.
    Cancelled {
        /// What was said.
        reason: String,
    },
    /// Workers died with it, or gave it up, too often.
    Poisoned {
        /// In words.
        message: String,
    },
    /// The activity panicked.
    Panicked {
        /// In words.
        message: String,
    },
    /// The input did not decode for the activity, or its output or error does not decode here.
    Undecodable(Undecodable),
    /// The engine could not have the activity run.
    Unavailable {
        /// In words.
        message: String,
        /// Whether trying again may help.
        retryable: bool,
    },
}

impl<E> ActivityError<E> {
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

    fn of_text(text: String) -> Self {
        match codec::decode(&text) {
            Ok(own) => Self::Failed(own),
            Err(_) if text.starts_with(PANICKED) => Self::Panicked { message: text },
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

/// Why an orchestration gave no value: to its parent, or to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OrchestrationError<E> {
    /// It returned this error.
    Failed(E),
    /// Somebody cancelled or terminated it.
    Cancelled {
        /// What was said.
        reason: String,
    },
    /// It panicked.
    Panicked {
        /// In words.
        message: String,
    },
    /// A turn of it was tried too often.
    Poisoned {
        /// In words.
        message: String,
    },
    /// Its code does not fit its history.
    Diverged {
        /// The report.
        message: String,
    },
    /// The input did not decode for it, or its output or error does not decode here; also a refusal of the engine in words,
    /// such as an id that is taken.
    Undecodable(Undecodable),
    /// The engine could not run it.
    Unavailable {
        /// In words.
        message: String,
    },
}

impl<E> OrchestrationError<E> {
    /// The orchestration's own error, if that is what it is.
    #[must_use]
    pub fn failed(&self) -> Option<&E> {
        match self {
            Self::Failed(own) => Some(own),
            _ => None,
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
                    match codec::decode(&message) {
                        Ok(own) => Self::Failed(own),
                        Err(error) => Self::Undecodable(Undecodable {
                            text: message,
                            error,
                        }),
                    }
                }
            },
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
            | Self::Unavailable { message } => f.write_str(message),
            Self::Undecodable(what) => what.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for OrchestrationError<E> {}

// `?` in functions whose error is plain text, the published form.
impl<E: fmt::Display> From<ActivityError<E>> for String {
    fn from(error: ActivityError<E>) -> Self {
        error.to_string()
    }
}

impl<E: fmt::Display> From<OrchestrationError<E>> for String {
    fn from(error: OrchestrationError<E>) -> Self {
        error.to_string()
    }
}

impl From<Elapsed> for String {
    fn from(elapsed: Elapsed) -> Self {
        elapsed.to_string()
    }
}

impl From<Undecodable> for String {
    fn from(what: Undecodable) -> Self {
        what.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Own {
        Declined { code: u32 },
    }

    #[test]
    fn an_error_of_the_author_comes_back_as_its_own_type() {
        let text = codec::encode(&Own::Declined { code: 7 }).unwrap();
        let details = ErrorDetails::activity_failed(text);
        let error = ActivityError::<Own>::of(details);
        assert_eq!(error, ActivityError::Failed(Own::Declined { code: 7 }));
    }

    #[test]
    fn a_panic_and_a_stranger_are_told_from_an_error() {
        let of = |text: &str| ActivityError::<Own>::of(ErrorDetails::activity_failed(text));
        assert!(matches!(
            of("activity panicked: oh"),
            ActivityError::Panicked { .. }
        ));
        assert!(matches!(of("who knows"), ActivityError::Undecodable(_)));
    }

    #[test]
    fn every_time_limit_comes_back_as_itself() {
        for which in [
            Timeout::StartToClose,
            Timeout::ScheduleToClose,
            Timeout::Queue,
            Timeout::Heartbeat,
        ] {
            let details = which.to_details("work", Duration::from_secs(1));
            assert_eq!(
                ActivityError::<Own>::of(details),
                ActivityError::TimedOut { which }
            );
        }
    }
}
