//! Rewinding a failed execution: its record up to a point becomes the beginning of another execution, which goes on
//! from there. In: a history that ends with a failure. Out: the history of the next execution, the messages it is sent,
//! and the work that is asked for anew. Pure: nothing is written here, and the failed record stays as it is.
//!
//! **What is kept.** A replay depends on the order of events alone, so every beginning of a history is a history: the
//! point is one event, and what stands before it is kept as it is, ids included. What stands at the point and after it
//! is dropped, because the code may decide anything once an earlier answer is another one; with it goes what the code
//! did about the failure, such as compensation.
//!
//! **What comes again.** Answers in the dropped part that are successes of operations in the kept part come again, in
//! their order, as do queue messages: they stand in the new record behind the kept part. A signal of the dropped part
//! that had reached a wait is carried, and reaches the first wait of its name. Operations of the kept part that have no
//! such answer are asked for anew: those that failed, and those that the end of the failed execution cancelled. A
//! request to cancel in the dropped part is dropped with it.
//!
//! **Where the point is.** See [`RewindPoint`].

mod message;
mod plan;
mod point;
mod signals;

pub use message::{FailureMark, RewindMessage};
pub use plan::{Child, ChildStanding, RepeatedWork, Rewind, plan};

/// Where a record is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RewindPoint {
    /// At what made the execution fail, as far as its record shows it:
    ///
    /// - of one that was cancelled or terminated, at the request;
    /// - of one that ended with an error of its code or with that of an activity or a child, at a failed result of an
    ///   activity or child: the last one that says the same as the end, else the last one; and before it as far as
    ///   nothing is dropped that was asked for after a failure and succeeded, or was shown to the code, so that calls
    ///   that failed side by side, and all attempts of one call, are asked for anew. A result that was overcome does
    ///   not count: the same activity or child with the same input was asked for after it and succeeded;
    /// - of any other (poison, a panic, divergence, a limit, an error without a failed result), at the end: behind the
    ///   last thing that came in from outside, and behind the last child or detached orchestration that was started.
    #[default]
    Failure,
    /// At the end, whatever made it fail.
    End,
    /// At this event, which is the first one to be dropped.
    Event(u64),
}

/// Why there is nothing to rewind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRewind {
    /// There is no record.
    #[error("it has no history")]
    NoHistory,
    /// It has not ended.
    #[error("it runs; only an instance that has failed can be retried")]
    Running,
    /// It ended with a value.
    #[error("it completed; only an instance that has failed can be retried")]
    Completed,
    /// The execution gave way to another one.
    #[error("it continued as new; only an instance that has failed can be retried")]
    ContinuedAsNew,
    /// There is no such event that could be dropped.
    #[error("its execution {execution_id} has no event {event_id} that a retry can begin at")]
    NoSuchEvent {
        /// The execution.
        execution_id: u64,
        /// The event that was asked for.
        event_id: u64,
    },
}

#[cfg(test)]
mod tests;
