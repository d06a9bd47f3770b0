//! The claim that a turn is working on. In: what the store said when it handed the turn out. Out: its lease, its place
//! in memory, and what the turn has to know of both. Asks the store nothing: the dispatcher claims.

use duroxide_core::provider::Incarnation;

use crate::engine::OpenTurn;
use crate::leases::Held;

/// A claim that is being worked on.
pub(super) struct ClaimInHand<'a> {
    pub(super) worker_id: &'a str,
    pub(super) lease: Held,
    pub(super) memory: OpenTurn,
    /// As the claim reported it; see [`stored_incarnation`](Self::stored_incarnation).
    pub(super) incarnation: Option<Incarnation>,
    /// Whether the instance has a history. Before that every claim draws another incarnation.
    pub(super) is_born: bool,
    /// The largest attempt count of the messages.
    pub(super) attempt: u32,
    /// Whether the claim came with the history.
    pub(super) is_loaded: bool,
}

impl ClaimInHand<'_> {
    /// The incarnation that the store keeps; none before the instance has a history.
    pub(super) fn stored_incarnation(&self) -> Option<Incarnation> {
        self.incarnation.filter(|_| self.is_born)
    }
}
