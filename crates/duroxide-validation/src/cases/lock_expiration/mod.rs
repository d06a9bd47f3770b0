//! Leases end by themselves, are extended only while they hold, and can be given back.

mod instance;
mod worker;

pub use instance::*;
pub use worker::*;
