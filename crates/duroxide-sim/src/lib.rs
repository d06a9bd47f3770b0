//! A whole deployment of Duroxide in one thread and in virtual time. In: a seed. Out: what went wrong, or nothing.
//!
//! Nodes are real runtimes on one store in memory. The seed decides the programs, the faults, and the order in which
//! all futures are polled, so a seed that fails does so again. `docs/reliability.md` has the commands.
#![expect(
    missing_docs,
    reason = "a tool of this repository; fields say what they are"
)]

pub mod check;
pub mod client;
#[cfg(duroxide_mutants)]
pub mod defects;
pub mod effects;
pub mod faults;
pub mod generate;
pub mod handler;
mod latest;
pub mod leases;
pub mod many;
pub mod model;
mod newer;
pub mod node;
mod operations;
pub mod plan;
pub mod program;
mod shapes;
pub mod shrink;
pub mod sim;
pub mod store;
mod submit;
pub mod world;

pub use duroxide_testing::{rng, sched};
