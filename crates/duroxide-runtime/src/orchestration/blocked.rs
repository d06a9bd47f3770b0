//! Instances that cannot go on for now: their code does not fit their history, or the store refuses what they decided.
//! In: a claimed turn and a report. Out: the claim given back, the report where an operator finds it. Never an end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::commit::{Attempt, give_back};
use super::plan::ExecutionRef;
use crate::engine::Engine;
use crate::leases::Held;
use crate::runtime::BlockedInstance;

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

    /// Remembers a report; returns how long the instance rests.
    fn insert(&self, engine: &Engine, of: &ExecutionRef, report: String) -> Duration {
        let mut entries = self.entries();
        let attempts = entries
            .get(&of.instance)
            .map_or(1, |entry| entry.instance.attempts.saturating_add(1));
        let delay = engine.options.unregistered_backoff.delay(attempts);
        let entry = Entry {
            instance: BlockedInstance {
                instance_id: of.instance.clone(),
                execution_id: of.execution_id,
                orchestration_name: of.name.clone(),
                report,
                attempts,
            },
            retry_at: Instant::now() + delay,
        };
        entries.insert(of.instance.clone(), entry);
        delay
    }
}

/// Leaves an instance as it is, to be tried again later.
pub(super) async fn block(engine: &Engine, lease: Held, of: &ExecutionRef, report: String) {
    tracing::error!(
        target: "duroxide::runtime",
        instance_id = %of.instance,
        execution_id = of.execution_id,
        orchestration_name = %of.name,
        "orchestration blocked: {report}"
    );
    let delay = engine.blocked.insert(engine, of, report);
    give_back(engine, lease, Some(delay), Attempt::Uncounted).await;
}
