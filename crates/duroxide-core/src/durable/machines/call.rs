//! An operation with one answer: an activity, a timer, a child, a positional wait.
//!
//! Issued by the code, opened by its recorded schedule event, answered by its completion, taken by the code. It can be
//! dropped at any point before it is taken; a dropped call still waits for its schedule event, and then swallows its
//! answer.
//!
//! ```text
//!              recorded                  answered                   take
//!  Issued ────────────────► Open ───────────────────────► Answered ─────────► Taken
//!     │ dropped               │ dropped                       │ dropped
//!     ▼                       ▼                               ▼
//!  DroppedIssued ─────────► Dropped, not answered ────────► Dropped, answered
//!              recorded                         answered
//! ```
//!
//! - The code of the author, as its future is polled (`take`) or dropped (`dropped`): a call is issued in `Cell::call`,
//!   taken in `Operations::poll`, dropped in `Operations::drop_future`.
//! - Replay, as it applies events in `journal.rs`: a decision moves the call with `recorded`, and an arrival with
//!   `answered` (signals too, in `Operations::signal`).
//! - A read of a queue goes from Open to Taken without an answer: its mailbox has the message.
//! - A watch for a request to cancel has no schedule event. It begins in Open, and `Operations::request_cancellation`
//!   answers it.

use crate::event::ErrorDetails;

/// What a durable future resolves to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// A result of an activity or a child.
    Outcome(Result<String, Box<ErrorDetails>>),
    /// A payload of a signal or a queue message.
    Data(String),
    /// A timer fired.
    Fired,
}

impl Resolution {
    /// The resolution of an operation that answers with a result.
    pub(crate) fn into_outcome(self) -> Result<String, String> {
        self.into_details()
            .map_err(|details| details.display_message())
    }

    /// The resolution of an operation that answers with a result, the failure as it is stored.
    pub(crate) fn into_details(self) -> Result<String, Box<ErrorDetails>> {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Data(data) => Ok(data),
            Self::Fired => Ok(String::new()),
        }
    }

    /// The resolution of an operation that answers with a payload.
    pub(crate) fn into_data(self) -> String {
        match self {
            Self::Data(data) | Self::Outcome(Ok(data)) => data,
            Self::Outcome(Err(details)) => details.display_message(),
            Self::Fired => String::new(),
        }
    }
}

/// Where a call stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The code asked for it; no event yet.
    Issued,
    /// Recorded; no answer yet.
    Open { id: u64 },
    /// Answered; the code has not looked yet.
    Answered { id: u64, with: Resolution },
    /// The code has its answer.
    Taken { id: u64 },
    /// The code dropped it before it was recorded.
    DroppedIssued,
    /// The code dropped it; `answered` says whether its answer came before or after.
    Dropped { id: u64, answered: bool },
}

/// An answer for a call that waits for none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotOpen;

impl Call {
    /// The schedule event was recorded.
    pub(crate) fn recorded(self, id: u64) -> Self {
        match self {
            Self::Issued => Self::Open { id },
            Self::DroppedIssued => Self::Dropped {
                id,
                answered: false,
            },
            // A command is recorded once: the journal removes it when it matches.
            other => other,
        }
    }

    /// The answer arrived.
    pub(crate) fn answered(self, with: Resolution) -> Result<Self, NotOpen> {
        match self {
            Self::Open { id } => Ok(Self::Answered { id, with }),
            Self::Dropped {
                id,
                answered: false,
            } => Ok(Self::Dropped { id, answered: true }),
            Self::Issued
            | Self::DroppedIssued
            | Self::Answered { .. }
            | Self::Taken { .. }
            | Self::Dropped { answered: true, .. } => Err(NotOpen),
        }
    }

    /// The code looks for its answer.
    pub(crate) fn take(self) -> (Self, Option<Resolution>) {
        match self {
            Self::Answered { id, with } => (Self::Taken { id }, Some(with)),
            other => (other, None),
        }
    }

    /// The code dropped the future before it resolved.
    pub(crate) fn dropped(self) -> Self {
        match self {
            Self::Issued => Self::DroppedIssued,
            Self::Open { id } => Self::Dropped {
                id,
                answered: false,
            },
            Self::Answered { id, .. } => Self::Dropped { id, answered: true },
            other @ (Self::Taken { .. } | Self::DroppedIssued | Self::Dropped { .. }) => other,
        }
    }

    /// Whether a completion may still arrive for it.
    pub(crate) fn awaits_answer(&self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Dropped {
                    answered: false,
                    ..
                }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_once() {
        let call = Call::Issued.recorded(2);
        let call = call.answered(Resolution::Fired).unwrap();
        let (call, taken) = call.take();
        assert_eq!(taken, Some(Resolution::Fired));
        assert_eq!(call.answered(Resolution::Fired), Err(NotOpen));
    }

    #[test]
    fn a_dropped_call_swallows_its_answer() {
        let call = Call::Issued.recorded(2).dropped();
        let call = call.answered(Resolution::Fired).unwrap();
        assert_eq!(call.take().1, None);
    }

    #[test]
    fn a_call_dropped_before_it_was_recorded_stays_dropped() {
        let call = Call::Issued.dropped().recorded(7);
        assert_eq!(
            call,
            Call::Dropped {
                id: 7,
                answered: false
            }
        );
    }
}
