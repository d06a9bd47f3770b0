//! What the group keeps for one of the two queues.

use tokio::time::Instant;

use super::claims::Claims;
use super::lanes::Lanes;
use super::marks::Marks;

/// A queue as the claims of this process see it.
pub(super) struct Side<A, T, N> {
    /// The claims that wait.
    pub(super) claims: Claims<A, T>,
    /// What they may claim from.
    pub(super) lanes: Lanes<N>,
    /// Where they begin.
    pub(super) marks: Marks,
}

impl<A, T, N> Side<A, T, N> {
    /// `always`: lanes that every caller may claim from.
    pub(super) fn new(always: &[&str], now: Instant) -> Self {
        Self {
            claims: Claims::default(),
            lanes: Lanes::new(always),
            marks: Marks::new(now),
        }
    }
}
