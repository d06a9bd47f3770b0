#![doc = include_str!("lib.md")]

mod crash;
mod determinism;
mod harness;
mod replay;
mod script;
mod typed;

pub use determinism::{check_determinism, check_execution};
pub use harness::{Harness, HarnessBuilder, block_on};
pub use replay::{ReplayError, Replayed, replay, replay_events};
pub use script::ActivityCall;
pub use typed::activity_context;
