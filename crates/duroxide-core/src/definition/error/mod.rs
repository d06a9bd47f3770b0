//! Failures of typed calls: the author's own error comes back as its own type, everything else as a variant.

mod activity;
mod limits;
mod orchestration;
mod undecodable;

#[cfg(test)]
mod tests;

pub use activity::ActivityError;
pub use limits::{Elapsed, Timeout};
pub use orchestration::OrchestrationError;
pub use undecodable::Undecodable;
