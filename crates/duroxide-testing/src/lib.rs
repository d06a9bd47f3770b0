//! Testing orchestrations: in virtual time, with stubbed activities, through crashes, and against recorded histories.
//!
//! A [`Harness`] runs the real engine on the in-memory store under tokio's paused time: an orchestration that sleeps for
//! thirty days ends in milliseconds. [`replay`] checks a recorded history against today's code, and
//! [`check_determinism`] runs every turn of it more than once, with other hash seeds, and compares what it decides.

mod crash;
mod determinism;
mod harness;
mod replay;
mod script;

pub use determinism::check_determinism;
pub use harness::{Harness, HarnessBuilder, block_on};
pub use replay::{ReplayError, Replayed, replay, replay_events};
pub use script::ActivityCall;
