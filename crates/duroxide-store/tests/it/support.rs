//! Messages that several tests send.

use duroxide_core::WorkItem;
use duroxide_validation::items;

/// The start of an instance that no test runs.
pub(crate) fn start(instance: &str) -> WorkItem {
    items::start_of(instance, "Hello", Some("1.0.0"))
}

pub(crate) fn signal(instance: &str) -> WorkItem {
    items::signal_with(instance, "go", "{}")
}
