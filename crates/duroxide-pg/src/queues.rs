//! Which queues may have something new to claim: turns, activities, or both.

/// Where something may have become claimable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) turns: bool,
    pub(crate) work: bool,
}

impl Queues {
    pub(crate) const TURNS: Self = Self {
        turns: true,
        work: false,
    };
    pub(crate) const WORK: Self = Self {
        turns: false,
        work: true,
    };
    pub(crate) const BOTH: Self = Self {
        turns: true,
        work: true,
    };
}
