//! Blocked instances that this node has seen. In: reports. Out: the list an operator reads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::options::UnregisteredBackoffConfig;

/// An instance that cannot go on for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedInstance {
    /// The instance.
    pub instance_id: String,
    /// Its current execution.
    pub execution_id: u64,
    /// The name of its handler.
    pub orchestration_name: String,
    /// What stands in its way: what is recorded against what the code attempted, or what the store said.
    pub report: String,
    /// The number of tries so far.
    pub attempts: u32,
}

/// A report is dropped this long after its instance was due to be tried again: another node has it, or it is gone.
const OVERDUE: Duration = Duration::from_secs(2);

struct Entry {
    instance: BlockedInstance,
    retry_at: Instant,
}

/// The blocked instances that this node has seen, with their reports.
#[derive(Default)]
pub(crate) struct BlockedInstances {
    entries: Mutex<HashMap<String, Entry>>,
}

impl BlockedInstances {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, by id. Those that another node took over, or that are gone, are left out.
    pub(crate) fn list(&self) -> Vec<BlockedInstance> {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.retain(|_, entry| now < entry.retry_at + OVERDUE);
        let mut all: Vec<_> = entries.values().map(|e| e.instance.clone()).collect();
        all.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
        all
    }

    /// Forgets an instance that went on.
    pub(crate) fn remove(&self, instance: &str) {
        self.entries().remove(instance);
    }

    /// Remembers a report, whose number of tries is counted here; returns how long the instance rests.
    pub(crate) fn insert(
        &self,
        mut blocked: BlockedInstance,
        backoff: &UnregisteredBackoffConfig,
    ) -> Duration {
        let mut entries = self.entries();
        let before = entries.get(&blocked.instance_id);
        blocked.attempts = before.map_or(1, |entry| entry.instance.attempts.saturating_add(1));
        let delay = backoff.delay(blocked.attempts);
        let entry = Entry {
            instance: blocked.clone(),
            retry_at: Instant::now() + delay,
        };
        entries.insert(blocked.instance_id, entry);
        delay
    }
}
