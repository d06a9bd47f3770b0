//! Counting the ends of executions. In: an end just before it is committed. Out: the counters, and a correction if the
//! commit did not happen.
//!
//! The commit wakes clients, and a client that looks at the counters then must find its instance counted. Counters of
//! the `metrics` facade cannot go back; so an end that was taken back is owed, and the next one like it is not counted.

use std::sync::atomic::Ordering;

use duroxide_core::ErrorDetails;

use super::metrics::MetricsProvider;
use super::owed::Key;

/// The end of an execution, as it is counted.
#[derive(Debug, Clone)]
pub(crate) struct ExecutionEnd {
    pub(crate) name: String,
    pub(crate) version: String,
    /// `success`, `failed`, `cancelled`, `poison` or `continuedAsNew`.
    pub(crate) status: &'static str,
    pub(crate) failure: Option<ErrorDetails>,
    pub(crate) seconds: f64,
    pub(crate) turns: u64,
    pub(crate) history_events: u64,
}

/// The end of one attempt of an activity, as it is counted.
#[derive(Debug, Clone)]
pub(crate) struct ActivityEnd {
    pub(crate) name: String,
    /// `success`, `app_error`, `cancelled` or `poison`.
    pub(crate) outcome: &'static str,
    pub(crate) attempt: u32,
    pub(crate) tag: Option<String>,
    pub(crate) seconds: f64,
}

impl ActivityEnd {
    fn key(&self) -> Key {
        (self.name.clone(), String::new(), self.outcome, None)
    }
}

impl ExecutionEnd {
    fn key(&self) -> Key {
        (
            self.name.clone(),
            self.version.clone(),
            self.status,
            self.failure.as_ref().map(ErrorDetails::category),
        )
    }
}

impl MetricsProvider {
    /// Counts an end that is about to be committed.
    pub(crate) fn count_end(&self, end: &ExecutionEnd) {
        if self.owed.take_one(|| end.key()) {
            self.count_in_snapshot(end, 1);
            return;
        }
        if let Some(details) = &end.failure {
            self.record_orchestration_failure(&end.name, &end.version, details);
        }
        self.record_orchestration_completion(
            &end.name,
            &end.version,
            end.status,
            end.seconds,
            end.turns,
            end.history_events,
        );
    }

    /// Takes back an end whose commit did not happen.
    pub(crate) fn take_back_end(&self, end: &ExecutionEnd) {
        self.count_in_snapshot(end, u64::MAX);
        self.owed.add(end.key());
    }

    /// Adds to the counters of the snapshot alone; wraps, so that `u64::MAX` takes one away.
    fn count_in_snapshot(&self, end: &ExecutionEnd, change: u64) {
        let counts = &self.counts;
        let mut counters = Vec::with_capacity(2);
        if end.status == "success" {
            counters.push(&counts.orch_completions);
        }
        if let Some(details) = &end.failure {
            counters.push(&counts.orch_failures);
            counters.push(match details {
                ErrorDetails::Application { .. } => &counts.orch_application_errors,
                ErrorDetails::Infrastructure { .. } => &counts.orch_infrastructure_errors,
                ErrorDetails::Configuration { .. } => &counts.orch_configuration_errors,
                ErrorDetails::Poison { .. } => &counts.orch_poison,
            });
        }
        for counter in counters {
            counter.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Counts the end of an activity that is about to be stored.
    pub(crate) fn count_activity(&self, end: &ActivityEnd) {
        if self.owed.take_one(|| end.key()) {
            self.count_activity_in_snapshot(end, 1);
            return;
        }
        if end.outcome == "poison" {
            self.record_activity_poison();
            return;
        }
        let tag = end.tag.as_deref();
        self.record_activity(&end.name, end.outcome, end.attempt, tag, end.seconds);
    }

    /// Takes back the end of an activity that was not stored.
    pub(crate) fn take_back_activity(&self, end: &ActivityEnd) {
        self.count_activity_in_snapshot(end, u64::MAX);
        self.owed.add(end.key());
    }

    fn count_activity_in_snapshot(&self, end: &ActivityEnd, change: u64) {
        let counter = match end.outcome {
            "success" => &self.counts.activity_success,
            "app_error" => &self.counts.activity_app_errors,
            "poison" => &self.counts.activity_poison,
            _ => return,
        };
        counter.fetch_add(change, Ordering::Relaxed);
    }
}
