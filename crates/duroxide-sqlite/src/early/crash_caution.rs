//! Whether an instance may be handed out before its claim is committed. In: how the store was opened, rollbacks,
//! committed turns. Out: yes or no. Never reads a table. The [protocol](super) gives the reasons.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::connection::LastShutdown;
use crate::kill;

/// How long after an unclean shutdown every turn is handed out after its commit.
pub(crate) const AFTER_UNCLEAN_SHUTDOWN: Duration = Duration::from_secs(60);
/// How many distrusted instances are kept; with more than this, all are dropped.
const DISTRUSTED_MAX: usize = 8_192;

/// Keeps turns that may bring the process down from being tried without being counted.
pub(crate) struct CrashCaution {
    opened_at_ms: i64,
    /// Until then every turn is handed out after its commit.
    until: Instant,
    /// Instances that were in flight in a transaction that was rolled back.
    distrusted: RefCell<HashSet<String>>,
}

impl CrashCaution {
    /// For a store that is opened now.
    pub(crate) fn new(last: LastShutdown, now_ms: i64) -> Self {
        let now = Instant::now();
        Self {
            opened_at_ms: now_ms,
            until: match last {
                LastShutdown::Clean => now,
                LastShutdown::Unclean if kill::skip_crash_caution() => now,
                LastShutdown::Unclean => now + AFTER_UNCLEAN_SHUTDOWN,
            },
            distrusted: RefCell::default(),
        }
    }

    /// Whether a turn of the instance may be handed out early, as far as its messages allow that.
    pub(crate) fn allows(&self, instance: &str) -> bool {
        Instant::now() >= self.until && !self.distrusted.borrow().contains(instance)
    }

    /// Whether a message was enqueued after this process opened the store.
    pub(crate) fn came_since_opening(&self, created_at_ms: i64) -> bool {
        created_at_ms >= self.opened_at_ms
    }

    /// A transaction that had handed out turns of these instances was rolled back; one of them may be the cause.
    pub(crate) fn distrust(&self, instances: impl IntoIterator<Item = String>) {
        let mut distrusted = self.distrusted.borrow_mut();
        if distrusted.len() >= DISTRUSTED_MAX {
            distrusted.clear();
        }
        distrusted.extend(instances);
    }

    /// A turn of the instance was committed.
    pub(crate) fn trust(&self, instance: &str) {
        let mut distrusted = self.distrusted.borrow_mut();
        if !distrusted.is_empty() {
            distrusted.remove(instance);
        }
    }
}
