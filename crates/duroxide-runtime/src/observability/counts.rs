//! The counters of one runtime, as numbers: what [`MetricsSnapshot`] shows without a recorder.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters as they were at one moment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MetricsSnapshot {
    pub orch_starts: u64,
    pub orch_completions: u64,
    pub orch_failures: u64,
    pub orch_application_errors: u64,
    pub orch_infrastructure_errors: u64,
    pub orch_configuration_errors: u64,
    pub orch_poison: u64,
    pub activity_success: u64,
    pub activity_app_errors: u64,
    pub activity_infra_errors: u64,
    pub activity_config_errors: u64,
    pub activity_poison: u64,
    pub orch_dispatcher_items_fetched: u64,
    pub worker_dispatcher_items_fetched: u64,
    pub orch_continue_as_new: u64,
    pub suborchestration_calls: u64,
    pub provider_errors: u64,
    pub sticky_hits: u64,
    pub sticky_misses: u64,
    pub sticky_evictions: u64,
    pub dropped_messages: u64,
    pub dead_lettered_messages: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) orch_starts: AtomicU64,
    pub(super) orch_completions: AtomicU64,
    pub(super) orch_failures: AtomicU64,
    pub(super) orch_application_errors: AtomicU64,
    pub(super) orch_infrastructure_errors: AtomicU64,
    pub(super) orch_configuration_errors: AtomicU64,
    pub(super) orch_poison: AtomicU64,
    pub(super) activity_success: AtomicU64,
    pub(super) activity_app_errors: AtomicU64,
    pub(super) activity_infra_errors: AtomicU64,
    pub(super) activity_config_errors: AtomicU64,
    pub(super) activity_poison: AtomicU64,
    pub(super) orch_items: AtomicU64,
    pub(super) worker_items: AtomicU64,
    pub(super) continue_as_new: AtomicU64,
    pub(super) children: AtomicU64,
    pub(super) provider_errors: AtomicU64,
    pub(super) sticky_hits: AtomicU64,
    pub(super) sticky_misses: AtomicU64,
    pub(super) sticky_evictions: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) dead_lettered: AtomicU64,
}

impl Counts {
    /// Sets every counter to zero.
    pub(super) fn reset(&self) {
        let all = [
            &self.orch_starts,
            &self.orch_completions,
            &self.orch_failures,
            &self.orch_application_errors,
            &self.orch_infrastructure_errors,
            &self.orch_configuration_errors,
            &self.orch_poison,
            &self.activity_success,
            &self.activity_app_errors,
            &self.activity_infra_errors,
            &self.activity_config_errors,
            &self.activity_poison,
            &self.orch_items,
            &self.worker_items,
            &self.continue_as_new,
            &self.children,
            &self.provider_errors,
            &self.sticky_hits,
            &self.sticky_misses,
            &self.sticky_evictions,
            &self.dropped,
            &self.dead_lettered,
        ];
        for counter in all {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The counters as they are.
    pub(super) fn snapshot(&self) -> MetricsSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MetricsSnapshot {
            orch_starts: read(&self.orch_starts),
            orch_completions: read(&self.orch_completions),
            orch_failures: read(&self.orch_failures),
            orch_application_errors: read(&self.orch_application_errors),
            orch_infrastructure_errors: read(&self.orch_infrastructure_errors),
            orch_configuration_errors: read(&self.orch_configuration_errors),
            orch_poison: read(&self.orch_poison),
            activity_success: read(&self.activity_success),
            activity_app_errors: read(&self.activity_app_errors),
            activity_infra_errors: read(&self.activity_infra_errors),
            activity_config_errors: read(&self.activity_config_errors),
            activity_poison: read(&self.activity_poison),
            orch_dispatcher_items_fetched: read(&self.orch_items),
            worker_dispatcher_items_fetched: read(&self.worker_items),
            orch_continue_as_new: read(&self.continue_as_new),
            suborchestration_calls: read(&self.children),
            provider_errors: read(&self.provider_errors),
            sticky_hits: read(&self.sticky_hits),
            sticky_misses: read(&self.sticky_misses),
            sticky_evictions: read(&self.sticky_evictions),
            dropped_messages: read(&self.dropped),
            dead_lettered_messages: read(&self.dead_lettered),
        }
    }
}
