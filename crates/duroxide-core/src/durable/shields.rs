//! How much shielded work a group of durable work contains. A group that is asked to cancel is dropped once there is
//! none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The shielded work that is open within one group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shields(Arc<AtomicUsize>);

impl Shields {
    /// Whether the group has to go on.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Some work begins.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Some work that was added is done or dropped.
    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether this is the same group.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
