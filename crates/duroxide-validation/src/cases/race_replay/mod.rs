//! The store under a running engine: starts, continue-as-new and races must come out the same on every store.
//!
//! These cases run a real runtime, on real time.

mod engine;
mod handlers;
mod recorded;
mod replay;
mod starts;
mod transition;

pub use replay::*;
pub use starts::*;
pub use transition::*;
