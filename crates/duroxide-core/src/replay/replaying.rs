//! Whether the code of an orchestration that runs on this very thread repeats what it did before. In: the mark that the
//! engine sets around each poll. Out: an answer for log filters, which see a line and not the orchestration behind it.

use std::cell::Cell;

thread_local! {
    static REPLAYING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is called by an orchestration that is replaying, on this thread, however deep in its calls.
///
/// ```
/// assert!(!duroxide_core::replay::is_replaying_here());
/// ```
#[must_use]
pub fn is_replaying_here() -> bool {
    // A thread that is being torn down replays nothing.
    REPLAYING.try_with(Cell::get).unwrap_or(false)
}

/// Marks this thread until the mark is dropped.
pub(super) fn mark(replaying: bool) -> Mark {
    Mark(REPLAYING.replace(replaying))
}

/// What the thread was before.
pub(super) struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        REPLAYING.set(self.0);
    }
}
