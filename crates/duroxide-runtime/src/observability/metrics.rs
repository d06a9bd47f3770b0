//! Counters and gauges: one increment per fact, one label set per name.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use ::metrics::Label;
use duroxide_core::provider::StoreReadings;
use duroxide_core::{AppErrorKind, ErrorDetails};

use super::ObservabilityConfig;
use super::counts::{Counts, MetricsSnapshot};
use super::labels::Values;
use super::sink::Sink;

macro_rules! counter {
    ($self:ident, $name:literal $(, $key:literal => $value:expr)* $(,)?) => {
        $self.sink.counter($name, vec![$(Label::new($key, $value)),*])
    };
}
macro_rules! gauge {
    ($self:ident, $name:literal) => {
        $self.sink.gauge($name, Vec::new())
    };
}
macro_rules! histogram {
    ($self:ident, $name:literal $(, $key:literal => $value:expr)* $(,)?) => {
        $self.sink.histogram($name, vec![$(Label::new($key, $value)),*])
    };
}

/// Records what a runtime does, for the `metrics` facade and for [`MetricsSnapshot`].
#[derive(Debug, Default)]
pub struct MetricsProvider {
    pub(super) counts: Counts,
    pub(super) sink: Sink,
    pub(super) owed: super::owed::Owed,
    /// Names of handlers and their versions, as messages and histories have them.
    names: Values,
    versions: Values,
    tags: Values,
    active: AtomicI64,
    orchestrator_depth: AtomicU64,
    worker_depth: AtomicU64,
}

fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Few values, so that the label stays bounded.
pub(super) fn turn_bucket(turns: u64) -> &'static str {
    match turns {
        0..=5 => "1-5",
        6..=10 => "6-10",
        11..=50 => "11-50",
        _ => "50+",
    }
}

impl MetricsProvider {
    /// Fresh counters.
    ///
    /// # Errors
    ///
    /// Never; kept for the published signature.
    pub fn new(_config: &ObservabilityConfig) -> Result<Self, String> {
        Ok(Self::default())
    }

    /// Ends recording.
    pub async fn shutdown(self) {}

    /// An execution began.
    pub fn record_orchestration_start(&self, name: &str, version: &str, initiated_by: &str) {
        bump(&self.counts.orch_starts);
        counter!(self, "duroxide_orchestration_starts_total",
            "orchestration_name" => self.names.bounded(name), "version" => self.versions.bounded(version),
            "initiated_by" => initiated_by.to_owned())
        .increment(1);
    }

    /// An execution ended: `success`, `failed`, `cancelled`, `poison` or `continuedAsNew`.
    pub fn record_orchestration_completion(
        &self,
        name: &str,
        version: &str,
        status: &str,
        duration_seconds: f64,
        turns: u64,
        history_events: u64,
    ) {
        if status == "success" {
            bump(&self.counts.orch_completions);
        }
        let (name, version) = (self.names.bounded(name), self.versions.bounded(version));
        let status = status.to_owned();
        counter!(self, "duroxide_orchestration_completions_total",
            "orchestration_name" => name.clone(), "version" => version.clone(),
            "status" => status.clone(), "final_turn_count" => turn_bucket(turns))
        .increment(1);
        histogram!(self, "duroxide_orchestration_turns", "orchestration_name" => name.clone())
            .record(turns as f64);
        histogram!(self, "duroxide_orchestration_duration_seconds",
            "orchestration_name" => name.clone(), "version" => version, "status" => status)
        .record(duration_seconds);
        histogram!(self, "duroxide_orchestration_history_size", "orchestration_name" => name)
            .record(history_events as f64);
    }

    /// An execution failed.
    pub fn record_orchestration_failure(&self, name: &str, version: &str, details: &ErrorDetails) {
        bump(&self.counts.orch_failures);
        let error_type = match details {
            ErrorDetails::Application { kind, .. } => {
                bump(&self.counts.orch_application_errors);
                match kind {
                    AppErrorKind::Cancelled { .. } => "cancelled",
                    AppErrorKind::ActivityFailed
                    | AppErrorKind::OrchestrationFailed
                    | AppErrorKind::Panicked => "app_error",
                }
            }
            ErrorDetails::Infrastructure { .. } => {
                bump(&self.counts.orch_infrastructure_errors);
                counter!(self, "duroxide_orchestration_infrastructure_errors_total",
                    "orchestration_name" => self.names.bounded(name))
                .increment(1);
                "infrastructure_error"
            }
            ErrorDetails::Configuration { .. } => {
                bump(&self.counts.orch_configuration_errors);
                counter!(self, "duroxide_orchestration_configuration_errors_total",
                    "orchestration_name" => self.names.bounded(name))
                .increment(1);
                "config_error"
            }
            ErrorDetails::Poison { .. } => {
                bump(&self.counts.orch_poison);
                counter!(self, "duroxide_orchestration_poison_total").increment(1);
                "poison"
            }
        };
        counter!(self, "duroxide_orchestration_failures_total",
            "orchestration_name" => self.names.bounded(name), "version" => self.versions.bounded(version),
            "error_type" => error_type, "error_category" => details.category())
        .increment(1);
    }

