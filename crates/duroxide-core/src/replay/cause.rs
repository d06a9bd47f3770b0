//! What made an execution fail, as opposed to what the failure says.

/// What made an execution fail.
///
/// The details of a failure do not show it: a parent that ends with the failure of its child carries the child's
/// details, and a message that fits no schedule says "nondeterministic" like code that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailedBy {
    /// The code returned an error.
    Code,
    /// The code panicked, or was used in a way that counts as a panic.
    Panic,
    /// A limit was broken.
    Limit,
    /// A client, or its parent, cancelled or terminated it.
    Cancellation,
    /// Its time was up.
    Timeout,
    /// A failure of an activity or a child that the code does not get to see.
    Operation,
    /// The code decided something else than what is recorded. Code that fits the history would go on.
    Divergence,
    /// The code waits for something that is not durable. Code that does not would go on.
    NotDurable,
    /// A completion came that fits no schedule. Without that message the execution would go on.
    StrayCompletion,
    /// It was ended without running its code.
    Decree,
}

impl FailedBy {
    /// Whether other code could go on from the same history.
    #[must_use]
    pub fn is_cured_by_other_code(self) -> bool {
        matches!(self, Self::Divergence | Self::NotDurable)
    }
}
