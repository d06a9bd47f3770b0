//! Blocked instances that this node has seen. In: reports. Out: the list an operator reads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::provider::{BlockedInstance, Incarnation};
use tokio::time::Instant;

use crate::options::UnregisteredBackoffConfig;

/// A report is dropped this long after its instance was due to be tried again: another node has it, or it is gone.
const OVERDUE: Duration = Duration::from_secs(5);
/// And forgotten after this time, so that reports do not pile up in a program that never lists them.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// How many bytes of a report a store keeps.
const REPORT_BYTES_MAX: usize = 4_000;

/// Cuts a report to what a store keeps of it.
pub(crate) fn shorten(blocked: &mut BlockedInstance) {
    let report = &mut blocked.report;
    if report.len() > REPORT_BYTES_MAX {
        let is_short = |end: &usize| *end <= REPORT_BYTES_MAX;
        let ends = report.char_indices().map(|(at, _)| at);
        let end = ends.take_while(is_short).last().unwrap_or(0);
        report.truncate(end);
    }
}

/// Why an instance is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockCause {
    /// What comes next may be another story: other code, a store that takes it.
    MayPass,
    /// The code waits for something that is not durable. A replay by the same code looks healthy until that happens
    /// again; so it is not tried again in this process.
    ThisCode,
}

struct Entry {
    cause: BlockCause,
    incarnation: Option<Incarnation>,
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
        let entries = self.entries();
        let listed = entries
            .values()
            .filter(|entry| now < entry.retry_at + OVERDUE);
        let mut all: Vec<_> = listed.map(|entry| entry.instance.clone()).collect();
        all.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
        all
    }

    /// The report of an execution, in this life of its instance, that this code cannot run.
    pub(crate) fn by_this_code(
        &self,
        instance: &str,
        incarnation: Option<Incarnation>,
        execution_id: u64,
    ) -> Option<String> {
        let entries = self.entries();
        let entry = entries.get(instance)?;
        let is_it = entry.cause == BlockCause::ThisCode
            && entry.incarnation == incarnation
            && entry.instance.execution_id == execution_id;
        is_it.then(|| entry.instance.report.clone())
    }

    /// Forgets an instance that went on.
    pub(crate) fn remove(&self, instance: &str) {
        self.entries().remove(instance);
    }

    /// Remembers a report, whose number of tries is counted here; returns how long the instance rests, and the report
    /// with that number.
    pub(crate) fn insert(
        &self,
        mut blocked: BlockedInstance,
        incarnation: Option<Incarnation>,
        cause: BlockCause,
        backoff: &UnregisteredBackoffConfig,
    ) -> (Duration, BlockedInstance) {
        let mut entries = self.entries();
        let before = entries
            .get(&blocked.instance_id)
            .filter(|entry| entry.incarnation == incarnation);
        blocked.attempts = before.map_or(1, |entry| entry.instance.attempts.saturating_add(1));
        let delay = backoff.delay(blocked.attempts);
        entries.retain(|_, entry| Instant::now() < entry.retry_at + FORGOTTEN);
        let entry = Entry {
            cause,
            incarnation,
            instance: blocked.clone(),
            retry_at: Instant::now() + delay,
        };
        entries.insert(blocked.instance_id.clone(), entry);
        (delay, blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(instance: &str) -> BlockedInstance {
        BlockedInstance {
            instance_id: instance.to_owned(),
            execution_id: 1,
            orchestration_name: "o".to_owned(),
            report: "does not fit".to_owned(),
            attempts: 0,
        }
    }

    #[test]
    fn a_report_of_an_earlier_life_says_nothing_about_a_later_one() {
        let (all, backoff) = (
            BlockedInstances::default(),
            UnregisteredBackoffConfig::default(),
        );
        let (first, second) = (
            Some(Incarnation::from_random(10)),
            Some(Incarnation::from_random(20)),
        );
        for _ in 0..5 {
            all.insert(blocked("i"), first, BlockCause::ThisCode, &backoff);
        }
        assert!(all.by_this_code("i", first, 1).is_some());
        assert!(all.by_this_code("i", second, 1).is_none());
        let (rest, _) = all.insert(blocked("i"), second, BlockCause::MayPass, &backoff);
        assert_eq!(
            rest, backoff.base_delay,
            "the later life begins to count anew"
        );
    }
}
