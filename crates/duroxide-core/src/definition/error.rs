//! Failures of typed calls: the author's own error comes back as its own type, everything else as a variant.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::misfit;
use crate::codec;
use crate::event::{AppErrorKind, ErrorDetails};

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
    /// The words of the decoder; empty if the text is the engine's own.
    pub error: String,
}

impl Undecodable {
    /// A stable code; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "D0931"
    }

    /// What the engine says itself.
    fn told(text: String) -> Self {
        let error = String::new();
        Self { text, error }
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.error.is_empty() {
            return f.write_str(&self.text);
        }
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

impl Elapsed {
    /// A stable code; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "D0932"
    }
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
            return Self::Undecodable(Undecodable::told(text));
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
    /// The input did not decode for it, or its output or error does not decode here; also a refusal of the engine in words,
    /// such as an id that is taken.
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
                        return Self::Undecodable(Undecodable::told(message));
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

    /// Panics, and values that do not fit, seen by a caller whose error decodes from any text.
    fn is_told_apart<E: DeserializeOwned + PartialEq + fmt::Debug>(own: E) {
        let of = |text: &str| ActivityError::<E>::of(ErrorDetails::activity_failed(text));
        let panicked = of("activity panicked: oh");
        assert!(
            matches!(panicked, ActivityError::Panicked { .. }),
            "{panicked:?}"
        );
        for misfit in [
            misfit::Misfit::Input,
            misfit::Misfit::Output,
            misfit::Misfit::Error,
        ] {
            let text = misfit.of_activity("refund", "a number was expected");
            let told = of(&text);
            assert!(matches!(told, ActivityError::Undecodable(_)), "{told:?}");
        }
        assert_eq!(of("\"no funds\""), ActivityError::Failed(own));
        let child = |text: &str| {
            let (kind, message) = (AppErrorKind::OrchestrationFailed, text.to_owned());
            OrchestrationError::<E>::of(ErrorDetails::Application {
                kind,
                message,
                retryable: false,
            })
        };
        for refusal in [
            "sub-orchestration instance id 'a' already exists",
            "the input of the orchestration does not decode: eof",
        ] {
            let told = child(refusal);
            assert!(
                matches!(told, OrchestrationError::Undecodable(_)),
                "{told:?}"
            );
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct AnyText(String);

    #[test]
    fn the_words_of_the_engine_are_no_error_of_the_author_even_if_they_decode() {
        is_told_apart(codec::decode::<String>("\"no funds\"").unwrap());
        is_told_apart(codec::decode::<AnyText>("\"no funds\"").unwrap());
        is_told_apart(codec::decode::<serde_json::Value>("\"no funds\"").unwrap());
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