    /// An execution was followed by another.
    pub fn record_continue_as_new(&self, name: &str) {
        bump(&self.counts.continue_as_new);
        counter!(self, "duroxide_orchestration_continue_as_new_total", "orchestration_name" => self.names.bounded(name))
            .increment(1);
    }

    /// An activity ended: `success`, `app_error` or `cancelled`.
    pub fn record_activity(
        &self,
        name: &str,
        outcome: &'static str,
        attempt: u32,
        tag: Option<&str>,
        seconds: f64,
    ) {
        match outcome {
            "success" => bump(&self.counts.activity_success),
            "app_error" => bump(&self.counts.activity_app_errors),
            _ => {}
        }
        let tag = self.tags.bounded(tag.unwrap_or("default"));
        counter!(self, "duroxide_activity_executions_total",
            "activity_name" => self.names.bounded(name), "outcome" => outcome,
            "retry_attempt" => attempt.saturating_sub(1).min(10).to_string(), "tag" => tag.clone())
        .increment(1);
        histogram!(self, "duroxide_activity_duration_seconds",
            "activity_name" => self.names.bounded(name), "outcome" => outcome, "tag" => tag)
        .record(seconds);
    }

    /// An activity's result could not be stored.
    pub fn record_activity_infra_error(&self, name: &str) {
        bump(&self.counts.activity_infra_errors);
        counter!(self, "duroxide_activity_infrastructure_errors_total", "activity_name" => self.names.bounded(name))
            .increment(1);
    }

    /// An activity is not registered here.
    pub fn record_activity_config_error(&self, name: &str) {
        bump(&self.counts.activity_config_errors);
        counter!(self, "duroxide_activity_configuration_errors_total", "activity_name" => self.names.bounded(name))
            .increment(1);
    }

    /// An activity was tried too often.
    pub fn record_activity_poison(&self) {
        bump(&self.counts.activity_poison);
        counter!(self, "duroxide_activity_poison_total").increment(1);
    }

    /// A child was started.
    pub fn record_suborchestration_call(&self, parent: &str, child: &str) {
        bump(&self.counts.children);
        counter!(self, "duroxide_suborchestration_calls_total",
            "parent_orchestration" => self.names.bounded(parent),
            "child_orchestration" => self.names.bounded(child))
        .increment(1);
    }

    /// The result of a child reached its parent: `success`, `failed`, `cancelled` or `poison`. The time is from the
    /// event that scheduled it to that result.
    pub fn record_suborchestration_duration(
        &self,
        parent: &str,
        child: &str,
        outcome: &'static str,
        seconds: f64,
    ) {
        histogram!(self, "duroxide_suborchestration_duration_seconds",
            "parent_orchestration" => self.names.bounded(parent),
            "child_orchestration" => self.names.bounded(child),
            "outcome" => outcome)
        .record(seconds);
    }

    /// A message was consumed without effect. The reason is one of few words: `ended`, `unknown_instance`, or what
    /// `duroxide_core::replay::Unused` says.
    pub fn record_dropped_message(&self, reason: &'static str) {
        bump(&self.counts.dropped);
        counter!(self, "duroxide_dropped_messages_total", "reason" => reason).increment(1);
    }

    /// A message became a dead letter because of what this runtime saw: `poison` or `wrong_kind`.
    pub fn record_dead_lettered_message(&self, reason: &'static str) {
        bump(&self.counts.dead_lettered);
        counter!(self, "duroxide_dead_lettered_messages_total", "reason" => reason).increment(1);
    }

    /// A store call ended: `success` or `error`.
    pub fn record_provider_operation(
        &self,
        operation: &'static str,
        seconds: f64,
        status: &'static str,
    ) {
        histogram!(self, "duroxide_provider_operation_duration_seconds",
            "operation" => operation, "status" => status)
        .record(seconds);
    }

    /// A store call failed: `retryable` or `permanent`.
    pub fn record_provider_error(&self, operation: &'static str, error_type: &'static str) {
        bump(&self.counts.provider_errors);
        counter!(self, "duroxide_provider_errors_total",
            "operation" => operation, "error_type" => error_type)
        .increment(1);
    }

    /// Turns were claimed.
    pub fn record_turns_claimed(&self, count: u64) {
        self.counts.orch_items.fetch_add(count, Ordering::Relaxed);
        counter!(self, "duroxide_orchestration_dispatcher_items_fetched").increment(count);
    }

    /// Activities were claimed.
    pub fn record_work_claimed(&self, count: u64) {
        self.counts.worker_items.fetch_add(count, Ordering::Relaxed);
        counter!(self, "duroxide_worker_dispatcher_items_fetched").increment(count);
    }

