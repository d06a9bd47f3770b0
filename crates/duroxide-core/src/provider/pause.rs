//! Pausing an instance: what an operator asks of a store, and what becomes of it.

/// What became of a request to pause or resume an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pausing {
    /// It is so from here on.
    Done,
    /// It was so already; since when an instance is paused does not change.
    Unchanged,
    /// There is no such instance, or no node has run its first turn yet.
    NoSuchInstance,
    /// It has ended: there is nothing to pause.
    Ended,
}
