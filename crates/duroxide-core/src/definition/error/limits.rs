//! Time limits that passed: which one, and how long it was.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::ErrorDetails;

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

    pub(super) fn of_operation(operation: &str) -> Option<Self> {
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

// `?` in functions whose error is plain text, the published form.
impl From<Elapsed> for String {
    fn from(elapsed: Elapsed) -> Self {
        elapsed.to_string()
    }
}