    /// A turn was processed.
    pub fn record_turn_duration(&self, milliseconds: f64) {
        histogram!(
            self,
            "duroxide_orchestration_dispatcher_processing_duration_ms"
        )
        .record(milliseconds);
    }

    /// An activity was processed, its acknowledgement included.
    pub fn record_work_duration(&self, milliseconds: f64) {
        histogram!(self, "duroxide_worker_dispatcher_execution_duration_ms").record(milliseconds);
    }

    /// A turn found its orchestration in memory, or not.
    pub fn record_sticky(&self, hit: bool) {
        if hit {
            bump(&self.counts.sticky_hits);
            counter!(self, "duroxide_sticky_hits_total").increment(1);
        } else {
            bump(&self.counts.sticky_misses);
            counter!(self, "duroxide_sticky_misses_total").increment(1);
        }
    }

    /// A suspended orchestration had to leave memory.
    pub fn record_sticky_eviction(&self) {
        bump(&self.counts.sticky_evictions);
        counter!(self, "duroxide_sticky_evictions_total").increment(1);
    }

    /// Sets both queue gauges.
    pub fn update_queue_depths(&self, orchestrator: u64, worker: u64) {
        self.orchestrator_depth
            .store(orchestrator, Ordering::Relaxed);
        self.worker_depth.store(worker, Ordering::Relaxed);
        gauge!(self, "duroxide_orchestrator_queue_depth").set(orchestrator as f64);
        gauge!(self, "duroxide_worker_queue_depth").set(worker as f64);
    }

    /// Both queue gauges.
    #[must_use]
    pub fn get_queue_depths(&self) -> (u64, u64) {
        (
            self.orchestrator_depth.load(Ordering::Relaxed),
            self.worker_depth.load(Ordering::Relaxed),
        )
    }

    /// One more running orchestration.
    pub fn increment_active_orchestrations(&self) {
        let now = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        gauge!(self, "duroxide_active_orchestrations").set(now as f64);
    }

    /// One running orchestration less; never below zero.
    pub fn decrement_active_orchestrations(&self) {
        let decremented = self
            .active
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                Some((n - 1).max(0))
            });
        let now = decremented.map_or(0, |before| (before - 1).max(0));
        gauge!(self, "duroxide_active_orchestrations").set(now as f64);
    }

    /// Sets the running orchestrations, as the store counts them.
    pub fn set_active_orchestrations(&self, count: i64) {
        self.active.store(count, Ordering::Relaxed);
        gauge!(self, "duroxide_active_orchestrations").set(count as f64);
    }

    /// Sets how much ready work waits for a handler that this node does not have.
    pub fn set_waiting_for_code(&self, count: u64) {
        gauge!(self, "duroxide_work_waiting_for_code").set(count as f64);
    }

    /// Dead letters in the store.
    pub fn set_dead_letters(&self, count: u64) {
        gauge!(self, "duroxide_dead_letters").set(count as f64);
    }

    /// How the store itself is doing, as far as it says so.
    pub fn set_store_readings(&self, readings: &StoreReadings) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = readings.commits {
            counter!(self, "duroxide_store_commits_total").absolute(count);
        }
        if let Some(count) = readings.commit_requests {
            counter!(self, "duroxide_store_commit_requests_total").absolute(count);
        }
        if let Some(time) = readings.commit_time {
            counter!(self, "duroxide_store_commit_microseconds_total").absolute(micros(time));
        }
        if let Some(time) = readings.commit_time_max {
            gauge!(self, "duroxide_store_commit_seconds_max").set(time.as_secs_f64());
        }
        if let Some(count) = readings.busy_waits {
            counter!(self, "duroxide_store_busy_waits_total").absolute(count);
        }
        if let Some(count) = readings.writer_queue {
            gauge!(self, "duroxide_store_writer_queue_depth").set(count as f64);
        }
        if let Some(bytes) = readings.log_bytes {
            gauge!(self, "duroxide_store_log_bytes").set(bytes as f64);
        }
        if let Some(age) = readings.checkpoint_age {
            gauge!(self, "duroxide_store_checkpoint_age_seconds").set(age.as_secs_f64());
        }
        if let Some(count) = readings.checkpoint_failures {
            counter!(self, "duroxide_store_checkpoint_failures_total").absolute(count);
        }
        if let Some(bytes) = readings.free_bytes {
            gauge!(self, "duroxide_store_free_bytes").set(bytes as f64);
        }
        if let Some(bytes) = readings.file_bytes {
            gauge!(self, "duroxide_store_file_bytes").set(bytes as f64);
        }
    }

    /// Running orchestrations.
    #[must_use]
    pub fn get_active_orchestrations(&self) -> i64 {
        self.active.load(Ordering::Relaxed)
    }

    /// The counters as they are now.
    #[must_use]
    pub fn snapshot(&self) -> MetricsSnapshot {
        self.counts.snapshot()
    }
}
