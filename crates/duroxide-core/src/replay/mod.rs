//! Replay: history in, decisions out. Never performs one, never waits, never asks a clock.
//!
//! An [`Execution`] is one run of a handler. It is loaded from history or begun afresh, then driven turn by turn. A
//! turn that finds its execution in memory continues it; a turn that does not replays it first. Both go through the
//! same steps in the same order (`execution.rs`), which is why both record the same events.

mod admission;
mod cause;
mod divergence;
mod earlier_signals;
mod ending;
mod execution;
mod forced;
mod handler_future;
mod host;
mod journal;
mod limits;
mod notes;
mod replaying;
mod start;
mod turn;
mod turn_result;
mod turn_state;
mod view;

pub use crate::durable::InPlaceFuture;
pub use crate::durable::{
    SYSCALL_ACTIVITY_CLAIMED, SYSCALL_AWAIT_INSTANCE, SYSCALL_GET_KV_VALUE, SYSCALL_NEW_GUID,
    SYSCALL_PATCHED, SYSCALL_PREFIX, SYSCALL_RUN_PREFIX, SYSCALL_SEND, SYSCALL_UTC_NOW_MS,
};
pub use cause::FailedBy;
pub use divergence::Divergence;
pub use execution::{Execution, count_turns, trace_of_execution};
pub use forced::{EndOf, fail_without_replay, terminate_without_replay};
pub use host::{HostCall, HostRequest};
pub use limits::TurnLimits;
pub use notes::{ChildEnded, Notes, Stray, Unused};
pub use replaying::is_replaying_here;
pub use start::{ExecutionStart, ParentLink};
pub use turn_result::{ChildCancel, Outcome, Progress, Turn};
