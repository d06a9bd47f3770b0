//! What operators are told.

mod listing;
mod stats;

pub use listing::*;
pub use stats::*;
