#![doc = include_str!("lib.md")]

mod crash;
mod determinism;
mod harness;
mod manifest;
mod replay;
mod script;
mod typed;
mod verify;

pub use determinism::{check_determinism, check_execution};
pub use harness::{Harness, HarnessBuilder, block_on};
pub use manifest::{assert_manifest, changes as manifest_changes};
pub use replay::{ReplayError, Replayed, replay, replay_events};
pub use script::ActivityCall;
pub use typed::activity_context;
pub use verify::{HandlerVersion, StoreReport, verify_store};
