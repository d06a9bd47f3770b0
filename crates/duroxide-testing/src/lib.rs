#![doc = include_str!("lib.md")]

mod builder;
mod courier;
mod determinism;
mod ending;
mod fate;
mod faults;
mod harness;
mod manifest;
mod many;
mod replay;
#[doc(hidden)]
pub mod rng;
#[doc(hidden)]
pub mod sched;
mod script;
mod seed;
mod stuck;
mod typed;
mod verify;
mod workers;

pub use builder::HarnessBuilder;
pub use determinism::{check_determinism, check_execution};
pub use fate::Moment;
pub use harness::{Harness, block_on};
pub use manifest::{assert_manifest, changes as manifest_changes};
pub use replay::{Misfit, ReplayError, Replayed, replay, replay_all, replay_events, replay_with};
pub use script::ActivityCall;
pub use typed::activity_context;
pub use verify::{HandlerVersion, StoreReport, verify_store};
