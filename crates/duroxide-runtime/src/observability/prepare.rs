//! Everything that a runtime may record, recorded once: for recorders that belong to the thread that starts it. In: the
//! names of the handlers. Out: every metric registered with every label it can have; nothing counted.

use std::time::Duration;

use duroxide_core::provider::{StoreReadings, TagFilter};
use duroxide_core::replay::Unused;
use duroxide_core::{ConfigErrorKind, ErrorDetails, PoisonMessageType};

use super::MetricsProvider;
use crate::registry::{ActivityRegistry, OrchestrationRegistry};

const STATUSES: [&str; 5] = ["success", "failed", "cancelled", "poison", "continuedAsNew"];
/// One number of turns for each bucket of the label.
const TURNS: [u64; 4] = [1, 6, 11, 51];
const OPERATIONS: [&str; 21] = [
    "fetch_orchestration_item",
    "ack_orchestration_item",
    "abandon_orchestration_item",
    "renew_orchestration_item_lock",
    "fetch_work_item",
    "ack_work_item",
    "abandon_work_item",
    "renew_work_item_lock",
    "renew_session_lock",
    "cleanup_orphaned_sessions",
    "enqueue_orchestrator",
    "enqueue_for_worker",
    "read",
    "read_with_execution",
    "read_outcome",
    "execution_handler",
    "lost_work_items",
    "get_kv_value",
    "dead_letter_messages",
    "rest_orchestration_item",
    "store_lease",
];

impl MetricsProvider {
    /// Registers all metrics with the recorder of this thread, if it has one of its own.
    pub(crate) fn prepare(
        &self,
        orchestrations: &OrchestrationRegistry,
        activities: &ActivityRegistry,
        tags: &TagFilter,
    ) {
        let prepared = self.sink.prepare(|| {
            for name in orchestrations.list_names() {
                for version in orchestrations.list_versions(&name) {
                    self.prepare_orchestration(&name, &version.to_string(), orchestrations);
                }
            }
            for name in activities.list_names() {
                self.prepare_activity(&name, tags);
            }
            self.prepare_engine();
        });
        if prepared {
            self.counts.reset();
        }
    }

    fn prepare_orchestration(&self, name: &str, version: &str, all: &OrchestrationRegistry) {
        for initiated_by in ["client", "continueAsNew"] {
            self.record_orchestration_start(name, version, initiated_by);
        }
        for status in STATUSES {
            for turns in TURNS {
                self.record_orchestration_completion(name, version, status, 0.0, turns, 0);
            }
        }
        for details in failures() {
            self.record_orchestration_failure(name, version, &details);
        }
        self.record_continue_as_new(name);
        for child in all.list_names() {
            self.record_suborchestration_call(name, &child);
            for outcome in ["success", "failed", "cancelled", "poison"] {
                self.record_suborchestration_duration(name, &child, outcome, 0.0);
            }
        }
    }

    fn prepare_activity(&self, name: &str, filter: &TagFilter) {
        let tags: Vec<Option<&str>> = match filter {
            TagFilter::Tags(tags) => tags.iter().map(|tag| Some(tag.as_str())).collect(),
            TagFilter::DefaultAnd(tags) => {
                let tagged = tags.iter().map(|tag| Some(tag.as_str()));
                tagged.chain([None]).collect()
            }
            TagFilter::DefaultOnly | TagFilter::Any | TagFilter::None => vec![None],
        };
        for tag in tags {
            for outcome in ["success", "app_error", "cancelled"] {
                for attempt in 1..=11 {
                    self.record_activity(name, outcome, attempt, tag, 0.0);
                }
            }
        }
        self.record_activity_infra_error(name);
        self.record_activity_config_error(name);
    }

    fn prepare_engine(&self) {
        self.record_activity_poison();
        for unused in Unused::ALL {
            self.record_dropped_message(unused.as_str());
        }
        for reason in ["ended", "unknown_instance", "wrong_kind"] {
            self.record_dropped_message(reason);
        }
        for reason in ["poison", "wrong_kind", "stray"] {
            self.record_dead_lettered_message(reason);
        }
        for operation in OPERATIONS {
            for status in ["success", "error"] {
                self.record_provider_operation(operation, 0.0, status);
            }
            for class in ["retryable", "permanent"] {
                self.record_provider_error(operation, class);
            }
        }
        self.record_turns_claimed(0);
        self.record_work_claimed(0);
        self.record_turn_duration(0.0);
        self.record_work_duration(0.0);
        self.record_sticky(true);
        self.record_sticky(false);
        self.record_sticky_eviction();
        self.update_queue_depths(0, 0);
        self.set_active_orchestrations(0);
        self.set_waiting_for_code(0);
        self.set_dead_letters(0);
        self.set_store_readings(&known_readings());
    }
}

/// Readings of which every one is known.
fn known_readings() -> StoreReadings {
    let mut readings = StoreReadings::default();
    readings.commits = Some(0);
    readings.commit_requests = Some(0);
    readings.commit_time = Some(Duration::ZERO);
    readings.commit_time_max = Some(Duration::ZERO);
    readings.busy_waits = Some(0);
    readings.writer_queue = Some(0);
    readings.log_bytes = Some(0);
    readings.checkpoint_age = Some(Duration::ZERO);
    readings.checkpoint_failures = Some(0);
    readings.free_bytes = Some(0);
    readings.file_bytes = Some(0);
    readings
}

/// One failure for each value of the failure label.
fn failures() -> [ErrorDetails; 5] {
    [
        ErrorDetails::orchestration_failed(""),
        ErrorDetails::cancelled(""),
        ErrorDetails::Infrastructure {
            operation: String::new(),
            message: String::new(),
            retryable: false,
        },
        ErrorDetails::Configuration {
            kind: ConfigErrorKind::Nondeterminism,
            resource: String::new(),
            message: None,
        },
        ErrorDetails::Poison {
            attempt_count: 0,
            max_attempts: 0,
            message_type: PoisonMessageType::Orchestration {
                instance: String::new(),
                execution_id: 0,
            },
            message: String::new(),
        },
    ]
}
