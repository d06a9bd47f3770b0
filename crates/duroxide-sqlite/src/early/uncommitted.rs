//! Whether turns are handed out whose claim is not committed. In: the writer sets it. Out: callers ask it before they
//! choose between a reader and the writer.

use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the writer thread and the callers of a store. The [protocol](super) describes its use.
#[derive(Debug, Default)]
pub(crate) struct Uncommitted(AtomicBool);

impl Uncommitted {
    /// The writer sets it before it hands out the first turn of a transaction, and clears it when the transaction is
    /// over.
    pub(crate) fn set(&self, any: bool) {
        self.0.store(any, Ordering::SeqCst);
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
