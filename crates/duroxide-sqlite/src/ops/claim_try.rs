//! What one try to claim brought: the answer of `fetch_turn` and `fetch_work`, which `claims/` tries again.

use duroxide_core::provider::HandOut;

/// What one try to claim something brought.
#[derive(Debug)]
pub(crate) struct ClaimTry<T> {
    pub(crate) found: Vec<T>,
    /// Whether the claim took all it asked for, so that there may be more.
    pub(crate) leaves_more: bool,
    /// Whether the writer may hand out what was found before it commits.
    pub(crate) hand_out: HandOut,
    /// If nothing was found: when something becomes claimable without another write.
    pub(crate) due: Option<i64>,
}

impl<T> ClaimTry<T> {
    pub(crate) fn nothing() -> Self {
        Self {
            found: Vec::new(),
            leaves_more: false,
            hand_out: HandOut::AfterCommit,
            due: None,
        }
    }
}
