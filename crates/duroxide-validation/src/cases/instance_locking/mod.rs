//! One holder per instance, and each message belongs to the claim that saw it.

mod contention;
mod exclusive;
mod tagging;

pub use contention::*;
pub use exclusive::*;
pub use tagging::*;
