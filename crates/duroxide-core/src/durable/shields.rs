//! What a group of durable work has to do with requests to cancel: how much shielded work it contains, and whether its
//! code knows of the request. A group that is asked to cancel is dropped once nothing in it is shielded.
//!
//! Shielded work holds the groups around it if the code asked for it before the request came. What the code shields
//! after that holds a group only if the code in it has heard of the request, and so puts things right. Otherwise
//! shields that follow each other would keep the request away for as long as they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The shielded work that is open within one group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shields(Arc<Group>);

#[derive(Debug, Default)]
struct Group {
    open: AtomicUsize,
    has_heard: AtomicBool,
}

impl Shields {
    /// Whether the group has to go on.
    pub(crate) fn any(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) > 0
    }

    /// Some work begins.
    pub(crate) fn add(&self) {
        self.0.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Some work that was added is done or dropped.
    pub(crate) fn remove(&self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Code in the group was shown the request to cancel.
    pub(crate) fn hear(&self) {
        self.0.has_heard.store(true, Ordering::Relaxed);
    }

    /// Whether code in the group was shown the request to cancel.
    pub(crate) fn has_heard(&self) -> bool {
        self.0.has_heard.load(Ordering::Relaxed)
    }

    /// Whether this is the same group.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
